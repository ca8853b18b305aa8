#!/usr/bin/env bash
# Prints the path of a Python that has the tokenizers' peers; makes it on first use in ~/.cache/weft/test-venv.
# Versions are pinned: a new release must not change the result of a test.
#
# usage: test_venv.sh [NAME 'import MODULE' PACKAGE==VERSION...]     for other packages, in ~/.cache/weft/NAME
set -euo pipefail
[ $# -gt 0 ] || set -- test-venv 'import tiktoken, tokenizers, zstandard' tiktoken==0.14.0 tokenizers==0.23.3 zstandard
modules=$2
venv=${XDG_CACHE_HOME:-$HOME/.cache}/weft/$1
packages=("${@:3}")

for python in "$venv/bin/python" python3; do
  if "$python" -c "$modules" 2>/dev/null; then
    command -v "$python"
    exit
  fi
done
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"  # two tests may want it at once
flock 9
if ! "$venv/bin/python" -c "$modules" 2>/dev/null; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${packages[@]}" >&2
fi
echo "$venv/bin/python"
