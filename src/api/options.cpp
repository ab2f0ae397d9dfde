#include "precast/options.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "api/options_check.h"
#include "artifact/isa.h"
#include "artifact/symbol.h"

namespace precast {

Tracer::Tracer(std::string_view name) {
  if (name == "dynamo")
    throw NotImplementedError("tracer 'dynamo' is planned and not there yet; use MakeFxTracer{} or \"make_fx\"");
  if (name != "make_fx")
    throw std::invalid_argument("tracer must be 'make_fx' or 'dynamo', got '" + std::string(name) + "'");
}

namespace api {

namespace {

void check_decomposition(const std::string& op, bool has_function) {
  const size_t dot = op.find('.');
  const std::string overload = dot == std::string::npos ? "" : op.substr(dot + 1);
  if (!c10::Dispatcher::singleton().findSchema({op.substr(0, dot), overload}))
    throw std::invalid_argument("decompositions: no operator is named '" + op +
                                "'; name it with its overload, such as 'aten::gelu' or 'aten::add.Tensor'");
  if (!has_function) throw std::invalid_argument("decompositions: '" + op + "' has an empty function");
}

}  // namespace

void check(const LowerOptions& options) {
  const std::string& backend = options.backend.name();
  if (backend != "inductor" && backend != "eager")
    throw std::invalid_argument("backend must be 'inductor', 'eager' or a function of the graph, got '" + backend +
                                "'");
  if (const auto& ranks = options.compile_on_one_rank) {
    if (ranks->size < 1 || ranks->rank < 0 || ranks->rank >= ranks->size)
      throw std::invalid_argument("compile_on_one_rank: rank must be in [0, size), got rank " +
                                  std::to_string(ranks->rank) + " of " + std::to_string(ranks->size));
    if (!ranks->set || !ranks->get)
      throw std::invalid_argument("compile_on_one_rank: the store has no set or no get; precast::ranks() makes them");
  }
  artifact::check_symbol(options.symbol);
  artifact::resolve_isas(options.isa);
  if (const auto& decompositions = options.tracer.make_fx().decompositions)
    for (const auto& [op, function] : decompositions->table) check_decomposition(op, static_cast<bool>(function));
}

void check(const PairPaths& paths) {
  if (paths.artifact_path.empty())
    throw std::invalid_argument("artifact_path is empty; name the file for the C++ text");
  if (paths.cache_path.empty()) throw std::invalid_argument("cache_path is empty; name the file for the cache");
  std::error_code error;
  const auto same = std::filesystem::weakly_canonical(std::filesystem::absolute(paths.artifact_path), error) ==
                    std::filesystem::weakly_canonical(std::filesystem::absolute(paths.cache_path), error);
  if (same || std::filesystem::equivalent(paths.artifact_path, paths.cache_path, error))
    throw std::invalid_argument("artifact_path and cache_path name one file, '" + paths.artifact_path.string() +
                                "'; the text and the cache are two");
}

}  // namespace api

}  // namespace precast
