#include "emit/lower.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "emit/kernel.h"
#include "emit/preamble.h"
#include "emit/run_text.h"
#include "emit/size_text.h"
#include "loops/fusion.h"
#include "loops/lowering.h"
#include "loops/plan.h"
#include "loops/print.h"
#include "util/errors.h"

namespace precast::emit {

using loops::Buffer;
using loops::BufferId;
using loops::Expr;
using loops::Kernel;
using loops::Program;
using loops::Step;

namespace {

/// Helpers of kernels that the vocabulary does not have.
constexpr std::string_view kSupport =
#include "emit/preamble/support.inc"
    ;

class Lower {
 public:
  Lower(const ir::Graph& core, const LowerConfig& config) : config_(config), lowering_(core) {}

  Emitted run() {
    program_ = lowering_.run();
    kernels_ = loops::fuse(program_, config_.choices.epilogues);
    if (config_.loops) *config_.loops = loops::print(kernels_, program_);
    find_kept();
    find_constants();
    count_products();
    for (size_t k = 0; k < kernels_.size(); ++k)
      add(std::move(kernels_[k]), !constant_kernel_.empty() && constant_kernel_[k]);
    place_buffers();
    out_.preamble = preamble_with(out_.routines);
    write_parts();
    write_run();
    out_.host_ops = std::move(lowering_.host_ops);
    out_.lowered_ops = lowering_.lowered;
    out_.total_ops = static_cast<int>(lowering_.graph.nodes.size());
    return std::move(out_);
  }

 private:
  struct Launch {
    int function = -1;  // -1: a host op
    std::vector<Pointer> pointers;
    bool can_fail = false, reads_sizes = false, prepares = false;
    int workspace = -1;  // lifetime of the scratch memory
    Step host;
    std::string name;
  };
  struct Function {
    std::string name, text;
  };

  /// The buffer whose memory b stands in, and where.
  Pointer memory_of(BufferId b, ir::Size offset = 0) {
    for (; buffer(b).alias_of >= 0; b = buffer(b).alias_of) offset += buffer(b).alias_offset;
    const auto same = same_.find(b);
    return {same == same_.end() ? b : same->second, offset};
  }
  Buffer& buffer(BufferId b) { return program_.buffers[static_cast<size_t>(b)]; }

  /// Buffers that some other kernel, the host or the caller reads.
  void find_kept() {
    std::map<BufferId, std::set<size_t>> writers;
    for (size_t k = 0; k < kernels_.size(); ++k)
      for (const Step& s : kernels_[k].steps)
        if (s.buffer >= 0) writers[s.buffer].insert(k);
    const auto read = [&](BufferId b, size_t k) {
      if (!(writers[b].size() == 1 && writers[b].contains(k))) kept_.insert(b);
    };
    for (size_t k = 0; k < kernels_.size(); ++k)
      for (const Step& s : kernels_[k].steps) {
        for (const loops::ExprId e : loops::loads(s, program_.exprs)) read(program_.exprs[e].buffer, k);
        for (const loops::HostOperand& o : s.operands) kept_.insert(o.buffer);
        if (s.kind == Step::Kind::scan || s.kind == Step::Kind::write) kept_.insert(s.buffer);
        if (writers[s.buffer].size() > 1) kept_.insert(s.buffer);
      }
    for (size_t b = 0; b < program_.buffers.size(); ++b)
      if (program_.buffers[b].place == Buffer::Place::output) kept_.insert(static_cast<BufferId>(b));
  }

  /// Kernels that read nothing but parameters and buffers, and what they make.
  void find_constants() {
    for (const Buffer& b : program_.buffers)
      if (b.place == Buffer::Place::input && static_cast<size_t>(b.slot) < config_.constant_inputs.size() &&
          config_.constant_inputs[static_cast<size_t>(b.slot)])
        constants_.insert(static_cast<BufferId>(&b - program_.buffers.data()));
    if (constants_.empty()) return;
    constant_kernel_.assign(kernels_.size(), true);
    std::map<BufferId, std::vector<size_t>> writers;
    for (size_t k = 0; k < kernels_.size(); ++k)
      for (const Step& s : kernels_[k].steps) {
        if (s.buffer >= 0) writers[s.buffer].push_back(k);
        for (const BufferId b : s.results) writers[b].push_back(k);
      }
    for (bool again = true; again;) {
      again = false;
      const std::function<bool(BufferId)> constant = [&](BufferId b) {
        if (constants_.contains(b)) return true;
        const Buffer& x = buffer(b);
        if (x.alias_of >= 0 && !(x.is_part && constant(x.alias_of))) return false;  // its memory is written
        const auto w = writers.find(b);
        return w != writers.end() &&
               std::all_of(w->second.begin(), w->second.end(), [&](size_t k) { return constant_kernel_[k]; });
      };
      for (size_t k = 0; k < kernels_.size(); ++k) {
        if (!constant_kernel_[k]) continue;
        bool ok = !depends_on_sizes(kernels_[k]);  // parameters are ready before they are known
        for (const Step& s : kernels_[k].steps) {
          ok &= s.kind != Step::Kind::host && s.kind != Step::Kind::routine &&
                buffer(s.buffer).place == Buffer::Place::arena && constant(s.buffer);
          for (const loops::ExprId e : loops::loads(s, program_.exprs)) ok &= constant(program_.exprs[e].buffer);
        }
        if (!ok) constant_kernel_[k] = false, again = true;
      }
    }
    for (size_t k = 0; k < kernels_.size(); ++k)
      if (constant_kernel_[k])
        for (const Step& s : kernels_[k].steps) constants_.insert(s.buffer);
  }

