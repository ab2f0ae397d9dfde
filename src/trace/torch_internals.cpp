#include "trace/torch_internals.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/COW.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/library.h>

#include <charconv>
#include <unordered_set>
#include <utility>

#include "precast/error.h"

namespace precast::trace {

namespace {
// Short enough, with its number, for a std::string without allocation: sealing happens at every op.
constexpr std::string_view kSeal = "precast#";
}  // namespace

void register_fallback() {
  static const bool registered = [] {
    try {
      static torch::Library library(torch::Library::IMPL, "_", kRecordingKey, __FILE__, __LINE__);
      library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_op>());
    } catch (const c10::Error& e) {
      throw PrecompileError(
          "recording needs LibTorch's dispatch key Fake, and another library in this process (or a second copy of "
          "precast) has registered a fallback there: " +
          std::string(e.what_without_backtrace()));
    }
    return true;
  }();
  (void)registered;
}

bool is_copy_on_write(c10::StorageImpl* s) { return c10::impl::cow::is_cow_data_ptr(s->_mutable_data_ptr_no_checks()); }

bool is_own_memory(c10::StorageImpl* s) {
  const auto& p = s->_mutable_data_ptr_no_checks();
  return p.get() == nullptr || p.get_deleter() == c10::GetCPUAllocator()->raw_deleter();
}

void seal(c10::StorageImpl* s, uint32_t number) {
  char text[16];
  char* end = std::copy(kSeal.begin(), kSeal.end(), text);
  end = std::to_chars(end, text + sizeof text, number, 36).ptr;
  s->release_data_and_set_meta_custom_data_ptr_error_msg_(std::string(text, end));
}

void unseal(c10::StorageImpl* s) { s->clear_data_ptr_access_error_msg_(); }

std::optional<uint32_t> sealed_number(const std::string& message) {
  const size_t at = message.find(kSeal);
  if (at == message.npos) return {};
  uint32_t number = 0;
  const char* begin = message.data() + at + kSeal.size();
  if (std::from_chars(begin, message.data() + message.size(), number, 36).ec != std::errc{}) return {};
  return number;
}

std::optional<std::vector<at::Tensor>> saved_tensors(const at::Tensor& root) {
  using torch::autograd::Node;
  namespace compiled = torch::dynamo::autograd;
  std::vector<c10::intrusive_ptr<Node>> todo;
  std::unordered_set<Node*> seen;
  const auto visit = [&](const c10::intrusive_ptr<Node>& node) {
    if (node && seen.insert(node.get()).second) todo.push_back(node);
  };
  if (root.grad_fn()) visit(root.grad_fn());
  // Compiled autograd's visitor is the only way to ask a node of any kind what it saved.
  compiled::AutogradCompilerCall saved(compiled::SizeInput::STATIC);
  while (!todo.empty()) {
    const auto node = todo.back();
    todo.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge.function);
    try {
      compiled::NodeCall call(0, node);
      compiled::CompiledNodeArgs args(saved, call);
      node->compiled_args(args);
    } catch (const std::exception&) {
      return {};
    }
  }
  return saved.tensor_args.inputs;
}

namespace {
thread_local bool as_in_backward = false;
}
bool in_backward() { return as_in_backward || torch::autograd::get_current_graph_task_id() != -1; }
AsInBackward::AsInBackward(bool on) : before_(std::exchange(as_in_backward, on)) {}
AsInBackward::~AsInBackward() { as_in_backward = before_; }

std::string unsupported_kind(const at::Tensor& t) {
  if (t.is_nested()) return "a nested tensor";
  if (t.is_quantized()) return "a quantized tensor";
  if (t.layout() != at::kStrided) return "a tensor of layout " + c10::str(t.layout());
  if (!t.device().is_cpu()) return "a tensor on device " + t.device().str();
  if (!t.has_storage()) return "a tensor without storage";
  const c10::DispatchKeySet wrappers({c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                                      c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize});
  if (t.key_set().has_any(wrappers)) return "a tensor subclass or functorch wrapper";
  return {};
}

}  // namespace precast::trace
