#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each from its corpus:  tests/parsers/libfuzzer/run.sh [SECONDS, of each]
# A finding is printed, kept in build/libfuzzer/findings, and is a failure. What is new to the corpus stays in build/.
set -euo pipefail
cd "$(dirname "$0")/../../.."
seconds=${1:-20}
targets="graph_text metadata envelope safetensors npy"
tools/build.sh libfuzzer $(printf 'fuzz_%s ' $targets)
findings=build/libfuzzer/findings
mkdir -p "$findings"
one() {
  local target=$1 grown=build/libfuzzer/corpus/$1
  mkdir -p "$grown"
  build/libfuzzer/bin/fuzz_$target "$grown" "tests/parsers/libfuzzer/corpus/$target" -max_total_time="$seconds" \
    -timeout=10 -rss_limit_mb=2000 -max_len=8192 -print_final_stats=1 -artifact_prefix="$findings/$target-" \
    >"build/libfuzzer/$target.log" 2>&1 || { echo "$target: a finding"; tail -n 40 "build/libfuzzer/$target.log"; return 1; }
  echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/libfuzzer/$target.log") inputs, no finding"
}
export -f one
export seconds findings
printf '%s\n' $targets | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'one {}'
