// Trains a network on handwritten digits, without LibTorch: the training step, its optimizer and the inference are
// artifacts linked into this program.   train digits.csv [digits.safetensors]
#include <precast/runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" const precast_artifact* digits_train(void);
extern "C" const precast_artifact* digits_eval(void);

namespace {

constexpr int kPixels = 64, kClasses = 10, kBatch = 64, kTest = 360, kEpochs = 15;
constexpr int kFloat32 = 6, kInt64 = 4;  // as c10::ScalarType numbers them

void check(int code) {
  if (code != PRECAST_OK) throw std::runtime_error(precast_last_error());
}

/// An argument on memory of the caller's.
class Argument {
 public:
  Argument(void* data, int dtype, std::vector<precast_i64> sizes)
      : data_(data), dtype_(dtype), sizes_(std::move(sizes)), strides_(sizes_.size()) {
    precast_i64 count = 1;
    for (size_t d = sizes_.size(); d-- > 0; count *= sizes_[d]) strides_[d] = count;
  }
  /// Points into this object.
  precast_leaf leaf() const {
    precast_leaf leaf{};
    leaf.kind = PRECAST_TENSOR;
    leaf.t.data = data_;
    leaf.t.identity = data_;
    leaf.t.sizes = sizes_.data();
    leaf.t.strides = strides_.data();
    leaf.t.ndim = static_cast<precast_i32>(sizes_.size());
    leaf.t.dtype = dtype_;
    return leaf;
  }

 private:
  void* data_;
  int dtype_;
  std::vector<precast_i64> sizes_, strides_;
};

struct Digits {
  std::vector<float> images;
  std::vector<precast_i64> labels;
};

/// Lines of 64 pixels from 0 to 16 and a label.
Digits read_digits(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  std::vector<std::vector<int>> rows;
  for (int value; file >> value; file.ignore()) {
    if (rows.empty() || rows.back().size() == kPixels + 1) rows.emplace_back();
    rows.back().push_back(value);
  }
  if (rows.size() < kTest + kBatch || rows.back().size() != kPixels + 1)
    throw std::runtime_error(std::string(path) + " is not the table of digits");
  std::shuffle(rows.begin(), rows.end(), std::mt19937(7));
  Digits digits;
  for (const auto& row : rows) {
    for (int i = 0; i < kPixels; ++i) digits.images.push_back(static_cast<float>(row[static_cast<size_t>(i)]) / 16.f);
    digits.labels.push_back(row[kPixels]);
  }
  return digits;
}

size_t count_of(const precast_tensor& t) {
  size_t count = 1;
  for (int d = 0; d < t.ndim; ++d) count *= static_cast<size_t>(t.sizes[d]);
  return count;
}

/// As LibTorch starts a network: uniform by fan-in; norms scale by 1.
void initialize(precast_binding* weights) {
  std::mt19937 random(1);
  for (int i = 0; i < precast_num_weights(weights); ++i) {
    const precast_named& w = *precast_weight(weights, i);
    if (w.tensor.dtype != kFloat32) continue;
    auto* data = static_cast<float*>(w.tensor.data);
    const size_t count = count_of(w.tensor);
    const std::string name = w.name;
    const bool scales =
        name.rfind("norm", 0) == 0 && (name.find("weight") != name.npos || name.find("var") != name.npos);
    if (scales) std::fill(data, data + count, 1.f);
    if (w.tensor.ndim < 2) continue;
    const float bound = std::sqrt(static_cast<float>(w.tensor.sizes[0]) / static_cast<float>(count));
    std::uniform_real_distribution<float> values(-bound, bound);
    for (size_t k = 0; k < count; ++k) data[k] = values(random);
  }
}

float train_step(const precast_binding* weights, float* images, precast_i64* labels,
                 std::vector<std::vector<float>>& momenta) {
  std::vector<Argument> arguments = {{images, kFloat32, {kBatch, 1, 8, 8}}, {labels, kInt64, {kBatch}}};
  for (size_t i = 0; i < momenta.size(); ++i) {
    const precast_tensor& t = precast_weight(weights, static_cast<int>(i))->tensor;
    arguments.emplace_back(momenta[i].data(), kFloat32, std::vector<precast_i64>(t.sizes, t.sizes + t.ndim));
  }
  std::vector<precast_leaf> leaves;
  for (const Argument& a : arguments) leaves.push_back(a.leaf());
  precast_outputs* out = nullptr;
  check(precast_call_model(weights, leaves.data(), static_cast<int>(leaves.size()), nullptr, &out));
  const float loss = *static_cast<const float*>(precast_output(out, 0)->t.data);
  precast_free_outputs(out);
  return loss;
}

double accuracy(const precast_binding* weights, Digits& digits, size_t from) {
  const Argument images(digits.images.data() + from * kPixels, kFloat32, {kTest, 1, 8, 8});
  precast_outputs* out = nullptr;
  const precast_leaf leaf = images.leaf();
  check(precast_call_model(weights, &leaf, 1, nullptr, &out));
  const auto* answers = static_cast<const precast_i64*>(precast_output(out, 0)->t.data);
  int right = 0;
  for (int i = 0; i < kTest; ++i) right += answers[i] == digits.labels[from + static_cast<size_t>(i)];
  precast_free_outputs(out);
  return 100. * right / kTest;
}

void run(const char* csv, const char* saved) {
  Digits digits = read_digits(csv);
  precast_runnable *step = nullptr, *inference = nullptr;
  precast_binding *weights = nullptr, *for_inference = nullptr;
  check(precast_link(digits_train, &step));
  check(precast_link(digits_eval, &inference));
  check(precast_bind_zeros(step, &weights));
  initialize(weights);
  std::vector<precast_named> shared;  // the inference reads the same memory
  std::vector<std::vector<float>> momenta;
  for (int i = 0; i < precast_num_weights(weights); ++i) {
    shared.push_back(*precast_weight(weights, i));
    if (!shared.back().is_buffer) momenta.emplace_back(count_of(shared.back().tensor));
  }
  check(precast_bind(inference, shared.data(), static_cast<int>(shared.size()), &for_inference));

  const size_t training = digits.labels.size() - kTest;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    float loss = 0;
    for (size_t at = 0; at + kBatch <= training; at += kBatch)
      loss = train_step(weights, digits.images.data() + at * kPixels, digits.labels.data() + at, momenta);
    if (epoch % 5 == 0)
      std::printf("epoch %2d: loss %.4f, %.1f %% right on unseen digits\n", epoch, static_cast<double>(loss),
                  accuracy(for_inference, digits, training));
  }
  if (saved) check(precast_save_weights(weights, saved));
  precast_free_binding(for_inference);
  precast_free_binding(weights);
  precast_free_runnable(inference);
  precast_free_runnable(step);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: train digits.csv [digits.safetensors]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? argv[2] : nullptr);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "train: %s\n", e.what());
    return 1;
  }
}
