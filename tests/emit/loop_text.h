// Text of a loop over arrays at both widths that kernels use, with a tail: what vocabulary tests run.
#pragma once
#include <string>
#include <vector>

/// extern "C" void NAME(const In* x0, const In* x1, ..., Out* y, i64 n, bool lanes): y[i] = `expression` of the
/// registers v0, v1, ...
inline std::string loop_text(const std::string& name, const std::vector<std::string>& in, const std::string& out,
                             const std::string& expression) {
  std::string params, loads, args;
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string k = std::to_string(i);
    params += "const " + in[i] + "* x" + k + ", ";
    loads += "    const auto v" + k + " = load<" + in[i] + ", W>(x" + k + " + i, len);\n";
    args += "x" + k + ", ";
  }
  return "template <int W> static void " + name + "_loop(" + params + out + "* y, i64 n) {\n" +
         "  for (i64 i = 0; i < n; i += W) {\n    const int len = n - i < W ? (int)(n - i) : W;\n" + loads +
         "    store<" + out + ">(y + i, " + expression + ", len);\n  }\n}\n" + "extern \"C\" void " + name + "(" +
         params + out + "* y, i64 n, bool lanes) { lanes ? " + name + "_loop<LANES>(" + args + "y, n) : " + name +
         "_loop<1>(" + args + "y, n); }\n";
}
