#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test this machine can run. Ends with ctest's summary.
#
# usage: tests/run.sh [--no-install] [ctest options...]      e.g. tests/run.sh -L fast, tests/run.sh -R Tokenizer
#
# Uses, when set: WEFT_GPT2_DIR (vocab.json, merges.txt), WEFT_CORPUS_DIR (*.jsonl.zst), WEFT_REQUIRE_GPU=1 (a missing GPU fails).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --no-install ]; then shift; else jobs/install-deps.sh --tests; fi

jobs=$(nproc)
cmake --preset release -DWEFT_TESTS=ON
cmake --build --preset release -j "$jobs"
ctest --preset release -j "$jobs" "$@"