  bool depends_on_sizes(const Kernel& k) {
    const auto symbolic = [&](const loops::Index& at) {
      return at.constant.is_symbolic() ||
             std::ranges::any_of(at.terms, [](const auto& term) { return term.second.is_symbolic(); });
    };
    bool found = false;
    for (const auto* list : {&k.outer, &k.inner})
      for (const loops::Atom a : *list) found |= program_.exprs.extent(a).is_symbolic();
    for (const Step& s : k.steps) {
      found |= symbolic(s.at);
      for (const auto* list : {&s.space, &s.reduced})
        for (const loops::Atom a : *list) found |= program_.exprs.extent(a).is_symbolic();
      program_.exprs.visit(loops::roots(s, program_.exprs), [&](loops::ExprId e) {
        found |= symbolic(program_.exprs[e].at) || program_.exprs[e].extent.is_symbolic();
      });
    }
    return found;
  }

  int function(const std::string& text, const std::string& name) {
    auto [it, fresh] = functions_by_text_.emplace(text, static_cast<int>(functions_.size()));
    if (fresh) functions_.push_back({"k" + std::to_string(functions_.size()) + name, text});
    return it->second;
  }

  /// How a product reads B: equal keys are one packed matrix.
  std::string columns_of(const Step& s) {
    const Expr& e = program_.exprs[s.b];
    const Expr& b = program_.exprs[e.kind == Expr::Kind::cast ? e.args[0] : s.b];
    std::string key = std::to_string(b.buffer) + " " + text(b.at.constant);
    for (const auto* list : {&s.product.batch, &s.product.n, &s.product.k}) {
      key += ";";
      for (const loops::Atom a : *list)
        if (const ir::Size c = b.at.coefficient(a); c != 0) key += " " + text(program_.exprs.extent(a)) + ":" + text(c);
    }
    return key;
  }
  void count_products() {
    for (const Kernel& k : kernels_)
      if (k.steps[0].kind == Step::Kind::matmul) ++products_[columns_of(k.steps[0])];
  }

  /// The packed form of a matrix; made once, whoever reads it.
  void add_packing(const Packing& p) {
    Launch call;
    call.function = function(p.text, "_pack");
    const auto [it, fresh] = packed_.emplace(std::pair{call.function, p.source}, p.packed);
    if (!fresh) {
      same_[p.packed] = it->second;
      return;
    }
    call.name = functions_[static_cast<size_t>(call.function)].name;
    call.prepares = p.constant;
    call.pointers = {{p.packed, 0}, p.source};
    out_.kernels.push_back({call.name, "packs a matrix", 0, static_cast<double>((2 * buffer(p.packed).bytes).hint())});
    launches_.push_back(std::move(call));
  }

  /// The functions fused into a kernel, in words and as the end of its name.
  std::pair<std::string, std::string> describe(const Kernel& k) {
    std::vector<std::string> names;
    const auto note = [&](const std::string& n) {
      if (std::find(names.begin(), names.end(), n) == names.end()) names.push_back(n);
    };
    for (const Step& s : k.steps) {
      const size_t before = names.size();
      for (const loops::ExprId root : loops::roots(s, program_.exprs))
        program_.exprs.visit(root, [&](loops::ExprId e) {
          const Expr& x = program_.exprs[e];
          if (x.kind == Expr::Kind::call) note(x.name);
        });
      if (s.kind != Step::Kind::map || names.size() == before) note(s.what);
    }
    std::string what, name;
    for (size_t i = 0; i < names.size(); ++i) {
      what += (i > 0 ? " " : "") + names[i];
      if (i < 3) name += "_" + names[i];
    }
    return {what, name};
  }

  KernelText routine(const Step& s) {
    out_.routines.insert(s.routine->function);
    KernelText text = routine_text(s, program_.symbols);
    std::set<BufferId> touched(s.results.begin(), s.results.end());
    for (const loops::HostOperand& o : s.operands) touched.insert(o.buffer);
    for (const BufferId b : touched) text.bytes += static_cast<double>(buffer(b).bytes.hint());
    return text;
  }

