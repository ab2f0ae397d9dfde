#include "op_cases.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>

#include "host_torch/attributes.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace precast::host_torch {

namespace {

// PRECAST_OPS=regex in the environment: only the lines that match.
bool is_wanted(const std::string& line) {
  const char* only = std::getenv("PRECAST_OPS");
  return !only || std::regex_search(line, std::regex(only));
}
void read_file(const std::filesystem::path& path, std::vector<Case>& cases) {
  std::ifstream file(path);
  REQUIRE(file.is_open());
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || !is_wanted(line)) continue;
    Case c{line, line, {}};
    auto flag = [&](const char* text) {
      size_t at = c.body.find(text);
      if (at == c.body.npos) return false;
      c.body.erase(at);
      return true;
    };
    if (const size_t at = c.body.find(" within="); at != c.body.npos) {
      c.within = std::stod(c.body.substr(at + 8));
      c.body.erase(at);
    }
    c.host = flag(" host");
    c.any_zero = flag(" any-zero");
    if (!c.body.starts_with("T=")) {
      std::smatch m;
      if (std::regex_search(c.body, m, std::regex(R"(\b(\w+)\[[\d,]*\])"))) c.dtype = m[1];
      cases.push_back(c);
      continue;
    }
    size_t space = c.body.find(' ');
    std::stringstream dtypes(c.body.substr(2, space - 2));
    std::string body = c.body.substr(space + 1);
    for (std::string d; std::getline(dtypes, d, ',');) {
      c.body = std::regex_replace(body, std::regex("\\bT\\b"), d);
      c.dtype = d;
      cases.push_back(c);
    }
  }
}

// What may stand behind an operand: "-1..1", "plain", "ties:sorted".
struct Hint {
  double low = -4, high = 4;
  bool special = true, finite = false, ties = false, sorted = false, distinct = false;

  Hint(const std::string& text, at::ScalarType dtype, bool with_special) {
    special = with_special;
    if (at::isIntegralType(dtype, false)) low = dtype == at::kByte ? 0 : -10, high = 11;
    std::stringstream words(text);
    for (std::string word; std::getline(words, word, ':');) {
      if (size_t dots = word.find(".."); dots != word.npos) {
        low = std::stod(word.substr(0, dots));
        high = std::stod(word.substr(dots + 2));
        special = false;
      }
      special = special && word != "plain";
      finite = finite || word == "finite";
      ties = ties || word == "ties";
      sorted = sorted || word == "sorted";
      distinct = distinct || word == "distinct";
    }
  }
};

// In double, one number an element.
at::Tensor random_numbers(at::IntArrayRef sizes, at::ScalarType dtype, const Hint& hint, std::mt19937& random) {
  auto next = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  at::Tensor v = at::empty(sizes, at::kDouble).contiguous();
  double* p = v.data_ptr<double>();
  for (int64_t i = 0; i < v.numel(); ++i) {
    p[i] = hint.low + (hint.high - hint.low) * static_cast<double>(random()) / 4294967296.0;
    if (at::isIntegralType(dtype, false) || hint.ties) p[i] = std::floor(p[i]);
    if (dtype == at::kBool) p[i] = static_cast<double>(next(2));
  }
  for (int64_t i = 0; hint.distinct && i < v.numel(); ++i) p[i] = hint.low + static_cast<double>(i);
  for (int64_t i = v.numel(); hint.distinct && i > 1; --i) std::swap(p[i - 1], p[next(i)]);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double kSpecial[] = {NAN, kInf, -kInf, 0., -0., 1., -1., .5, -3., 3., 1e-30, -1e30, 100., -100., 2.5, -.5};
  if (hint.special && !at::isIntegralType(dtype, true))
    for (int64_t i = 0, n = std::min<int64_t>(v.numel(), 16); i < n; ++i) {
      double special = kSpecial[next(16)];
      if (!hint.finite || std::isfinite(special)) p[next(v.numel())] = special;
    }
  return v;
}

at::Tensor random_operand(const ir::Type& t, const std::string& text, std::mt19937& random, bool special) {
  at::Tensor x = host_torch::empty(t);
  auto dtype = x.scalar_type();
  Hint hint(text, dtype, special);
  at::Tensor v = random_numbers(x.sizes(), dtype, hint, random), w = v.to(dtype);
  if (x.is_complex()) w = at::complex(v, random_numbers(x.sizes(), dtype, hint, random)).to(dtype);
  if (hint.special && at::isIntegralType(dtype, false) && x.numel()) {
    std::vector<int64_t> limits{0, 1, dtype == at::kByte ? 255 : -1};
    if (dtype == at::kInt) limits.push_back(std::numeric_limits<int32_t>::min());
    if (dtype == at::kLong) limits.push_back(std::numeric_limits<int64_t>::max());
    if (dtype == at::kChar) limits.push_back(-128);
    for (int64_t n : limits) w.view(-1)[static_cast<int64_t>(random() % static_cast<uint64_t>(x.numel()))].fill_(n);
  }
  if (hint.sorted) w = std::get<0>(w.sort(-1));
  x.copy_(w);
  return x;
}

