// A program as text: steps for people, and a C++ program that shows a failure.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "formula.h"
#include "open.h"
#include "program.h"

namespace precast::fuzz {
namespace {

std::string value_name(Ref r) { return "v" + std::to_string(r.value); }

std::string number(double x) {
  if (std::isnan(x)) return "NAN";
  if (std::isinf(x)) return x < 0 ? "-INFINITY" : "INFINITY";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  const std::string digits = text;
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

template <class T, class F>
std::string join(const std::vector<T>& items, F&& text_of) {
  std::string text;
  for (const T& item : items) text += (text.empty() ? "" : ", ") + text_of(item);
  return text;
}
std::string integers(const std::vector<int64_t>& v) {
  return join(v, [](int64_t i) { return std::to_string(i); });
}
std::string dtype_name(at::ScalarType s) { return std::string("at::k") + at::toString(s); }

std::string argument(const Arg& arg, bool optional_tensors) {
  if (const auto* r = std::get_if<Ref>(&arg)) return r->value < 0 ? "{}" : value_name(*r);
  if (const auto* list = std::get_if<std::vector<Ref>>(&arg)) {
    const std::string items =
        join(*list, [](Ref r) { return r.value < 0 ? std::string("std::nullopt") : value_name(r); });
    return optional_tensors ? "c10::List<std::optional<at::Tensor>>({" + items + "})" : "{" + items + "}";
  }
  if (const auto* b = std::get_if<bool>(&arg)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&arg)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&arg)) return number(*d);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&arg)) return "at::IntArrayRef({" + integers(*v) + "})";
  if (const auto* s = std::get_if<at::ScalarType>(&arg)) return dtype_name(*s);
  if (const auto* text = std::get_if<std::string>(&arg)) return '"' + *text + '"';
  return "std::nullopt";
}

// Ops that exist as methods of a tensor only; so are all that write.
constexpr std::array kMethods = {"view", "expand", "to", "contiguous", "unfold", "repeat", "numpy_T"};

std::string call(const Step& step) {
  const size_t dot = step.op.find('.');
  const std::string name = step.op.substr(6, dot == std::string::npos ? dot : dot - 6);
  const bool index = name.starts_with("index") && !name.starts_with("index_select");
  std::vector<std::string> args;
  for (const Arg& arg : step.args) args.push_back(argument(arg, index));
  const auto all = [&](size_t from) {
    return join(std::vector(args.begin() + static_cast<std::ptrdiff_t>(from), args.end()), [](auto& s) { return s; });
  };
  if (step.op.ends_with("out")) {  // comes first in C++
    std::rotate(args.begin(), args.end() - 1, args.end());
    return "at::" + name + "_out(" + all(0) + ")";
  }
  const bool method =
      (name.back() == '_' && !name.starts_with("_f")) ||
      std::find_if(kMethods.begin(), kMethods.end(), [&](auto* m) { return name == m; }) != kMethods.end();
  return method ? args[0] + "." + name + "(" + all(1) + ")" : "at::" + name + "(" + all(0) + ")";
}

bool returns_list(const Step& step) {
  const size_t dot = step.op.find('.');
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      step.op.substr(0, dot).c_str(), dot == std::string::npos ? "" : step.op.substr(dot + 1).c_str());
  return op.schema().returns().size() == 1 && step.n_outs > 0 && op.schema().returns()[0].type()->str() == "Tensor[]";
}

std::string steps_as_cpp(const Program& p) {
  std::string text;
  auto next = static_cast<int>(p.inputs.size());
  for (const Step& step : p.steps) {
    if (step.n_outs == 0) {
      text += "  " + call(step) + ";\n";
    } else if (step.n_outs == 1 && !returns_list(step)) {
      text += "  at::Tensor v" + std::to_string(next) + " = " + call(step) + ";\n";
    } else {
      const std::string t = "t" + std::to_string(next);
      text += "  auto " + t + " = " + call(step) + ";\n";
      for (int i = 0; i < step.n_outs; ++i)
        text += "  at::Tensor v" + std::to_string(next + i) + " = " +
                (returns_list(step) ? t + "[" + std::to_string(i) + "]"
                                    : "std::get<" + std::to_string(i) + ">(" + t + ")") +
                ";\n";
    }
    next += step.n_outs;
  }
  return text;
}

