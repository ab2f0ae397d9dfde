// Options "trace.enabled" and "trace.graph_diagram": what each variant became, as files for people.
#pragma once
#include <filesystem>
#include <string>

#include "ir/graph.h"

namespace precast::jit {

/// precast_trace/NUMBER below the current folder ($PRECAST_TRACE_DIR names another); made when something is written.
class TraceFolder {
 public:
  TraceFolder();  // takes the next number
  /// A failure to write is a warning.
  void write(const std::string& name, const std::string& text) const;
  /// NAME.dot, and NAME.svg where Graphviz is installed.
  void draw(const std::string& name, const ir::Graph&) const;

 private:
  std::filesystem::path path_;
};

/// Graphviz text: one box an operation, an arrow for each tensor with its type.
std::string to_dot(const ir::Graph&);

}  // namespace precast::jit
