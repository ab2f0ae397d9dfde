#include "jit/trace_folder.h"

#include <atomic>
#include <cstdlib>
#include <fstream>

#include "ir/print.h"
#include "util/process.h"
#include "util/warn.h"

namespace precast::jit {
namespace {

std::string node_name(size_t i) { return "n" + std::to_string(i); }

}  // namespace

TraceFolder::TraceFolder() {
  static std::atomic<int> next = 0;
  const char* const asked = std::getenv("PRECAST_TRACE_DIR");
  path_ = std::filesystem::path(asked ? asked : "precast_trace") / std::to_string(next++);
}

void TraceFolder::write(const std::string& name, const std::string& text) const {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  std::ofstream out(path_ / name, std::ios::binary);
  if (!(out << text).flush()) warn("compile: cannot write " + (path_ / name).string());
}

void TraceFolder::draw(const std::string& name, const ir::Graph& g) const {
  write(name + ".dot", to_dot(g));
  const std::string dot = find_program("dot");
  if (dot.empty()) {
    warn("compile: trace.graph_diagram: Graphviz (dot) is not installed; " + (path_ / (name + ".dot")).string() +
         " is its input");
    return;
  }
  run_process({dot, "-Tsvg", "-o", (path_ / (name + ".svg")).string(), (path_ / (name + ".dot")).string()});
}

std::string to_dot(const ir::Graph& g) {
  std::string text = "digraph {\n  node [shape=box, fontname=monospace];\n";
  std::vector<std::string> maker(g.values.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    maker[static_cast<size_t>(g.inputs[i])] = "in" + std::to_string(i);
    text += "  in" + std::to_string(i) + " [shape=ellipse, label=\"" + ir::to_string(g.type(g.inputs[i])) + "\"];\n";
  }
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    text += "  " + node_name(i) + " [label=\"" + g.nodes[i].op + "\"];\n";
    ir::for_each_operand(g.nodes[i], [&](ir::Slot, ir::ValueId v) {
      if (v != ir::kNoValue)
        text += "  " + maker[static_cast<size_t>(v)] + " -> " + node_name(i) + " [label=\"" + ir::to_string(g.type(v)) +
                "\"];\n";
    });
    ir::for_each_definition(g.nodes[i], [&](ir::ValueId v) { maker[static_cast<size_t>(v)] = node_name(i); });
  }
  for (size_t i = 0; i < g.outputs.size(); ++i)
    text += "  out" + std::to_string(i) + " [shape=ellipse];\n  " + maker[static_cast<size_t>(g.outputs[i])] +
            " -> out" + std::to_string(i) + " [label=\"" + ir::to_string(g.type(g.outputs[i])) + "\"];\n";
  return text + "}\n";
}

}  // namespace precast::jit
