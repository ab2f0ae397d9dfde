// Each line of core_ops.txt: the op in eager against its core graph run node by node.
#include <doctest/doctest.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <regex>

#include "host_torch/attributes.h"
#include "host_torch/graph_executor.h"
#include "host_torch/tensor_types.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/passes.h"

using namespace precast;
using namespace precast::host_torch;

namespace {

struct Case {
  std::string line, body;  // body: operands as types
  bool host = false, any_zero = false;
};

std::vector<Case> read_cases() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "core_ops.txt");
  REQUIRE(file.is_open());
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Case c{line, line};
    auto flag = [&](const char* text) {
      size_t at = c.body.find(text);
      if (at == c.body.npos) return false;
      c.body.erase(at);
      return true;
    };
    c.host = flag(" host");
    c.any_zero = flag(" any-zero");
    if (!c.body.starts_with("T=")) {
      cases.push_back(c);
      continue;
    }
    size_t space = c.body.find(' ');
    std::stringstream dtypes(c.body.substr(2, space - 2));
    std::string body = c.body.substr(space + 1);
    for (std::string d; std::getline(dtypes, d, ',');) {
      c.body = std::regex_replace(body, std::regex("\\bT\\b"), d);
      cases.push_back(c);
    }
  }
  return cases;
}

at::Tensor random_operand(const ir::Type& t, const std::string& hint, std::mt19937& random, bool special) {
  at::Tensor x = host_torch::empty(t);
  auto dtype = x.scalar_type();
  auto next = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  at::Tensor v = at::empty(x.sizes(), at::kDouble).contiguous();
  double* p = v.data_ptr<double>();
  double low = -4, high = 4;
  bool integral = at::isIntegralType(dtype, false);
  if (integral) low = dtype == at::kByte ? 0 : -10, high = 11;
  if (size_t dots = hint.find(".."); dots != hint.npos) {
    low = std::stod(hint.substr(0, dots));
    high = std::stod(hint.substr(dots + 2));
    special = false;
  }
  if (hint == "plain") special = false;
  for (int64_t i = 0; i < v.numel(); ++i) {
    p[i] = low + (high - low) * static_cast<double>(random()) / 4294967296.0;
    if (integral) p[i] = std::floor(p[i]);
    if (dtype == at::kBool) p[i] = static_cast<double>(next(2));
  }
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double kSpecial[] = {NAN, kInf, -kInf, 0., -0., 1., -1., .5, -3., 3., 1e-30, -1e30, 100., -100., 2.5, -.5};
  if (special && at::isFloatingType(dtype))
    for (int64_t i = 0, n = std::min<int64_t>(v.numel(), 16); i < n; ++i) p[next(v.numel())] = kSpecial[next(16)];
  at::Tensor w = v.to(dtype);
  if (special && integral && x.numel()) {
    std::vector<int64_t> limits{0, 1, dtype == at::kByte ? 255 : -1};
    if (dtype == at::kInt) limits.push_back(std::numeric_limits<int32_t>::min());
    if (dtype == at::kLong) limits.push_back(std::numeric_limits<int64_t>::max());
    if (dtype == at::kChar) limits.push_back(-128);
    for (int64_t n : limits) w.view(-1)[next(x.numel())].fill_(n);
  }
  x.copy_(w);
  return x;
}

/// The case as a recorded graph, its operands, and what eager makes of them.
struct Recorded {
  ir::Graph graph;
  std::vector<at::Tensor> inputs, expected;
};

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

Recorded record(const Case& c, unsigned seed) {
  Recorded r;
  std::mt19937 random(seed);
  static const std::regex operand(
      R"((!?)\b((?:u8|i8|i16|i32|i64|f16|f32|f64|bf16|bool)\[[\d,]*\](?:\{[\d,]*\})?)(?::(-?[\d.]+?\.\.-?[\d.]+|plain))?)");
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

/// Empty if equal; otherwise what differs.
std::string difference(const at::Tensor& want, const at::Tensor& got, bool any_zero) {
  if (want.scalar_type() != got.scalar_type() || want.sizes() != got.sizes() || want.strides() != got.strides())
    return "types: " + ir::to_string(type_of(want)) + " and " + ir::to_string(type_of(got));
  at::Tensor bad;
  if (!at::isFloatingType(want.scalar_type())) {
    bad = want.ne(got);
  } else {
    double relative = 2e-5, absolute = 5e-6;
    if (want.scalar_type() == at::kHalf) relative = 2e-3, absolute = 1e-4;
    if (want.scalar_type() == at::kBFloat16) relative = 1.6e-2, absolute = 1e-3;
    if (want.scalar_type() == at::kDouble) relative = 1e-10, absolute = 1e-12;
    at::Tensor x = want.to(at::kDouble), y = got.to(at::kDouble);
    at::Tensor close = (x - y).abs().le(x.abs() * relative + absolute);
    bad = at::logical_not(x.eq(y).logical_or(x.isnan().logical_and(y.isnan())).logical_or(close));
    if (!any_zero) bad = bad.logical_or(x.eq(0).logical_and(y.eq(0)).logical_and(x.signbit().ne(y.signbit())));
  }
  if (!bad.any().item<bool>()) return {};
  std::ostringstream text;
  text << bad.sum().item<int64_t>() << " of " << bad.numel() << " elements, eager " << want.masked_select(bad)
       << " core " << got.masked_select(bad);
  return text.str();
}

}  // namespace

TEST_CASE("core graphs compute what the ops compute") {
  c10::InferenceMode no_autograd;
  int checked = 0;
  for (const Case& c : read_cases()) {
    for (unsigned seed : {1, 2, 3}) {
      CAPTURE(c.body);
      CAPTURE(seed);
      Recorded r = record(c, seed);
      ir::Graph core = r.graph;
      passes::to_core(core);
      ir::verify(core, "to_core");
      std::string kept;
      for (const ir::Node& n : core.nodes)
        if (std::string why = passes::why_kept(core, n); !why.empty()) kept += n.op + ": " + why + "\n";
      CHECK_MESSAGE(kept.empty() == !c.host, kept);
      INFO(ir::print(r.graph), ir::print(core));
      std::vector<at::Tensor> got = GraphExecutor(core).run(r.inputs);
      REQUIRE(got.size() == r.expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        std::string fault = difference(r.expected[i], got[i], c.any_zero);
        CHECK_MESSAGE(fault.empty(), fault);
      }
      ++checked;
    }
  }
  CHECK(checked > 2000);
}
