// Prints where somebody speaks in a WAV file: Silero VAD as a precast artifact, without LibTorch.
//   vad silero.safetensors sound.wav
#include <precast/runtime.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include "wav.h"

extern "C" const precast_artifact* precast_model(void);  // silero.cpp

namespace {

constexpr int kRate = 16000, kWindow = 512, kContext = 64;

void check(int code) {
  if (code != PRECAST_OK) throw std::runtime_error(precast_last_error());
}

/// A contiguous float32 argument.
struct Argument {
  std::vector<float> data;
  std::vector<precast_i64> sizes, strides;

  explicit Argument(std::vector<precast_i64> of) : sizes(std::move(of)), strides(sizes.size()) {
    precast_i64 count = 1;
    for (size_t d = sizes.size(); d-- > 0; count *= sizes[d]) strides[d] = count;
    data.resize(static_cast<size_t>(count));
  }
  precast_leaf leaf() {
    precast_leaf l{};
    l.kind = PRECAST_TENSOR;
    l.t.data = l.t.handle = data.data();
    l.t.identity = this;
    l.t.sizes = sizes.data();
    l.t.strides = strides.data();
    l.t.ndim = static_cast<precast_i32>(sizes.size());
    l.t.dtype = 6;  // float32, as c10::ScalarType numbers it
    return l;
  }
};

class Detector {
 public:
  explicit Detector(const char* weights_path) {
    check(precast_link(precast_model, &model_));
    check(precast_bind_file(model_, weights_path, &weights_));
  }
  ~Detector() {
    precast_free_binding(weights_);
    precast_free_runnable(model_);
  }

  /// The probability that somebody speaks in the next kWindow samples.
  float operator()(const float* samples) {
    auto& sound = window_.data;
    std::copy(sound.end() - kContext, sound.end(), sound.begin());
    std::copy(samples, samples + kWindow, sound.begin() + kContext);
    const precast_leaf arguments[] = {window_.leaf(), state_.leaf()};
    precast_outputs* out = nullptr;
    check(precast_call_model(weights_, arguments, 2, nullptr, &out));
    const float probability = *static_cast<const float*>(precast_output(out, 0)->t.data);
    const auto* state = static_cast<const float*>(precast_output(out, 1)->t.data);
    state_.data.assign(state, state + state_.data.size());
    precast_free_outputs(out);
    return probability;
  }

 private:
  precast_runnable* model_ = nullptr;
  precast_binding* weights_ = nullptr;
  Argument window_{{1, kContext + kWindow}}, state_{{2, 1, 128}};
};

/// Speech from above 0.5 until 100 ms below 0.35, where it lasts 250 ms.
void print_segments(Detector& speaks, std::vector<float> samples) {
  constexpr int kSilence = kRate / 10, kShortest = kRate / 4;
  samples.resize((samples.size() + kWindow - 1) / kWindow * kWindow);
  const int end = static_cast<int>(samples.size());
  int begin = -1, quiet = -1;
  const auto close = [&](int at) {
    if (at - begin >= kShortest) std::printf("%8.3f s to %8.3f s\n", 1. * begin / kRate, 1. * at / kRate);
    begin = quiet = -1;
  };
  for (int now = 0; now < end; now += kWindow) {
    const float probability = speaks(samples.data() + now);
    if (probability >= 0.5f) {
      if (begin < 0) begin = now;
      quiet = -1;
    } else if (begin >= 0 && probability < 0.35f) {
      if (quiet < 0) quiet = now;
      if (now - quiet >= kSilence) close(quiet);
    }
  }
  if (begin >= 0) close(end);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: vad silero.safetensors sound.wav\n");
    return 2;
  }
  try {
    Detector speaks(argv[1]);
    print_segments(speaks, read_wav(argv[2], kRate));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "vad: %s\n", e.what());
    return 1;
  }
}
