#include "compiled.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "ir/print.h"
#include "ir/verify.h"

namespace compiled {

using reference::Tensor;

namespace {

std::filesystem::path folder() {
  static const std::filesystem::path path = [] {
    auto p = std::filesystem::temp_directory_path() / ("precast_loops_" + std::to_string(getpid()));
    std::filesystem::create_directories(p);
    return p;
  }();
  return path;
}

std::string read_file(const std::filesystem::path& p) {
  std::ifstream in(p);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Host {
  int pieces;
  std::string message;
  const std::vector<precast::emit::HostOp>* ops;
  std::function<int64_t(const precast::ir::Symbol&)> sizes;
  std::vector<std::vector<Tensor>> results{};  // live until the call ends
  std::vector<int> order{};
};

void parallel_for(void* context, precast_i64 count, precast_i64, void (*fn)(void*, precast_i64, precast_i64),
                  void* arg) {
  int pieces = static_cast<Host*>(context)->pieces;
  if (pieces < 0) {
    pieces = -pieces;
    std::vector<std::thread> threads;
    for (int p = 0; p < pieces; ++p)
      if (const precast_i64 a = count * p / pieces, b = count * (p + 1) / pieces; a < b)
        threads.emplace_back(fn, arg, a, b);
    for (std::thread& t : threads) t.join();
    return;
  }
  for (int p = pieces; p-- > 0;) {  // in reverse: nothing may depend on the order
    const precast_i64 a = count * p / pieces, b = count * (p + 1) / pieces;
    if (a < b) fn(arg, a, b);
  }
}

int host_op(void* context, precast_i32 index, const precast_i64*, void* const* in, void** out) {
  auto& host = *static_cast<Host*>(context);
  host.order.push_back(index);
  const precast::ir::Graph g = precast::ir::substitute((*host.ops)[static_cast<size_t>(index)].graph, host.sizes);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    Tensor t = reference::make(g.type(g.inputs[i]));
    if (!t.bytes.empty()) std::memcpy(t.bytes.data(), in[i], t.bytes.size());
    inputs.push_back(std::move(t));
  }
  host.results.push_back(reference::Interpreter(g, inputs).outputs());
  for (size_t i = 0; i < g.outputs.size(); ++i) out[i] = host.results.back()[i].bytes.data();
  return 0;
}

void fail(void* context, precast_i32, const char* message) { static_cast<Host*>(context)->message = message; }

}  // namespace

Batch::~Batch() {
  for (void* l : libraries_) dlclose(l);
  std::filesystem::remove_all(folder());
}

int Batch::add(const std::string& text, const precast::emit::LowerConfig& config) {
  Case c;
  c.graph = precast::ir::parse(text);
  precast::ir::verify(c.graph, "test");
  c.emitted = precast::emit::lower(c.graph, config);
  cases_.push_back(std::move(c));
  return static_cast<int>(cases_.size()) - 1;
}

void Batch::compile() {
  std::filesystem::create_directories(folder());
  static int batches = 0;
  const int batch = batches++;
  const size_t files = 2;
  std::string commands;
  const char* extra = std::getenv("PRECAST_LOOPS_FLAGS");
  std::set<std::string> routines;
  for (const Case& c : cases_) routines.insert(c.emitted.routines.begin(), c.emitted.routines.end());
  for (size_t f = 0; f < files; ++f) {
    const auto base = folder() / (std::to_string(batch) + "_" + std::to_string(f));
    std::ofstream out(base.string() + ".cpp");
    out << read_file(std::filesystem::path(PRECAST_SOURCES) / "include/precast/artifact_abi.h")
        << "#define PRECAST_ISA " << options_.isa << "\n#define PRECAST_VECTOR_BYTES " << options_.vector_bytes
        << "\nnamespace {\n"
        << precast::emit::preamble_with(routines);
    for (size_t i = f; i < cases_.size(); i += files) {
      out << "namespace c" << i << " {\n";
      for (const std::string& part : cases_[i].emitted.parts) out << part;
      out << cases_[i].emitted.run << "}\n";
    }
    out << "}\n";
    for (size_t i = f; i < cases_.size(); i += files)
      out << "extern \"C\" int run_" << i << "(void* f) { return c" << i << "::precast_run((precast_frame*)f); }\n"
          << "extern \"C\" int prepare_" << i << "(void* f) { return c" << i
          << "::precast_prepare((precast_frame*)f); }\n";
    out.close();
    commands += options_.compiler + " -std=c++17 -shared -fPIC " + options_.flags + " " + (extra ? extra : "") + " " +
                base.string() + ".cpp -o " + base.string() + ".so 2> " + base.string() + ".log & p" +
                std::to_string(f) + "=$!; ";
  }
  commands += "wait $p0 && wait $p1";
  if (std::system(commands.c_str()) != 0) {
    std::string log;
    for (size_t f = 0; f < files; ++f)
      log += read_file(folder() / (std::to_string(batch) + "_" + std::to_string(f) + ".log")).substr(0, 4000);
    throw std::runtime_error("the compiler failed:\n" + log);
  }
  for (size_t f = 0; f < files; ++f) {
    const auto so = folder() / (std::to_string(batch) + "_" + std::to_string(f) + ".so");
    void* library = dlopen(so.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    libraries_.push_back(library);
    for (size_t i = f; i < cases_.size(); i += files) {
      cases_[i].run = dlsym(library, ("run_" + std::to_string(i)).c_str());
      cases_[i].prepare = dlsym(library, ("prepare_" + std::to_string(i)).c_str());
    }
  }
}

namespace {

/// Bytes that end where memory does: to read or write behind them is a fault.
class Fenced {
 public:
  explicit Fenced(size_t bytes) : size_((bytes + kPage - 1) / kPage * kPage + kPage) {
    start_ = static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start_ == MAP_FAILED || mprotect(start_ + size_ - kPage, kPage, PROT_NONE) != 0)
      throw std::runtime_error("no memory for a test");
    data_ = start_ + size_ - kPage - bytes;
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(start_, size_); }
  void* data() const { return data_; }

 private:
  static constexpr size_t kPage = 4096;
  size_t size_;
  char *start_, *data_;
};

std::function<int64_t(const precast::ir::Symbol&)> lookup(const precast::ir::Graph& g,
                                                          const std::vector<int64_t>& sizes) {
  return [&g, sizes](const precast::ir::Symbol& s) {
    for (size_t k = 0; k < sizes.size(); ++k)
      if (g.symbols[k].id == s.id) return sizes[k];
    throw std::runtime_error("no value for a symbol");
  };
}

}  // namespace

precast::ir::Graph Batch::with_sizes(int i, const std::vector<int64_t>& sizes) const {
  return precast::ir::substitute(graph(i), lookup(graph(i), sizes));
}

Batch::Result Batch::run(int i, const precast::ir::Graph& g, const std::vector<Tensor>& inputs, int pieces, bool frozen,
                         const std::vector<int64_t>& sizes) {
  const Case& c = cases_[static_cast<size_t>(i)];
  Result r;
  std::vector<void*> in, out;
  std::deque<Fenced> memory;
  for (const Tensor& t : inputs) {
    in.push_back(memory.emplace_back(t.bytes.size()).data());
    std::copy(t.bytes.begin(), t.bytes.end(), static_cast<char*>(in.back()));
  }
  for (const auto v : g.outputs) r.outputs.push_back(reference::make(g.type(v)));
  for (Tensor& t : r.outputs) {
    std::fill(t.bytes.begin(), t.bytes.end(), char{0x5a});
    out.push_back(t.bytes.data());
  }
  const auto aligned = [&](int64_t bytes) {
    const size_t size = (static_cast<size_t>(bytes) + 63) / 64 * 64;
    return static_cast<char*>(std::memset(memory.emplace_back(size).data(), 0x7f, size));
  };
  const auto value = lookup(c.graph, sizes);
  int64_t arena_bytes = c.emitted.arena_bytes;
  for (const precast::ir::Size& slot : c.emitted.arena_slots) arena_bytes += (slot.value(value).value() + 63) / 64 * 64;
  const std::vector<precast_i64> symbols(sizes.begin(), sizes.end());
  Host context{pieces, {}, &c.emitted.host_ops, value};
  precast_host host{};
  host.context = &context, host.parallel_for = parallel_for, host.host_op = host_op, host.fail = fail,
  host.num_threads = std::abs(pieces);
  precast_frame frame{&host,         in.data(), out.data(), aligned(arena_bytes), aligned(c.emitted.prepared_bytes),
                      symbols.data()};
  using Entry = int (*)(void*);
  r.code = reinterpret_cast<Entry>(c.prepare)(&frame);
  for (int times = frozen ? 2 : 1; times-- > 0 && r.code == 0;) r.code = reinterpret_cast<Entry>(c.run)(&frame);
  r.message = context.message;
  r.host_ops = context.order;
  return r;
}

Tensor random_tensor(const precast::ir::Type& type, uint32_t seed, int64_t below) {
  Tensor t = reference::make(type);
  std::mt19937 random(seed);
  const int size = precast::ir::itemsize(type.dtype);
  const auto count = static_cast<int64_t>(t.bytes.size()) / size;
  for (int64_t i = 0; i < count; ++i) {
    const double u = static_cast<double>(random()) / 4294967296.0;
    if (precast::ir::is_float(type.dtype))
      t.set(i, static_cast<float>(4 * u - 2));
    else if (type.dtype == precast::ir::Dtype::b8)
      t.set(i, u < 0.5);
    else if (below > 0)
      t.set(i, std::floor(u * static_cast<double>(below)));
    else
      t.set(i, std::floor(u * 19) - (type.dtype == precast::ir::Dtype::u8 ? 0 : 9));
  }
  return t;
}

double disagreement(const Tensor& found, const Tensor& expected, double relative, double absolute) {
  double worst = 0;
  reference::each(expected.type.sizes, [&](const std::vector<int64_t>& i) {
    const int64_t at = reference::offset(expected.type, i);
    const auto a = static_cast<double>(found.get(at)), b = static_cast<double>(expected.get(at));
    if (std::isnan(a) && std::isnan(b)) return;
    if (a == b) return;
    if (!precast::ir::is_float(expected.type.dtype) || std::isnan(a) || std::isnan(b) || std::isinf(a) ||
        std::isinf(b)) {
      worst = INFINITY;
      return;
    }
    worst = std::max(worst, std::fabs(a - b) / (relative * std::fabs(b) + absolute));
  });
  return worst;
}

}  // namespace compiled
