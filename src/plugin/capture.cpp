#include <span>

#include "plugin/commands.h"
#include "plugin/script.h"
#include "precast/detail/core.h"
#include "precast/dynamic.h"
#include "precast/error.h"

namespace precast::plugin {

void capture(const precast_capture_request& request) {
  LowerOptions options;
  options.backend = request.backend;
  options.symbol = request.symbol;
  options.isa.assign(request.isa, request.isa + request.n_isa);
  options.verify = request.verify != 0;
  detail::CaptureCore core({request.artifact_path, request.cache_path}, options);

  Script script(request.callable);
  const auto inputs = script.complete(to_ivalues(request.inputs, request.n_inputs));
  for (const precast_open_size& open : std::span(request.open_sizes, static_cast<size_t>(request.n_open_sizes))) {
    if (open.input < 0 || static_cast<size_t>(open.input) >= inputs.size() ||
        !inputs[static_cast<size_t>(open.input)].isTensor())
      throw PrecompileError("an open size of input " + std::to_string(open.input) + ", which is no tensor argument");
    Mark mark{.min = open.min};
    if (open.max >= 0) mark.max = open.max;
    mark_unbacked(inputs[static_cast<size_t>(open.input)].toTensor(), open.dim, mark);
  }
  const Flat arguments = flatten_arguments(inputs);
  in_model([&] {
    core.record(arguments_of(script.module(), arguments, static_cast<int>(inputs.size())),
                [&](const detail::ResultSink& sink) {
                  std::vector<c10::IValue> now = inputs;  // a tensor with an open size is another one meanwhile
                  for (size_t i = 0; i < static_cast<size_t>(request.n_inputs); ++i)
                    if (now[i].isTensor()) now[i] = *arguments.leaves[i].tensor;
                  const c10::IValue result = script.run(script.module(), now);
                  Flat flat;
                  flat.add(result, "the result");
                  sink(flat.leaves, flat.spec);
                });
  });
  core.finish();
}

}  // namespace precast::plugin
