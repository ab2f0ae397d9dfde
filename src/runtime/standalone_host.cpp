#include "runtime/standalone_host.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ir/type.h"
#include "runtime/threads.h"
#include "util/errors.h"

namespace precast::runtime {

struct StandaloneHost::State {
  const artifact::Metadata& metadata;
  const precast_host_ops* ops;
  precast_host host{};
  std::vector<void*> blocks;
  std::string failure;
};

namespace {

// Bytes from the first element to one past the last.
size_t bytes_of(const precast_tensor& t) {
  size_t last = 0;
  for (int d = 0; d < t.ndim; ++d) {
    if (t.sizes[d] == 0) return 0;
    last += static_cast<size_t>((t.sizes[d] - 1) * t.strides[d]);
  }
  return (last + 1) * static_cast<size_t>(ir::itemsize(static_cast<ir::Dtype>(t.dtype)));
}

}  // namespace

StandaloneHost::StandaloneHost(const artifact::Metadata& metadata, const precast_host_ops* lent)
    : state_(new State{metadata, lent, {}, {}, {}}) {
  precast_host& h = state_->host;
  h.abi_version = PRECAST_ABI_VERSION;
  h.struct_size = sizeof(precast_host);
  h.context = state_.get();
  h.num_threads = num_threads();
  h.allocate = [](void* context, precast_tensor* t) {
    auto& state = *static_cast<State*>(context);
    if (t->device_type != 0) {
      state.failure =
          "a result is on device type " + std::to_string(t->device_type) + "; without LibTorch only the CPU is there";
      return 1;
    }
    t->data = std::aligned_alloc(64, (std::max<size_t>(bytes_of(*t), 1) + 63) / 64 * 64);
    if (t->data == nullptr) {
      state.failure = "out of memory for a result of " + std::to_string(bytes_of(*t)) + " bytes";
      return 1;
    }
    t->handle = t->data;
    state.blocks.push_back(t->data);
    return 0;
  };
  h.parallel_for = [](void*, precast_i64 count, precast_i64 grain, void (*fn)(void*, precast_i64, precast_i64),
                      void* arg) { parallel_for(count, grain, fn, arg); };
  h.host_op = [](void* context, precast_i32 index, const precast_i64* symbols, void* const* in, void** out) {
    auto& state = *static_cast<State*>(context);
    if (state.ops) {
      const int code = state.ops->run(state.ops->context, index, symbols, in, out);
      if (code != 0) state.failure = state.ops->last_error();
      return code;
    }
    const auto& ops = state.metadata.host_ops;
    const auto i = static_cast<size_t>(index);
    state.failure = index >= 0 && i < ops.size()
                        ? "the artifact needs LibTorch for " + ops[i].op + " (" + ops[i].why + ")"
                        : "the artifact has no kernels, so it needs LibTorch to run its graph";
    return 1;
  };
  h.fail = [](void* context, precast_i32, const char* message) { static_cast<State*>(context)->failure = message; };
}

StandaloneHost::~StandaloneHost() {
  for (void* block : state_->blocks) std::free(block);
}

const precast_host& StandaloneHost::host() const { return state_->host; }
const std::string& StandaloneHost::failure() const { return state_->failure; }

void StandaloneHost::check(int code) const {
  if (code == PRECAST_OK) return;
  const std::string reason = state_->failure.empty() ? "the artifact gave no reason" : state_->failure;
  if (code == PRECAST_INTERNAL) throw InternalError(reason);
  throw PrecompileError(reason);
}

}  // namespace precast::runtime
