#!/usr/bin/env bash
# Configures (only when something changed) and builds one CMake preset:  tools/build.sh PRESET [ninja target...]
# TORCH=2.14.1 builds against that LibTorch, in build/PRESET-torch-2.14.1. Prints nothing of its own when all is done.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1; shift
torch=$(tools/setup.sh ${TORCH:-} | tail -n 1)
folder=build/$preset${TORCH:+-torch-$TORCH}
stamp=$folder/configured_for
wanted="$torch $(cksum <CMakePresets.json)"
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  rm -f "$stamp" "$folder/CMakeCache.txt"
  cmake --preset "$preset" -B "$folder" -DTORCH_DIR="$torch" ${CMAKE_ARGS:-}
  echo "$wanted" >"$stamp"
fi
# Precompiled headers, and results shared between clones in other folders.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
export NINJA_STATUS="[%f/%t, %es] "
cmake --build "$folder" --parallel "${JOBS:-$(nproc)}" --target "${@:-all}"
