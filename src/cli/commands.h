// The subcommands. Each function adds one to the program: its options, its help, and the callback that does the work
// and throws std::invalid_argument for wrong usage, anything else for a job that failed.
#pragma once

namespace CLI {
class App;
}

namespace precast::cli {

void add_capture(CLI::App& program);
void add_info(CLI::App& program);
void add_weights(CLI::App& program);
void add_run(CLI::App& program);
void add_check(CLI::App& program);
void add_build(CLI::App& program);

}  // namespace precast::cli
