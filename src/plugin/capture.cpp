#include "plugin/commands.h"
#include "plugin/script.h"
#include "precast/detail/core.h"

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
  const Flat arguments = flatten_arguments(inputs);
  in_model([&] {
    core.record(arguments_of(script.module(), arguments, static_cast<int>(inputs.size())),
                [&](const detail::ResultSink& sink) {
                  const c10::IValue result = script.run(script.module(), inputs);
                  Flat flat;
                  flat.add(result, "the result");
                  sink(flat.leaves, flat.spec);
                });
  });
  core.finish();
}

}  // namespace precast::plugin