  void add(Kernel k, bool prepares) {
    Launch call;
    if (k.steps[0].kind == Step::Kind::host) {
      call.host = k.steps[0];
      call.name = call.host.what;
      launches_.push_back(std::move(call));
      return;
    }
    if (k.steps[0].kind == Step::Kind::alias) return;
    const auto [what, name] = describe(k);
    const bool apart = k.steps[0].kind == Step::Kind::matmul && products_[columns_of(k.steps[0])] > 1;
    KernelText text = k.steps[0].routine
                          ? routine(k.steps[0])
                          : kernel_text(std::move(k), program_, kept_, constants_, {apart, config_.choices.packing});
    if (text.packing) add_packing(*text.packing);
    call.function = function(text.text, name);
    call.name = functions_[static_cast<size_t>(call.function)].name;
    call.prepares = prepares;
    call.pointers = std::move(text.pointers);
    call.can_fail = text.can_fail;
    call.reads_sizes = text.reads_sizes;
    if (text.reads_sizes) out_.routines.insert("sizes");
    if (text.sized_product) out_.routines.insert("multiply_sized");
    if (text.workspace_bytes != 0) {
      call.workspace = static_cast<int>(lifetimes_.size());
      const int now = static_cast<int>(launches_.size());
      lifetimes_.push_back({now, now, text.workspace_bytes, 0});
    }
    out_.kernels.push_back({call.name, what, text.flops, text.bytes});
    launches_.push_back(std::move(call));
  }

  void place_buffers() {
    for (const Launch& c : launches_)
      if (c.prepares)
        for (const Pointer& p : c.pointers)
          if (Buffer& b = buffer(memory_of(p.buffer).buffer); b.place == Buffer::Place::arena)
            b.place = Buffer::Place::prepared;
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      Buffer& x = program_.buffers[b];
      if (x.place != Buffer::Place::prepared || same_.contains(static_cast<BufferId>(b))) continue;
      x.offset = out_.prepared_bytes;
      out_.prepared_bytes += (int64_t{x.bytes} + 63) / 64 * 64;
    }
    std::map<BufferId, std::pair<int, int>> alive;
    for (int t = 0; t < static_cast<int>(launches_.size()); ++t) {
      const auto touch = [&](BufferId b) {
        b = memory_of(b).buffer;
        auto [it, fresh] = alive.emplace(b, std::pair{t, t});
        it->second.second = t;
      };
      for (const Pointer& p : launches_[static_cast<size_t>(t)].pointers) touch(p.buffer);
      for (const loops::HostOperand& o : launches_[static_cast<size_t>(t)].host.operands) touch(o.buffer);
    }
    std::vector<std::pair<BufferId, size_t>> slots;
    for (const auto& [b, life] : alive) {
      if (buffer(b).place != Buffer::Place::arena) continue;
      slots.emplace_back(b, lifetimes_.size());
      lifetimes_.push_back({life.first, life.second, buffer(b).bytes, 0});
    }
    loops::Plan plan = loops::plan(lifetimes_);
    out_.arena_bytes = plan.bytes;
    out_.arena_slots = std::move(plan.slots);
    for (const auto& [b, i] : slots) buffer(b).offset = lifetimes_[i].offset, buffer(b).arena_slot = lifetimes_[i].slot;
  }

  void write_parts() {
    const size_t parts =
        static_cast<size_t>(std::max(1, std::min<int>(config_.parts, static_cast<int>(functions_.size()))));
    std::vector<size_t> order(functions_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return functions_[a].text.size() > functions_[b].text.size(); });
    out_.parts.resize(parts);
    std::vector<std::vector<size_t>> members(parts);
    std::vector<size_t> load(parts);
    for (const size_t f : order) {
      const auto lightest = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
      members[lightest].push_back(f);
      load[lightest] += functions_[f].text.size();
    }
    for (size_t p = 0; p < parts; ++p) {
      std::sort(members[p].begin(), members[p].end());
      for (const size_t f : members[p]) out_.parts[p] += indented(named(functions_[f])) + "\n";
    }
  }

  static std::string named(const Function& f) {
    std::string text;
    size_t from = 0;
    for (size_t at; (at = f.text.find("KERNEL", from)) != std::string::npos; from = at + 6)
      text += f.text.substr(from, at - from) + f.name;
    return text + f.text.substr(from);
  }

