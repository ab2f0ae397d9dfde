// Calls of the preamble's routines: a struct of sizes and pointers, and the call.
#include "emit/kernel.h"
#include "emit/size_text.h"
#include "emit/writer.h"

namespace precast::emit {

KernelText routine_text(const loops::Step& s, const std::vector<ir::Symbol>& symbols) {
  const loops::Routine& r = *s.routine;
  KernelText out;
  out.text = "struct KERNEL_call {\ntypedef " + type_name(r.dtype) + " T;\n";
  std::string call;  // what the struct is filled with
  for (const auto& [name, value] : r.sizes)
    if (value.is_symbolic())
      out.text += "i64 " + name + ";\n", call += text(value) + ", ";
    else
      out.text += "static constexpr i64 " + name + " = " + text(value) + "LL;\n";
  for (const auto& [name, value] : r.reals) out.text += "static constexpr f64 " + name + " = " + literal(value) + ";\n";
  for (const auto& [name, values] : r.lists) {
    out.text += "static constexpr i64 " + name + "[] = {";
    for (int64_t v : values) out.text += std::to_string(v) + "LL, ";
    out.text += "};\n";
  }
  size_t count = 0;
  const auto pointer = [&](const std::string& type, const std::string& name) {
    out.text += type + "* " + name + ";\n";
    call += "(" + type + "*)P[" + std::to_string(count++) + "], ";
  };
  for (size_t i = 0; i < r.reads.size(); ++i) {
    pointer("const " + type_name(r.reads[i].dtype), r.reads[i].name);
    out.pointers.push_back({s.operands[i].buffer, s.operands[i].offset_bytes});
  }
  for (size_t i = 0; i < r.writes.size(); ++i) {
    pointer(type_name(r.writes[i].dtype), r.writes[i].name);
    out.pointers.push_back({s.results[i], 0});
  }
  if (r.workspace_bytes != 0) pointer("char", "workspace");
  const std::string sizes = declare_sizes(call, symbols, "(const i64*)P[" + std::to_string(count) + "]");
  out.reads_sizes = !sizes.empty();
  out.text += "};\nvoid KERNEL(const precast_host* host, void* const* P) { " + sizes + r.function +
              "(host, KERNEL_call{" + call + "}); }\n";
  out.workspace_bytes = r.workspace_bytes;
  out.flops = r.flops;
  return out;
}

}  // namespace precast::emit
