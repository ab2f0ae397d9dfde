// Tells when fn asks for a parameter's gradient (Tensor::grad(), not mutable_grad()), before it gets the answer. No op
// shows that; but LibTorch asks the tensor's autograd data by a virtual function, and ours stands in for it meanwhile.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <unordered_map>
#include <vector>

namespace torch::autograd {
struct AutogradMeta;
}

namespace precast::trace {

class GradientWatch {
 public:
  using Asked = std::function<void(size_t index)>;
  /// Of this thread's questions. Tensors whose autograd data is not of the ordinary class, or watched by another
  /// thread, are not watched.
  GradientWatch(const std::vector<at::Tensor>&, Asked);
  ~GradientWatch();
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;

  void note(const void* data) const;  // a question to this autograd data

 private:
  struct Watched {
    at::Tensor tensor;
    torch::autograd::AutogradMeta* data = nullptr;
    void* class_word = nullptr;
  };
  std::vector<Watched> watched_;
  std::unordered_map<const void*, size_t> index_of_;  // by autograd data
  const Asked asked_;
  const GradientWatch* const outer_;
};

}  // namespace precast::trace
