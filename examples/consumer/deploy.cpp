// Calls the artifact that is linked into this program. Nothing of LibTorch is here.
#include <precast/runtime.h>

#include <cmath>
#include <cstdio>

extern "C" const precast_artifact* polynomial(void);

namespace {

precast_leaf tensor(float* data, const precast_i64* size) {
  static const precast_i64 stride = 1;
  precast_leaf leaf{};
  leaf.kind = PRECAST_TENSOR;
  leaf.t.data = data;
  leaf.t.sizes = size;
  leaf.t.strides = &stride;
  leaf.t.identity = data;
  leaf.t.ndim = 1;
  leaf.t.dtype = 6;  // float32, as in c10::ScalarType
  return leaf;
}

int fail() {
  std::fprintf(stderr, "%s\n", precast_last_error());
  return 1;
}

}  // namespace

int main() {
  float x[5] = {-2, -1, 0, 1, 2}, c[3] = {1, 2, 3};
  const precast_i64 five = 5, three = 3;
  const precast_leaf arguments[] = {tensor(x, &five), tensor(c, &three)};

  precast_runnable* model;
  precast_binding* weights;
  precast_outputs* outputs;
  if (precast_link(polynomial, &model) || precast_bind(model, nullptr, 0, &weights) ||
      precast_call_model(weights, arguments, 2, nullptr, &outputs))
    return fail();
  const auto* y = static_cast<const float*>(precast_output(outputs, 0)->t.data);
  int wrong = 0;
  for (int i = 0; i < 5; ++i) {
    const float expected = (c[2] * x[i] + c[1]) * x[i] + c[0];
    std::printf("p(%g) = %g\n", x[i], y[i]);
    wrong += std::fabs(y[i] - expected) > 1e-5f;
  }
  precast_free_outputs(outputs);
  precast_free_binding(weights);
  precast_free_runnable(model);
  return wrong;
}
