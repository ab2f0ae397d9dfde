// What a compiled variant takes for granted of a call. Checked at each call, in a few hundred nanoseconds; explained in
// words only when a variant is to be made anew.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "precast/detail/core.h"

namespace precast::jit {

/// Modes of the thread that decide what eager would do.
struct Ambient {
  bool grad = false, inference = false, autocast = false, deterministic = false, deterministic_warn_only = false;
  c10::ScalarType autocast_dtype = c10::ScalarType::Undefined, default_dtype = c10::ScalarType::Float;
  bool operator==(const Ambient&) const = default;
  static Ambient now();
};

/// Autocast as it was, for a while.
class AutocastMode {
 public:
  explicit AutocastMode(const Ambient&);
  ~AutocastMode();
  AutocastMode(const AutocastMode&) = delete;
  AutocastMode& operator=(const AutocastMode&) = delete;

 private:
  bool enabled_;
  c10::ScalarType dtype_;
};

/// Dims whose size a variant leaves open, by leaf.
using OpenDims = std::map<size_t, std::set<int64_t>>;

/// Contiguous, and with the strides of its sizes where these are 1, too: by them eager picks the layout of results.
bool is_canonical(const at::Tensor&);

class Guards {
 public:
  /// `closure`: the bytes of the callable, where it has any that can be looked at.
  Guards(const detail::Arguments&, std::span<const std::byte> closure, const Ambient&, OpenDims open = {});

  /// The dims that must be open for a variant that serves this call, and calls like those of these guards. Nothing
  /// where something else than sizes differs; sizes of 0 and 1, and of tensors that are not contiguous, stay as they
  /// are.
  std::optional<OpenDims> to_open(const detail::Arguments&, std::span<const std::byte> closure, const Ambient&) const;

  bool hold(const detail::Arguments&, std::span<const std::byte> closure, const Ambient&) const;
  /// "argument 0: expected f32[2,3], found f32[2,4]"; empty where they hold. `held`: how many came before it.
  std::string first_failure(const detail::Arguments&, std::span<const std::byte> closure, const Ambient&,
                            size_t* held = nullptr) const;
  /// One line a guard.
  std::vector<std::string> in_words() const;

 private:
  struct Tensor {
    c10::ScalarType dtype;
    c10::Device device;
    bool plain, requires_grad, conj, neg, inference;
    std::vector<int64_t> sizes, strides;
    int same_as;             // an earlier leaf that is this very tensor, or -1
    std::set<int64_t> open;  // then it is contiguous, and these sizes are 2 or more
  };
  struct Leaf {
    detail::Kind kind;
    int64_t integer = 0;
    double real = 0;
    std::string text;
    std::optional<Tensor> tensor;
  };
  static Tensor tensor_of(const detail::Arguments&, size_t leaf);
  static bool holds(const Leaf&, const detail::Arguments&, size_t leaf, bool sizes = true);
  bool hold_outside(const detail::Arguments&, std::span<const std::byte> closure, const Ambient&) const;
  static std::string in_words(const Leaf&);

  int positional_ = 0;
  std::vector<int> module_positions_;
  std::string spec_;
  std::vector<Leaf> leaves_;
  std::vector<std::byte> closure_;
  Ambient ambient_;
};

}  // namespace precast::jit
