#!/usr/bin/env bash
# The code for GPUs before Hopper compiles, too: tests/run.sh compiles it for the GPUs of its machine, or for Hopper.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-ampere.XXXXXX"); trap 'rm -rf "$work"' EXIT
cmake --preset release -B "$work" -DWEFT_DATA=OFF -DWEFT_CUDA=ON -DWEFT_CUDA_ARCHITECTURES=80 >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
grep -q 'CUDA backend: *ON' "$work/configure.log" || { echo "skipped: no CUDA toolkit"; exit 77; }
cmake --build "$work" -j "$(nproc)" --target weft-train
