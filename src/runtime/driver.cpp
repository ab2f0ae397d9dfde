#include "runtime/driver.h"

namespace precast::runtime::driver {
namespace {
#include "artifact/driver.inc"
}  // namespace

int check_modules(const precast_spec& spec, const precast_host* host, const precast_named* entries, int n_entries,
                  int* slot_of) {
  return precast_check_modules(spec, host, entries, n_entries, slot_of);
}

int check_bound(const precast_spec& spec, const precast_host* host, const precast_call* call) {
  const precast_program program = {&spec, nullptr, nullptr, 0, 0};
  return precast_prepare_program(program, host, call, nullptr);
}

int call_graph(const precast_spec& spec, const precast_host* host, const precast_call* call) {
  const precast_program program = {&spec, nullptr, nullptr, 0, 0};
  return precast_call_program(program, host, call);
}

}  // namespace precast::runtime::driver
