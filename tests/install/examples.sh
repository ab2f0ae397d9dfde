#!/usr/bin/env bash
# The examples without LibTorch, made as their READMEs say by plain g++: without LibTorch, small, quick to start, right.
#   examples.sh SOURCE BUILD DATA
set -euo pipefail
source=$1 build=$2 data=$3
folder=$build/examples
rm -rf "$folder" && mkdir -p "$folder" && cd "$folder"
fail() { echo "examples: $*" >&2; exit 1; }

make_program() {  # name, sources...
  local name=$1; shift
  g++ -O3 -Wall -Wextra -Werror -I "$source/include" "$@" "$build/libprecast_runtime.a" \
    -lcrypto -ldl -lpthread -o "$name"
  strip "$name"
  if ldd "$name" | grep -E "lib(torch|c10)"; then fail "$name links LibTorch"; fi  # names: an address may have c10 in it
  local size; size=$(stat -c %s "$name")
  echo "$name: $size bytes"
  [ "$size" -lt 1500000 ] || fail "$name has $size bytes"
}

# Speech: one file of a voice, one of silence.
"$build/bin/precast" capture "$data/silero_vad.jit" --submodule _model --input 'f32[1,576]' --input 'f32[2,1,128]' -o silero
"$build/bin/precast" weights "$data/silero_vad.jit" --submodule _model -o silero.safetensors
make_program vad "$source/examples/vad/main.cpp" silero.cpp
env -i ./vad silero.safetensors /usr/share/sounds/alsa/Front_Center.wav | tee voice
[ "$(grep -c . voice)" -ge 1 ] || fail "no speech where somebody speaks"
env -i ./vad silero.safetensors /usr/share/sounds/alsa/Noise.wav | tee noise
[ "$(grep -c . noise)" -eq 0 ] || fail "speech where nobody speaks"
if env -i ./vad silero.safetensors missing.wav 2>error; then fail "a missing file is no error"; fi
grep -q missing.wav error || fail "the error does not name the missing file"

# Training: the optimizer is part of the artifact.
"$build/bin/example_train_capture" .
make_program train "$source/examples/train_without_torch/main.cpp" digits_train.cpp digits_eval.cpp
env -i ./train "$data/digits.csv" digits.safetensors | tee training
right=$(grep -oE '[0-9]+\.[0-9]+ %' training | tail -1 | cut -d. -f1)
[ "${right:-0}" -ge 97 ] || fail "only $right % of the unseen digits are right"
[ -s digits.safetensors ] || fail "no weights were saved"
