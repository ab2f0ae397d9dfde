#include "models/data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numbers>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>

namespace precast::demo {
namespace {

constexpr int kPixels = 64;
constexpr const char* kVoices[] = {"Front_Center", "Front_Left", "Front_Right", "Rear_Center",
                                   "Rear_Left",    "Rear_Right", "Side_Left",   "Side_Right"};

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <class T>
T little_endian(const std::string& bytes, size_t at) {
  T value;
  if (at + sizeof value > bytes.size()) throw std::runtime_error("the file ends too early");
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::filesystem::path data_folder() {
  const char* folder = std::getenv("PRECAST_DATA");
  return folder ? folder : PRECAST_DATA_FOLDER;
}

std::filesystem::path data_file(const std::string& name) {
  const auto path = data_folder() / name;
  if (!std::filesystem::exists(path))
    throw std::runtime_error(path.string() + " is missing; tools/fetch_data.sh downloads it from PyPI");
  return path;
}

Digits read_digits() {
  std::istringstream lines(read_all(data_file("digits.csv")));
  std::vector<std::array<int, kPixels + 1>> rows;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    auto& row = rows.emplace_back();
    for (int& value : row) {
      char comma;
      if (!(numbers >> value))
        throw std::runtime_error("digits.csv: line " + std::to_string(rows.size()) + " is short");
      numbers >> comma;
    }
  }
  std::mt19937 random(7);
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);  // the same with every library

  Digits digits;
  for (const auto& row : rows) {
    for (int i = 0; i < kPixels; ++i) digits.images.push_back(static_cast<float>(row[i]) / 16.f);
    digits.labels.push_back(row[kPixels]);
  }
  return digits;
}

Sound read_wav(const std::filesystem::path& path) {
  const std::string bytes = read_all(path);
  if (bytes.compare(0, 4, "RIFF") != 0 || bytes.compare(8, 4, "WAVE") != 0)
    throw std::runtime_error(path.string() + " is no WAV file");
  Sound sound;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const std::string kind = bytes.substr(at, 4);
    const size_t size = little_endian<uint32_t>(bytes, at + 4), body = at + 8;
    if (kind == "fmt ") {
      if (little_endian<uint16_t>(bytes, body) != 1 || little_endian<uint16_t>(bytes, body + 2) != 1 ||
          little_endian<uint16_t>(bytes, body + 14) != 16)
        throw std::runtime_error(path.string() + ": expected mono 16-bit PCM");
      sound.rate = static_cast<int>(little_endian<uint32_t>(bytes, body + 4));
    } else if (kind == "data") {
      for (size_t i = body; i + 2 <= std::min(body + size, bytes.size()); i += 2)
        sound.samples.push_back(static_cast<float>(little_endian<int16_t>(bytes, i)) / 32768.f);
    }
    at = body + size + size % 2;
  }
  return sound;
}

std::vector<float> third_of_rate(const std::vector<float>& in) {
  constexpr int kHalf = 48;                   // taps on each side
  constexpr double kCutoff = 7200.0 / 48000;  // just below half the new rate
  std::array<double, 2 * kHalf + 1> taps;
  for (int i = -kHalf; i <= kHalf; ++i) {  // a sinc under a Hann window
    const double x = 2 * std::numbers::pi * kCutoff * i;
    const double window = 0.5 + 0.5 * std::cos(std::numbers::pi * i / (kHalf + 1));
    taps[i + kHalf] = 2 * kCutoff * window * (i == 0 ? 1 : std::sin(x) / x);
  }
  const double sum = std::accumulate(taps.begin(), taps.end(), 0.0);

  std::vector<float> out;
  for (int at = 0; at < static_cast<int>(in.size()); at += 3) {
    double value = 0;
    for (int i = -kHalf; i <= kHalf; ++i)
      if (at + i >= 0 && at + i < static_cast<int>(in.size())) value += taps[i + kHalf] * in[at + i];
    out.push_back(static_cast<float>(value / sum));
  }
  return out;
}

std::vector<float> read_voices() {
  std::vector<float> all(8000, 0.f);
  for (const char* voice : kVoices) {
    const std::string path = std::string("/usr/share/sounds/alsa/") + voice + ".wav";
    if (!std::filesystem::exists(path))
      throw std::runtime_error(path + " is missing; it comes with Debian's alsa-utils (tools/setup.sh installs it)");
    const Sound sound = read_wav(path);
    if (sound.rate != 48000) throw std::runtime_error(path + ": expected 48 kHz");
    const auto samples = third_of_rate(sound.samples);
    all.insert(all.end(), samples.begin(), samples.end());
    all.insert(all.end(), 8000, 0.f);
  }
  return all;
}

}  // namespace precast::demo
