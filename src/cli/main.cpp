// The `precast` program: subcommands, and exit codes 0 done, 1 the job failed, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

#include "cli/commands.h"

namespace {

constexpr const char* kAbout =
    "precast: compile a PyTorch model once, run it anywhere, without Python.\n"
    "\n"
    "A model becomes a pair of files: OUT.cpp, a readable C++ source of everything it computes, and OUT.cache, the\n"
    "compiled form of that text. Neither holds weights. Any later process loads the pair in milliseconds.";

constexpr const char* kTour =
    "A first tour:\n"
    "  precast capture model.pt --input 'f32[1,576]' -o out    record model.pt; write out.cpp and out.cache\n"
    "  precast info out.cpp                                    what was compiled, what was not, and why\n"
    "  precast check model.pt out.cpp out.cache                compare with the model itself\n"
    "  precast weights model.pt -o w.safetensors               the weights, for programs without LibTorch\n"
    "  precast run out.cpp out.cache --weights w.safetensors --input x.npy -o results\n"
    "\n"
    "Exit codes: 0 done, 1 the job failed (one line on stderr says why), 2 wrong usage.\n"
    "Both files of a pair are executable input: load only what you trust. `precast info` executes nothing.";

// In the list of subcommands stands the first line of what each says of itself.
struct Help : CLI::Formatter {
  std::string make_subcommand(const CLI::App* command) const override {
    const std::string about = command->get_description();
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_name(), about.substr(0, about.find('\n')), column_width_);
    return out.str();
  }
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App program(std::string(kAbout) + "\n", "precast");
  program.footer(kTour);
  program.set_version_flag("--version", "precast " PRECAST_VERSION);
  program.require_subcommand(1);
  program.formatter(std::make_shared<Help>());
  program.get_formatter()->column_width(38);
  precast::cli::add_capture(program);
  precast::cli::add_info(program);
  precast::cli::add_check(program);
  precast::cli::add_weights(program);
  precast::cli::add_run(program);
  precast::cli::add_build(program);

  const auto complain = [&](const std::exception& e, int code) {
    const auto chosen = program.get_subcommands();
    std::cerr << "precast" << (chosen.empty() ? "" : " " + chosen[0]->get_name()) << ": " << e.what() << "\n";
    return code;
  };
  try {
    program.parse(argc, argv);
    if (!std::cout.flush()) throw std::runtime_error("standard output cannot be written");
    return 0;
  } catch (const CLI::Success& e) {  // --help, --version
    return program.exit(e);
  } catch (const CLI::ParseError& e) {
    const bool chosen = !program.get_subcommands().empty();
    if (!chosen && argc > 1 && argv[1][0] != '-')
      std::cerr << "precast: there is no subcommand '" << argv[1] << "'\n";
    else
      complain(e, 2);
    std::cerr << "Try: precast " << (chosen ? argv[1] + std::string(" ") : "") << "--help\n";
    return 2;
  } catch (const std::invalid_argument& e) {
    return complain(e, 2);
  } catch (const std::exception& e) {
    return complain(e, 1);
  }
}