std::string input_as_cpp(const Input& in, Variant variant) {
  if (in.alias_of >= 0) return value_name({in.alias_of}) + ".as_strided({" + integers(in.sizes) + "}, {1})";
  const Formula f = formula(in, variant);
  const auto sizes = storage_sizes(in);
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  std::string text = "fill(" + std::to_string(n) + ", " + std::to_string(f.step) + ", " + std::to_string(f.start) +
                     ", " + std::to_string(f.modulus) + ", " + number(f.scale) + ", " + number(f.shift) + ", " +
                     dtype_name(in.dtype);
  if (f.spike) text += ", " + std::to_string(f.spike->first) + ", " + number(f.spike->second);
  text += ").reshape({" + integers(sizes) + "})";
  if (in.layout == Layout::transposed) {
    std::vector<int64_t> order;
    for (size_t d = sizes.size(); d-- > 0;) order.push_back(static_cast<int64_t>(d));
    text += ".permute({" + integers(order) + "})";
  }
  if (in.layout == Layout::sliced) text += ".slice(-1, 1, " + std::to_string(sizes.back()) + ", 2)";
  if (in.layout == Layout::expanded) text += ".expand({" + integers(in.sizes) + "})";
  if (in.layout == Layout::channels_last) text += ".permute({0, 3, 1, 2})";
  return text;
}

}  // namespace

std::string print_steps(const Program& p) {
  constexpr std::array kLayouts = {"", " transposed", " sliced", " expanded", " channels last"};
  std::string text;
  for (size_t i = 0; i < p.inputs.size(); ++i)
    text += value_name({static_cast<int>(i)}) + ": " + at::toString(p.inputs[i].dtype) + "[" +
            integers(p.inputs[i].sizes) + "]" + kLayouts[static_cast<size_t>(p.inputs[i].layout)] +
            (p.inputs[i].role == Role::user     ? "\n"
             : p.inputs[i].role == Role::buffer ? " buffer\n"
                                                : " parameter\n");
  auto next = static_cast<int>(p.inputs.size());
  for (const Step& step : p.steps) {
    std::string line;
    for (int i = 0; i < step.n_outs; ++i) line += (i ? ", v" : "v") + std::to_string(next++);
    text += line + (step.n_outs ? " = " : "") + step.op + "(" +
            join(step.args, [](const Arg& a) { return argument(a, false); }) + ")\n";
  }
  return text + "return " + join(p.results, [](int r) { return value_name({r}); }) +
         (p.backward ? "; backward\n" : "\n") + print_open(p);
}

