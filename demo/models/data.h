// Real data: handwritten digits and recorded voices, read from files; no LibTorch here.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace precast::demo {

/// Folder that tools/fetch_data.sh fills: $PRECAST_DATA, else the project's build/data.
std::filesystem::path data_folder();
/// A file there; throws std::runtime_error that says how to get it when it is missing.
std::filesystem::path data_file(const std::string& name);

/// The 1,797 8x8 images of scikit-learn's digits, shuffled with a fixed seed.
struct Digits {
  std::vector<float> images;    // 64 a digit, 0 to 1
  std::vector<int64_t> labels;  // 0 to 9
};
Digits read_digits();

/// Mono 16-bit WAV as samples from -1 to 1.
struct Sound {
  int rate = 0;  // Hz
  std::vector<float> samples;
};
Sound read_wav(const std::filesystem::path&);
/// Every third sample after a low-pass: 48 kHz to 16 kHz.
std::vector<float> third_of_rate(const std::vector<float>&);
/// The eight recorded voices of Debian's alsa-utils at 16 kHz, with half a second of silence around each.
std::vector<float> read_voices();

}  // namespace precast::demo