// The strides of an operand in another layout, or nothing where that is the layout it has.
enum class Layout { reversed, stepped, expanded };
std::vector<int64_t> strides_in(Layout layout, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t n = layout == Layout::stepped ? 2 : 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t d = layout == Layout::reversed ? i : sizes.size() - 1 - i;
    strides[d] = n;
    n *= std::max<int64_t>(sizes[d], 1);
  }
  if (layout == Layout::expanded && !sizes.empty()) strides[0] = 0;
  return strides;
}

// The written operands stay as they are.
std::string in_layout(const std::string& body, Layout layout) {
  static const std::regex operand(R"((!?)\b([a-z]+\d*)\[([\d,]+)\](?!\{))");
  std::string text;
  auto at = body.cbegin();
  for (std::sregex_iterator m(body.begin(), body.end(), operand), end; m != end; ++m) {
    text.append(at, (*m)[0].second);
    at = (*m)[0].second;
    if ((*m)[1].length() != 0) continue;
    std::vector<int64_t> sizes;
    std::stringstream numbers((*m)[3]);
    for (std::string n; std::getline(numbers, n, ',');) sizes.push_back(std::stoll(n));
    std::string strides;
    for (int64_t s : strides_in(layout, sizes)) strides += (strides.empty() ? "" : ",") + std::to_string(s);
    text += "{" + strides + "}";
  }
  return text.append(at, body.cend());
}

std::vector<c10::IValue> call_eager(const c10::OperatorHandle& op, const ir::Node& n,
                                    const std::vector<at::Tensor>& values) {
  auto tensor = [&](ir::Ref r) { return r.id == ir::kNoValue ? at::Tensor() : values[static_cast<size_t>(r.id)]; };
  std::vector<c10::IValue> stack;
  for (const c10::Argument& parameter : op.schema().arguments()) {
    const ir::Attr* a = n.find(parameter.name());
    if (!a) {
      REQUIRE_MESSAGE(parameter.default_value(), parameter.name());
      stack.push_back(*parameter.default_value());
    } else if (auto* r = std::get_if<ir::Ref>(a)) {
      stack.emplace_back(tensor(*r));
    } else if (auto* refs = std::get_if<std::vector<ir::Ref>>(a)) {
      const auto& element = parameter.type()->castRaw<c10::ListType>()->getElementType();
      c10::List<at::Tensor> plain;
      c10::List<std::optional<at::Tensor>> optional;
      for (ir::Ref r : *refs) {
        at::Tensor t = tensor(r);
        if (t.defined()) plain.push_back(t);
        optional.push_back(t.defined() ? std::optional(t) : std::nullopt);
      }
      bool is_optional = element->kind() == c10::TypeKind::OptionalType;
      stack.push_back(is_optional ? c10::IValue(optional) : c10::IValue(plain));
    } else {
      stack.push_back(to_ivalue(*a, parameter, n.op));
    }
  }
  op.callBoxed(stack);
  return stack;
}

}  // namespace

std::vector<Case> read_cases() {
  const std::filesystem::path folder = std::filesystem::path(PRECAST_SOURCES) / "tests/host_torch";
  std::vector<Case> cases;
  read_file(folder / "core_ops.txt", cases);
  std::vector<std::filesystem::path> families;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "core_ops")) families.push_back(entry.path());
  std::ranges::sort(families);
  for (const auto& path : families) read_file(path, cases);
  return cases;
}

std::vector<Case> in_other_layouts(const Case& c) {
  std::vector<Case> cases;
  // Eager reads these operands as if they were contiguous (its callers see to it), or sums in another order.
  for (const char* op :
       {"aten::native_layer_norm_backward", "aten::native_group_norm_backward", "aten::native_batch_norm_backward",
        "aten::_fused_", "aten::_scaled_dot_product", "aten::_weight_norm_interface", "aten::logit_backward",
        "aten::reflection_pad2d_backward", "aten::reflection_pad3d_backward", "aten::replication_pad2d_backward",
        "aten::replication_pad3d_backward", "aten::_embedding_bag", "aten::_ctc_loss", "aten::mkldnn_convolution",
        "aten::adaptive_max_pool3d_backward", "aten::max_pool3d_with_indices_backward"})
    if (c.body.starts_with(op)) return cases;
  for (const Layout layout : {Layout::reversed, Layout::stepped, Layout::expanded}) {
    Case other = c;
    other.body = in_layout(c.body, layout);
    if (other.body != c.body) cases.push_back(other);
  }
  return cases;
}

