#!/usr/bin/env bash
# Fetches the real inputs of the demo and the tests into build/data: the handwritten digits inside scikit-learn's wheel
# and the voice-activity detector inside silero-vad's, both from PyPI. Checked by SHA-256; does nothing when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
data=build/data
sums="6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8  digits.csv
e1122837f4154c511485fe0b9c64455f7b929c96fbb8d79fbdb336383ebd3720  silero_vad.jit"
mkdir -p "$data"
complete() { (cd "$data" && sha256sum --check --status <<<"$sums" 2>/dev/null); }
complete && exit 0

# Any pip will do; Debian's python3 has none of its own, so make one.
pip=("$data/venv/bin/pip")
if python3 -m pip --version >/dev/null 2>&1; then
  pip=(python3 -m pip)
elif [ ! -x "${pip[0]}" ]; then
  python3 -m venv "$data/venv"
fi

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
echo "fetch: digits (scikit-learn) and silero_vad.jit (silero-vad) from PyPI, 21 MB" >&2
for package in scikit-learn==1.9.1 silero-vad==6.2.3; do
  if ! "${pip[@]}" download -q --no-deps --only-binary :all: --python-version 3.11 -d "$wheels" "$package"; then
    echo "fetch: $package cannot be downloaded. The demo and the model tests need it: go online once, or put" \
      "digits.csv and silero_vad.jit into $data by hand." >&2
    exit 1
  fi
done
python3 - "$wheels" "$data" <<'PY'
import glob, gzip, sys, zipfile
wheels, data = sys.argv[1:]
def read(wheel, name):
    return zipfile.ZipFile(glob.glob(f"{wheels}/{wheel}-*.whl")[0]).read(name)
open(f"{data}/digits.csv", "wb").write(gzip.decompress(read("scikit_learn", "sklearn/datasets/data/digits.csv.gz")))
open(f"{data}/silero_vad.jit", "wb").write(read("silero_vad", "silero_vad/data/silero_vad.jit"))
PY
complete || { echo "fetch: the files in $data are not the expected ones (SHA-256 differs)" >&2; exit 1; }
