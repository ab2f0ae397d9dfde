#include "emit/preamble.h"

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

}  // namespace

std::string_view preamble() {
  static const std::string text = [] {
    std::string all;
    for (std::string_view piece : kPieces) all += piece;
    return all;
  }();
  return text;
}

}  // namespace precast::emit
