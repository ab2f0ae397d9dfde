#!/usr/bin/env bash
# Formats every C++ file that git knows, with the clang-format of .clang-format's style, pinned so that all agree.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/format-venv
[ -x $venv/bin/clang-format ] || { python3 -m venv $venv && $venv/bin/pip install -q clang-format==23.1.3; }
git ls-files '*.cpp' '*.h' | xargs $venv/bin/clang-format -i
git diff --stat
