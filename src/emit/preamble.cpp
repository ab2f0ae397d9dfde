#include "emit/preamble.h"

#include <algorithm>
#include <string>

namespace precast::emit {
namespace {

constexpr std::string_view kPieces[] = {
#include "emit/preamble/types.inc"
    ,
#include "emit/preamble/memory.inc"
    ,
#include "emit/preamble/arithmetic.inc"
    ,
#include "emit/preamble/maths.inc"
    ,
#include "emit/preamble/special.inc"
    ,
#include "emit/preamble/tiles.inc"
    ,
#include "emit/preamble/gemm.inc"
};

/// Stands in an artifact when one of the functions is called.
struct RoutinePiece {
  std::set<std::string_view> functions;
  std::string_view text;
};
const RoutinePiece kRoutinePieces[] = {
    {
        {"sizes"},
#include "emit/preamble/sizes.inc"
    },
    {
        {"multiply_sized"},
#include "emit/preamble/gemm_sized.inc"
    },
    {
        {"attention", "attention_backward"},
#include "emit/preamble/attention.inc"
    },
    {
        {"attention_backward"},
#include "emit/preamble/attention_backward.inc"
    },
    {
        {"ctc", "ctc_backward"},
#include "emit/preamble/ctc.inc"
    },
    {
        {"lstm", "lstm_backward"},
#include "emit/preamble/rnn.inc"
    },
    {
        {"sort_rows", "top_rows", "kth_rows", "median_rows", "mode_rows", "cumulative_rows"},
#include "emit/preamble/order.inc"
    },
    {
        {"search_rows", "logcumsumexp_rows"},
#include "emit/preamble/search.inc"
    },
};

}  // namespace

std::string routine_preamble(const std::set<std::string>& functions) {
  std::string all;
  for (const RoutinePiece& piece : kRoutinePieces)
    if (std::ranges::any_of(functions, [&](const std::string& f) { return piece.functions.contains(f); }))
      all += piece.text;
  return all;
}

std::string_view preamble() {
  static const auto& text = *new std::string([] {
    std::string all;
    for (std::string_view piece : kPieces) all += piece;
    return all;
  }());
  return text;
}

}  // namespace precast::emit