std::string print_cpp(const Program& p, Variant variant, const std::string& backend, const std::string& reason,
                      const std::vector<int64_t>& open_sizes) {
  const auto n = p.inputs.size();
  const Program other = open_sizes.empty() ? p : resized(p, open_sizes);
  std::string marks;
  for (const OpenDim& o : p.open)
    if (!open_sizes.empty())
      marks += "  precast::mark_unbacked(captured.all[" + std::to_string(o.input) + "], " + std::to_string(o.dim) +
               (o.shape_id ? ", {.shape_id = \"" + std::to_string(o.group) + "\"});\n" : ");\n");
  std::string registered, read, results, inputs;
  std::string user = "";
  int n_user = 0;
  for (size_t i = 0; i < n; ++i) {
    const Input& in = p.inputs[i];
    const std::string v = "v" + std::to_string(i);
    const std::string here = input_as_cpp(in, variant), there = input_as_cpp(other.inputs[i], variant);
    inputs += "    at::Tensor " + v + " = " + (here == there ? here : "open ? " + there + " : " + here) + ";\n";
    inputs += "    all.push_back(" + v + ");\n";
    if (in.role == Role::user) {
      read += "  at::Tensor " + v + " = user[" + std::to_string(n_user++) + "];\n";
      user += (user.empty() ? "" : ", ") + v;
    } else {
      const bool parameter = in.role == Role::parameter;
      inputs +=
          std::string("    register_") + (parameter ? "parameter" : "buffer") + "(\"" + v + "\", " + v +
          (parameter ? ", /*requires_grad=*/" + std::string(at::isFloatingType(in.dtype) ? "true" : "false") : "") +
          ");\n";
      read +=
          "  at::Tensor " + v + " = net." + (parameter ? "named_parameters" : "named_buffers") + "()[\"" + v + "\"];\n";
    }
  }
  for (int r : p.results) results += (results.empty() ? "" : ", ") + value_name({r});
  std::string loss;
  if (p.backward)
    loss =
        "  at::Tensor loss = at::zeros({});\n"
        "  double weight = 1;\n"
        "  for (const at::Tensor& r : results)\n"
        "    if (r.requires_grad()) loss = loss + (r.scalar_type() == at::kDouble ? r.sum() : r.to(at::kFloat).sum()) "
        "* (weight += 0.5);\n"
        "  if (loss.requires_grad()) loss.backward();\n";
  return "// " + reason +
         "\n"
         "// Seed " +
         std::to_string(p.seed) + ", backend \"" + backend +
         "\". Prints what differs between eager and the loaded artifact.\n"
         "#include <precast/precast.h>\n#include <torch/torch.h>\n\n#include <cmath>\n#include <iostream>\n#include "
         "<limits>\n\n"
         "at::Tensor fill(int64_t n, int64_t step, int64_t start, int64_t modulus, double scale, double shift, "
         "at::ScalarType dtype,\n"
         "                int64_t spike = -1, double value = 0) {\n"
         "  at::Tensor t = (at::arange(n, at::kLong) * step + start).remainder(modulus);\n"
         "  if (scale != 1 || shift != 0) t = t.to(at::kDouble) * scale + shift;\n"
         "  t = t.to(dtype);\n"
         "  if (spike >= 0) t[spike] = value;\n"
         "  return t;\n}\n\n"
         "struct Net : torch::nn::Module {\n  std::vector<at::Tensor> user, all;\n  Net(bool open) {\n" +
         inputs + "    user = {" + user +
         "};\n  }\n};\n\n"
         "std::vector<at::Tensor> program(Net& net, std::vector<at::Tensor> user) {\n" +
         read + steps_as_cpp(p) + "  std::vector<at::Tensor> results = {" + results + "};\n" + loss +
         "  return results;\n}\n\n"
         "void compare(const char* what, const at::Tensor& expected, const at::Tensor& found) {\n"
         "  if (!expected.defined() && !found.defined()) return;\n"
         "  if (expected.defined() != found.defined() || expected.sizes() != found.sizes() || expected.dtype() != "
         "found.dtype() ||\n"
         "      expected.strides() != found.strides() || !at::allclose(expected.to(at::kDouble), "
         "found.to(at::kDouble), 1e-4, 1e-5, true))\n"
         "    std::cout << what << \" differs\\nexpected \" << expected << \"\\nfound \" << found << \"\\n\";\n}\n\n"
         "int main() {\n"
         "  Net eager(true), captured(false), loaded(true);  // at other sizes, if some are open\n" +
         marks +
         "  const auto expected = program(eager, eager.user);\n"
         "  const auto pair = precast::precompile({.backend = \"" +
         backend +
         "\"}, program, captured, captured.user);\n"
         "  const auto f = precast::load_from_memory<std::vector<at::Tensor>(Net&, std::vector<at::Tensor>)>(pair);\n"
         "  const auto found = f(loaded, loaded.user);\n"
         "  for (size_t i = 0; i < expected.size(); ++i) compare(\"result\", expected[i], found[i]);\n"
         "  for (size_t i = 0; i < eager.user.size(); ++i) compare(\"input\", eager.user[i], loaded.user[i]);\n"
         "  for (const auto& p : eager.named_parameters()) {\n"
         "    compare(p.key().c_str(), p.value(), loaded.named_parameters()[p.key()]);\n"
         "    compare(\"gradient\", p.value().grad(), loaded.named_parameters()[p.key()].grad());\n  }\n"
         "  for (const auto& b : eager.named_buffers()) compare(b.key().c_str(), b.value(), "
         "loaded.named_buffers()[b.key()]);\n}\n";
}

}  // namespace precast::fuzz
