#!/usr/bin/env bash
# Installs the Debian packages of tools/packages.txt that are missing, and says where LibTorch is: the last line on
# stdout. Asks nothing; does nothing where everything is there.
#   tools/setup.sh                  TORCH_DIR, else the torch of python3, else .venv (made on demand)
#   tools/setup.sh TORCH_VERSION    that release, in .venv-TORCH_VERSION
set -euo pipefail
cd "$(dirname "$0")/.."
default_torch=2.13.0
say() { echo "setup: $*" >&2; }

install_packages() {
  local wanted missing
  wanted=$(sed 's/#.*//' tools/packages.txt | xargs -n1)
  if ! command -v dpkg-query >/dev/null; then
    say "this is no Debian: please see to these packages yourself: $(echo $wanted)"
    return
  fi
  missing=$(comm -23 <(sort <<<"$wanted") <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort -u))
  [ -n "$missing" ] || return 0
  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    if ! sudo=$(command -v sudo); then
      say "these Debian packages are missing, and there is neither root nor sudo to install them:" $missing
      exit 1
    fi
  fi
  say "installing" $missing
  $sudo apt-get update -qq >&2
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >&2
}

# Prints the torch folder of a python, or nothing. Does not import torch: that takes seconds.
torch_of() {
  "$1" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true
}

torch_in_venv() {  # venv folder, version
  if [ -z "$(torch_of "$1/bin/python3")" ]; then
    say "installing LibTorch $2 into $1 (from PyPI's torch; some minutes and GB)"
    python3 -m venv "$1" >&2 && "$1/bin/python3" -m pip install --progress-bar off "torch==$2" numpy >&2 ||
      { say "that failed; remove $1 and try again, or set TORCH_DIR"; return 1; }
  fi
  torch_of "$1/bin/python3"
}

install_packages
if [ $# -gt 0 ]; then
  torch=$(torch_in_venv "$PWD/.venv-$1" "$1")
elif [ -n "${TORCH_DIR:-}" ]; then
  torch=$TORCH_DIR
else
  torch=$(torch_of python3)
  if [ -z "$torch" ]; then torch=$(torch_in_venv "$PWD/.venv" "$default_torch"); fi
fi
echo "$torch"
