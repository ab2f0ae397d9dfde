// Calls of the preamble's routines: a struct of sizes and pointers, and the call.
#include "emit/kernel.h"
#include "emit/writer.h"

namespace precast::emit {

KernelText routine_text(const loops::Step& s) {
  const loops::Routine& r = *s.routine;
  KernelText out;
  out.text = "struct KERNEL_call {\ntypedef " + type_name(r.dtype) + " T;\n";
  for (const auto& [name, value] : r.sizes)
    out.text += "static constexpr i64 " + name + " = " + std::to_string(value) + "LL;\n";
  for (const auto& [name, value] : r.reals) out.text += "static constexpr f64 " + name + " = " + literal(value) + ";\n";
  for (const auto& [name, values] : r.lists) {
    out.text += "static constexpr i64 " + name + "[] = {";
    for (int64_t v : values) out.text += std::to_string(v) + "LL, ";
    out.text += "};\n";
  }
  std::string call, text;
  const auto pointer = [&](const std::string& type, const std::string& name) {
    out.text += type + "* " + name + ";\n";
    call += (call.empty() ? "" : ", ") + ("(" + type + "*)P[" + std::to_string(out.pointers.size()) + "]");
  };
  for (size_t i = 0; i < r.reads.size(); ++i) {
    pointer("const " + type_name(r.reads[i].dtype), r.reads[i].name);
    out.pointers.push_back({s.operands[i].buffer, s.operands[i].offset_bytes});
  }
  for (size_t i = 0; i < r.writes.size(); ++i) {
    pointer(type_name(r.writes[i].dtype), r.writes[i].name);
    out.pointers.push_back({s.results[i], 0});
  }
  if (r.workspace_bytes > 0) pointer("char", "workspace");
  out.text += "};\nvoid KERNEL(const precast_host* host, void* const* P) { " + r.function + "(host, KERNEL_call{" +
              call + "}); }\n";
  out.workspace_bytes = r.workspace_bytes;
  out.flops = r.flops;
  return out;
}

}  // namespace precast::emit
