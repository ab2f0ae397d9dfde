// 16-bit PCM WAV files as samples in [-1, 1) at a wanted rate.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

/// Every `factor`-th sample, after a low pass (a sinc under a Hann window) that keeps what the new rate can hold.
inline std::vector<float> decimated(const std::vector<float>& in, int factor) {
  if (factor == 1) return in;
  const int half = 16 * factor;
  const double pi = std::acos(-1.0), cutoff = 0.45 / factor;
  std::vector<double> taps(static_cast<size_t>(2 * half + 1));
  double sum = 0;
  for (int i = -half; i <= half; ++i) {
    const double x = 2 * pi * cutoff * i, window = 0.5 + 0.5 * std::cos(pi * i / (half + 1));
    sum += taps[static_cast<size_t>(i + half)] = window * (i == 0 ? 1 : std::sin(x) / x);
  }
  std::vector<float> out;
  const int count = static_cast<int>(in.size());
  for (int at = 0; at < count; at += factor) {
    double value = 0;
    for (int i = -half; i <= half; ++i)
      if (at + i >= 0 && at + i < count) value += taps[static_cast<size_t>(i + half)] * in[static_cast<size_t>(at + i)];
    out.push_back(static_cast<float>(value / sum));
  }
  return out;
}

/// Channels are averaged; the file's rate must be a multiple of `rate`. Throws std::runtime_error.
inline std::vector<float> read_wav(const std::string& path, int rate) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto number = [&](size_t at, size_t size) {
    uint32_t value = 0;
    if (at + size > bytes.size()) throw std::runtime_error(path + " ends too early");
    std::memcpy(&value, bytes.data() + at, size);
    return value;
  };
  if (bytes.compare(0, 4, "RIFF") != 0 || bytes.compare(8, 4, "WAVE") != 0)
    throw std::runtime_error(path + " is no WAV file");
  int channels = 0, file_rate = 0;
  std::vector<float> samples;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const std::string kind = bytes.substr(at, 4);
    const size_t size = number(at + 4, 4), body = at + 8;
    if (kind == "fmt ") {
      channels = static_cast<int>(number(body + 2, 2));
      file_rate = static_cast<int>(number(body + 4, 4));
      if (number(body, 2) != 1 || number(body + 14, 2) != 16 || channels < 1)
        throw std::runtime_error(path + ": expected 16-bit PCM");
      if (file_rate % rate != 0)
        throw std::runtime_error(path + ": expected a multiple of " + std::to_string(rate) + " Hz, found " +
                                 std::to_string(file_rate));
    } else if (kind == "data" && channels > 0) {
      const size_t frame = 2 * static_cast<size_t>(channels);
      for (size_t i = body; i + frame <= std::min(body + size, bytes.size()); i += frame) {
        float sum = 0;
        for (size_t c = 0; c < frame; c += 2) sum += static_cast<int16_t>(number(i + c, 2));
        samples.push_back(sum / (32768.f * static_cast<float>(channels)));
      }
    }
    at = body + size + size % 2;
  }
  if (samples.empty()) throw std::runtime_error(path + " holds no sound");
  return decimated(samples, file_rate / rate);
}
