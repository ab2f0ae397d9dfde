#!/usr/bin/env bash
# torch.compile on the same networks (peers.py), where the LibTorch given is part of a Python installation.
set -euo pipefail
torch=$1
python=$(cd "$torch/../../../.." && pwd)/bin/python3
if [ -x "$python" ] && "$python" -c 'import torch' 2>/dev/null; then
  "$python" "$(dirname "$0")/peers.py"
else
  echo "torch.compile: this LibTorch comes without Python, so there is nothing to compare with"
fi