Recorded record(const Case& c, unsigned seed) {
  Recorded r;
  std::mt19937 random(seed);
  static const std::regex operand(
      R"((!?)\b((?:u8|i8|i16|i32|i64|f16|f32|f64|bf16|bool|c64|c128)\[[\d,]*\](?:\{[\d,]*\})?)(?::((?:-?[\d.]+?\.\.-?[\d.]+|[a-z]+)(?::[a-z]+)*))?)");
  std::string body, inputs;
  std::vector<bool> written;
  auto at = c.body.cbegin();
  for (std::sregex_iterator m(c.body.begin(), c.body.end(), operand), end; m != end; ++m) {
    std::string number = "%" + std::to_string(written.size()), type = (*m)[2];
    body.append(at, (*m)[0].first);
    at = (*m)[0].second;
    ir::Type t = ir::parse("graph(%0: " + type + ") { return () }").values[0].type;
    r.inputs.push_back(random_operand(t, (*m)[3], random, seed > 1));
    inputs += (inputs.empty() ? "" : ", ") + number + ": " + type;
    written.push_back((*m)[1].length() != 0);
    body += number;
  }
  body.append(at, c.body.cend());
  r.graph = ir::parse("graph(" + inputs + ") {\n" + body + "\nreturn ()\n}");

  ir::Graph& g = r.graph;
  ir::Node& n = g.nodes[0];
  std::vector<at::Tensor> values;
  for (size_t i = 0; i < r.inputs.size(); ++i) values.push_back(written[i] ? clone_bytes(r.inputs[i]) : r.inputs[i]);
  size_t dot = n.op.find('.');
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(n.op.substr(0, dot).c_str(),
                                                           dot == n.op.npos ? "" : n.op.substr(dot + 1).c_str());
  auto define = [&](const at::Tensor& t) {
    r.expected.push_back(t);
    ir::ValueId id = g.add_value(type_of(t));
    g.outputs.push_back(id);
    return id;
  };
  auto is_written = [&](const at::Tensor& t) {
    for (size_t i = 0; i < values.size(); ++i)
      if (written[i] && values[i].is_same(t)) return true;
    return false;
  };
  for (const c10::IValue& v : call_eager(op, n, values)) {
    ir::Out& o = n.outs.emplace_back();
    if (v.isTensorList()) {
      o.is_list = true;
      for (const at::Tensor& t : v.toTensorVector()) o.list.push_back({define(t)});
    } else if (v.isTensor() && v.toTensor().defined() && !is_written(v.toTensor())) {
      o.id = define(v.toTensor());
    }
  }
  ir::for_each_operand(std::as_const(n), [&](ir::Slot slot, ir::ValueId id) {
    if (id != ir::kNoValue && written[static_cast<size_t>(id)])
      n.writes.push_back({slot, define(values[static_cast<size_t>(id)])});
  });
  ir::verify(g, "the test's recording");
  return r;
}

std::optional<Recorded> try_record(const Case& c, unsigned seed) {
  try {
    return record(c, seed);
  } catch (const c10::Error&) {
    return {};
  }
}

std::string difference(const at::Tensor& want, const at::Tensor& got, const Case& c) {
  if (want.scalar_type() != got.scalar_type() || want.sizes() != got.sizes() || want.strides() != got.strides())
    return "types: " + ir::to_string(type_of(want)) + " and " + ir::to_string(type_of(got));
  if (want.is_conj() != got.is_conj() || want.is_neg() != got.is_neg()) return "lazy conjugate or negative bits";
  if (want.is_complex())
    return difference(at::view_as_real(want.resolve_conj()), at::view_as_real(got.resolve_conj()), c);
  at::Tensor bad;
  if (!at::isFloatingType(want.scalar_type())) {
    bad = want.ne(got);
  } else {
    double relative = 2e-5, absolute = 5e-6;
    if (want.scalar_type() == at::kHalf) relative = 2e-3, absolute = 1e-4;
    if (want.scalar_type() == at::kBFloat16) relative = 1.6e-2, absolute = 1e-3;
    if (want.scalar_type() == at::kDouble) relative = 1e-10, absolute = 1e-12;
    at::Tensor x = want.to(at::kDouble), y = got.to(at::kDouble);
    // Sums of products cancel: their rounding is of the size of the largest. Each CPU's kernel has its own order, and
    // some round half types on the way.
    if (c.body.starts_with("aten::convolution") && x.numel() > 0)
      absolute = relative * std::max(1.0, x.abs().nan_to_num(0, 0, 0).max().item<double>());
    at::Tensor close = (x - y).abs().le(x.abs() * relative + (absolute + c.within)).logical_and(x.isfinite());
    bad = at::logical_not(x.eq(y).logical_or(x.isnan().logical_and(y.isnan())).logical_or(close));
    if (!c.any_zero) bad = bad.logical_or(x.eq(0).logical_and(y.eq(0)).logical_and(x.signbit().ne(y.signbit())));
  }
  if (!bad.any().item<bool>()) return {};
  std::ostringstream text;
  text << bad.sum().item<int64_t>() << " of " << bad.numel() << " elements, eager " << want.masked_select(bad)
       << " core " << got.masked_select(bad);
  return text.str();
}

}  // namespace precast::host_torch
