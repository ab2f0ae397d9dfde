// The driver of artifacts that have no kernels: the text that also stands in every artifact, compiled into the runtime.
#pragma once
#include "precast/artifact_abi.h"

namespace precast::runtime::driver {

int check_modules(const precast_spec&, const precast_host*, const precast_named* entries, int n_entries, int* slot_of);
int check_bound(const precast_spec&, const precast_host*, const precast_call*);
/// Runs the graph through host_op(context, -1, ...).
int call_graph(const precast_spec&, const precast_host*, const precast_call*);

}  // namespace precast::runtime::driver
