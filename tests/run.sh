#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test this machine can run. Ends with ctest's summary.
#
# usage: tests/run.sh [--no-install] [ctest options...]      e.g. tests/run.sh -L fast, tests/run.sh -R Tokenizer
# Without options of ctest's, all but those that take minutes (label long: tests/run.sh -L long).
#
# Uses, when set: WEFT_GPT2_DIR (vocab.json, merges.txt), WEFT_CORPUS_DIR (*.jsonl.zst), WEFT_REQUIRE_GPU=1 (a missing GPU fails).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --no-install ]; then shift; else jobs/install-deps.sh --tests; fi

jobs=$(nproc)
cmake --preset release -DWEFT_TESTS=ON
cmake --build --preset release -j "$jobs"
[ $# -gt 0 ] || set -- -LE long
# A test that fails is run once more by itself, so that the log tells a broken test from one that a busy machine disturbed; it
# has failed all the same if it fails again.
ctest --preset release -j "$jobs" --repeat until-pass:2 "$@"
