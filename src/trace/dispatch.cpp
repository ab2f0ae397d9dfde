#include "trace/dispatch.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "trace/host_readers.h"
#include "trace/torch_internals.h"
#include "trace/value_conditions.h"

namespace precast::trace {

namespace {

// Travels with LibTorch's thread-local state, so the recorder is found wherever the dispatch key is on.
struct RecorderInfo : c10::DebugInfoBase {
  explicit RecorderInfo(OpRecorder* r) : recorder(r) {}
  OpRecorder* recorder;
};
constexpr std::string_view kInfoName = "PRECAST_RECORDER";
constexpr c10::DebugInfoKind kInfo(&kInfoName);

OpRecorder* current() {
  auto* info = static_cast<RecorderInfo*>(c10::ThreadLocalDebugInfo::get(kInfo));
  return info ? info->recorder : nullptr;
}

struct Active {
  std::mutex mutex;
  std::vector<OpRecorder*> recorders;
};
Active& active() {
  static Active a;
  return a;
}

std::unique_ptr<at::ObserverContext> watch_op(const at::RecordFunction& fn) {
  if (current()) return nullptr;
  const auto name = fn.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!op) return nullptr;
  thread_local OpInfos infos;
  const OpInfo& info = infos.get(*op);
  std::lock_guard lock(active().mutex);
  const auto note = [&](const c10::IValue& v, bool writes) {
    if (!v.isTensor() || !v.toTensor().defined() || !v.toTensor().has_storage()) return;
    for (OpRecorder* r : active().recorders) r->note_foreign_op(v.toTensor(), info.name, writes);
  };
  for (size_t i = 0; i < fn.inputs().size(); ++i) {
    const c10::IValue& v = fn.inputs()[i];
    const bool writes = i < info.args.size() && (info.args[i].writes || info.args[i].hidden_write);
    note(v, writes);
    if (v.isList())
      for (const c10::IValue& item : v.toListRef()) note(item, writes);
  }
  if (info.random)
    for (OpRecorder* r : active().recorders) r->foreign_draws = true;
  return nullptr;
}

}  // namespace

void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecordingKey);
  if (OpRecorder* r = current()) return r->run(op, below, stack);
  c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordingKey);
  op.redispatchBoxed(below, stack);
}

bool is_recording() {
  return current() && c10::impl::tls_is_dispatch_key_included(kRecordingKey) &&
         !c10::impl::tls_is_dispatch_key_excluded(kRecordingKey);
}

void refuse_recording(const std::string& message) {
  if (is_recording()) current()->refuse_call(message);
}

bool recording_has_failed() { return is_recording() && current()->refusal(); }

bool runs_through() { return is_recording() && current()->run_through; }
size_t recorded_draws() { return is_recording() ? current()->builder.random_nodes.size() : 0; }
void set_run_through(bool on) {
  if (is_recording()) current()->run_through = on;
}

void prepare_recording() {
  register_fallback();
  register_host_readers();
  register_value_conditions();
}

RecordingScope::RecordingScope(OpRecorder& r) : recorder_(r) {
  if (current())
    refuse(Check::capture_nested, "a function is being recorded in this thread already; finish that call first");
  prepare_recording();
  if (!at::hasCallbacks()) not_here_.emplace(false);  // else a profiler needs them: slower, and as right
  watch_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&watch_op).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  {
    std::lock_guard lock(active().mutex);
    active().recorders.push_back(&r);
  }
  r.births.watch();
  info_.emplace(kInfo, std::make_shared<RecorderInfo>(&r));
  key_.emplace(kRecordingKey);
}

RecordingScope::~RecordingScope() {
  key_.reset();
  info_.reset();
  recorder_.births.stop();
  {
    std::lock_guard lock(active().mutex);
    std::erase(active().recorders, &recorder_);
  }
  at::removeCallback(watch_);
}

}  // namespace precast::trace