  /// Two spaces a brace.
  static std::string indented(const std::string& text) {
    std::string out;
    int depth = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = std::string_view(text).substr(at, end - at);
      int lowest = 0, change = 0;
      for (const char c : line) {
        if (c == '{') ++change;
        if (c == '}') lowest = std::min(lowest, --change);
      }
      if (!line.empty())
        out += std::string(2 * static_cast<size_t>(std::max(depth + lowest, 0)), ' ') + std::string(line);
      out += '\n';
      depth += change;
      at = end + 1;
    }
    return out;
  }

  static Address in_arena(int slot, const ir::Size& offset) {
    return {slot < 0 ? "f->arena" : "f->arena + at" + std::to_string(slot), -1, offset};
  }

  Address address(BufferId b, const ir::Size& offset) {
    const Pointer at = memory_of(b, offset);
    const Buffer& x = buffer(at.buffer);
    switch (x.place) {
      case Buffer::Place::input:
        return {"f->in", x.slot, at.offset_bytes};
      case Buffer::Place::output:
        return {"f->out", x.slot, at.offset_bytes};
      case Buffer::Place::host:
        return {"host_out", x.slot, at.offset_bytes};
      case Buffer::Place::prepared:
        return {"f->prepared", -1, at.offset_bytes + x.offset};
      default:
        return in_arena(x.arena_slot, at.offset_bytes + x.offset);
    }
  }

  Call call_of(const Launch& l) {
    Call c{l.function, l.name, {}, l.can_fail, l.reads_sizes, -1, {}};
    for (const Pointer& p : l.pointers) c.pointers.push_back(address(p.buffer, p.offset_bytes));
    if (l.workspace >= 0) {
      const loops::Lifetime& life = lifetimes_[static_cast<size_t>(l.workspace)];
      c.pointers.push_back(in_arena(life.slot, life.offset));
    }
    if (l.function >= 0) return c;
    c.host_op = l.host.host_op;
    for (const loops::HostOperand& o : l.host.operands) c.pointers.push_back(address(o.buffer, o.offset_bytes));
    for (const BufferId b : l.host.results) c.host_results.push_back(buffer(b).slot);
    return c;
  }

  void write_run() {
    std::string& t = out_.run;
    for (const Function& f : functions_) t += "void " + f.name + "(const precast_host*, void* const*);\n";
    if (std::ranges::any_of(launches_, &Launch::can_fail)) t += report_text();
    for (const bool prepare : {false, true}) {
      std::vector<Call> calls;
      for (const Launch& l : launches_)
        if (l.prepares == prepare) calls.push_back(call_of(l));
      int host_slots = 0;
      for (const Call& c : calls)
        for (const int slot : c.host_results) host_slots = std::max(host_slots, slot + 1);
      std::string body = run_text(calls);
      t += std::string("int precast_") + (prepare ? "prepare" : "run") + "(precast_frame* f) {\n";
      t += "const precast_host* const host = f->host;\n(void)host;\n";
      if (host_slots > 0) t += "void* host_out[" + std::to_string(host_slots) + "];\n";
      if (std::ranges::any_of(calls, &Call::can_fail)) t += "precast_fault fault = {};\n";
      body = slot_starts(body) + body;
      t += declare_sizes(body, program_.symbols, "f->sizes") + body + "return PRECAST_OK;\n}\n";
    }
    t = indented(t);
  }

  /// Declares where the slots begin that the text names, and those before them.
  std::string slot_starts(const std::string& body) {
    std::string t, before = std::to_string(out_.arena_bytes);
    size_t last = out_.arena_slots.size();
    while (last > 0 && !names(body, "at" + std::to_string(last - 1))) --last;
    for (size_t i = 0; i < last; ++i) {
      const std::string at = "at" + std::to_string(i);
      t += "const i64 " + at + " = " + before + ";\n";
      before = at + " + (" + text(out_.arena_slots[i]) + " + 63) / 64 * 64";
    }
    return t;
  }

  const LowerConfig& config_;
  loops::Lowering lowering_;
  Program program_;
  std::vector<Kernel> kernels_;
  std::set<BufferId> kept_, constants_;
  std::vector<bool> constant_kernel_;    // empty: none
  std::map<std::string, int> products_;  // by what they read as B
  std::map<std::pair<int, Pointer>, BufferId> packed_;
  std::map<BufferId, BufferId> same_;  // packed twice: the first one
  std::vector<Launch> launches_;
  std::vector<Function> functions_;
  std::map<std::string, int> functions_by_text_;
  std::vector<loops::Lifetime> lifetimes_;
  Emitted out_;
};

}  // namespace

std::string preamble_with(const std::set<std::string>& routines) {
  return std::string(preamble()) + std::string(kSupport) + routine_preamble(routines);
}

Emitted lower(const ir::Graph& core, const LowerConfig& config) {
  try {
    return Lower(core, config).run();
  } catch (const ir::Undecided& u) {  // rules leave such a node to the host: behind them nothing may ask
    internal_error(__FILE__, __LINE__, "kernels were made that need to know the size " + u.expression);
  }
}

}  // namespace precast::emit
