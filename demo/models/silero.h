// Silero VAD, a public voice-activity detector with real weights (PyPI: silero-vad), as a stream: windows of 512
// samples at 16 kHz with the 64 before them, and a state carried from window to window.
#pragma once
#include "models/data.h"
#include "models/workload.h"

namespace precast::demo {

constexpr int64_t kVadWindow = 512, kVadContext = 64;

inline AnyModule load_silero() {
  auto model = torch::jit::load(data_file("silero_vad.jit").string());
  model.eval();
  return model.attr("_model").toModule();
}
inline Tensors silero_window(torch::jit::Module& model, const Tensors& in) {
  torch::NoGradGuard no_grad;
  const auto out = model.forward({in[0], in[1]}).toTuple();
  return {out->elements()[0].toTensor(), out->elements()[1].toTensor()};
}
inline Tensors silero_start() { return {torch::zeros({1, kVadContext + kVadWindow}), torch::zeros({2, 1, 128})}; }

/// A window in the middle of a voice, with a state of its own.
inline Tensors silero_middle() {
  const auto sound = torch::tensor(read_voices());
  const int64_t at = 40 * kVadWindow;
  return {sound.slice(0, at - kVadContext, at + kVadWindow).unsqueeze(0), 0.5 * torch::randn({2, 1, 128})};
}

/// Speech probability of each window; `run` computes one window.
template <class Run>
std::vector<float> silero_stream(const std::vector<float>& samples, Run&& run) {
  std::vector<float> probabilities;
  Tensors arguments = silero_start();
  const auto sound = torch::tensor(samples);
  const int64_t count = sound.size(0);
  for (int64_t at = 0; at < count; at += kVadWindow) {
    auto window = sound.slice(0, at, at + kVadWindow);
    window = torch::constant_pad_nd(window, {0, kVadWindow - window.size(0)}).unsqueeze(0);
    arguments[0] = torch::cat({arguments[0].slice(1, kVadWindow), window}, 1);
    const Tensors out = run(arguments);
    probabilities.push_back(out[0].item<float>());
    arguments[1] = out[1];
  }
  return probabilities;
}

/// Speech from above 0.5 until 100 ms below 0.35, if it lasts 250 ms; in samples.
inline std::vector<std::pair<int64_t, int64_t>> speech_segments(const std::vector<float>& probabilities) {
  constexpr int64_t kSilence = 1600, kShortest = 4000;
  std::vector<std::pair<int64_t, int64_t>> segments;
  int64_t begin = -1, quiet = -1;
  const auto close = [&](int64_t end) {
    if (end - begin >= kShortest) segments.emplace_back(begin, end);
    begin = quiet = -1;
  };
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const int64_t now = static_cast<int64_t>(i) * kVadWindow;
    if (probabilities[i] >= 0.5f) {
      if (begin < 0) begin = now;
      quiet = -1;
    } else if (begin >= 0 && probabilities[i] < 0.35f) {
      if (quiet < 0) quiet = now;
      if (now - quiet >= kSilence) close(quiet);
    }
  }
  if (begin >= 0) close(static_cast<int64_t>(probabilities.size()) * kVadWindow);
  return segments;
}

}  // namespace precast::demo
