#!/usr/bin/env bash
# What <precast/precast.h> adds to a file that includes <torch/torch.h>: seconds, the better of two runs each.
#   bench/include_cost.sh TORCH_FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
torch=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
best() {  # text
  echo "$1" >"$scratch/a.cpp"
  for _ in 1 2; do
    local start=$EPOCHREALTIME
    g++ -std=c++20 -O2 -c -Iinclude -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" \
      "$scratch/a.cpp" -o "$scratch/a.o"
    awk "BEGIN { print $EPOCHREALTIME - $start }"
  done | sort -g | head -1
}
alone=$(best '#include <torch/torch.h>')
both=$(best $'#include <torch/torch.h>\n#include <precast/precast.h>')
awk "BEGIN { printf \"compiling <torch/torch.h>: %.1f s; with <precast/precast.h>: %.1f s, %.1f s more\n\", $alone, $both, $both - $alone }"
