// One workload through precast: capture it here, judge the pair against eager in a fresh process.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace precast::demo {

struct Listed {
  std::string name, what;
};
/// The table of models/workload.h without LibTorch's headers.
std::vector<Listed> list_workloads();

struct Captured {
  std::filesystem::path artifact, cache;
  double record_s = 0;   // the call: run, record, verify
  double compile_s = 0;  // lower, compile, write
  int ops = 0, lowered = 0, kernels = 0, host_ops = 0;
};
/// Writes FOLDER/NAME-BACKEND.cpp and .cache.
Captured capture_pair(const std::string& workload, const std::string& backend, const std::filesystem::path& folder);

/// What a fresh process found.
struct Judged {
  bool equal = false;
  std::string why;        // when not equal, or when the process failed
  double difference = 0;  // largest |a - b| over results, buffers and gradients
  double load_ms = 0, eager_us = 0, call_us = 0;
  double accuracy = 0;  // digits training
  int segments = 0;     // speech segments of the stream
};

/// What a program without LibTorch needs to run an inference: weights, arguments, and eager's results to compare with.
struct Arrays {
  std::filesystem::path weights;               // .safetensors
  std::vector<std::filesystem::path> inputs;   // .npy
  std::vector<std::filesystem::path> results;  // .npy
};
/// Writes FOLDER/weights.safetensors, input0.npy, result0.npy, ...
Arrays write_arrays(const std::string& workload, const std::filesystem::path& folder);

/// How the judging process differs from this one; its folder is /, its environment only what stands here.
struct Elsewhere {
  int threads = 1;
  std::vector<std::string> environment;
};

/// Two calls on equal modules and inputs, one eager, one of the artifact: results, inputs, buffers, gradients.
Judged judge(const std::string& workload, const Captured&, const Elsewhere& = {});
/// Trains the digits network from the artifact with torch::optim::SGD, beside eager for the first 50 steps.
Judged judge_training(const Captured&, const Elsewhere& = {});
/// Streams the recorded voices through the artifact and through eager.
Judged judge_stream(const Captured&, const Elsewhere& = {});

}  // namespace precast::demo
