#include "cli/target.h"

#include "cli/values.h"

namespace precast::cli {

void Target::add_options(CLI::App& command, bool with_method) {
  command.add_option("model", file, "TorchScript file (torch.jit.save, or torch::jit::Module::save)")
      ->required()
      ->type_name("MODEL.pt")
      ->check(kNamed);
  command.add_option("--submodule", submodule, "take a module inside it: a path such as encoder.layers.0")
      ->type_name("PATH");
  if (!with_method) return;
  command.add_option("--method", method, "method to call (default: forward)")->type_name("NAME");
  command.add_flag("--train", train, "put the model into training mode (default: eval mode)");
}

precast_callable Target::callable() const { return {file.c_str(), submodule.c_str(), method.c_str(), train}; }

}  // namespace precast::cli
