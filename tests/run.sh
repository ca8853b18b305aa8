#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test this machine can run. Ends with ctest's summary.
#
# usage: tests/run.sh [--no-install] [ctest options...]      e.g. tests/run.sh -L fast, tests/run.sh -R Tokenizer
# Without options of ctest's, all but those that take minutes (label long: tests/run.sh -L long).
#
# Uses, when set: WEFT_GPT2_DIR (vocab.json, merges.txt), WEFT_CORPUS_DIR (*.jsonl.zst), WEFT_REQUIRE_GPU=N (fewer GPUs than N fail),
# WEFT_SANITIZE=1 (tests that attack weft-data's parts, and ranks of the trainer, run under sanitizers: two more builds, minutes more),
# WEFT_TOKENIZERS_DIR (a folder for each of other tokenizers).
# Code for GPUs is compiled for those of this machine, or for Hopper where there is none: two architectures take twice as long, and
# tests/run.sh -R kernels_compile_for_ampere compiles it for the other one.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --no-install ]; then
  shift
else
  jobs/install-deps.sh --tests
  jobs/install-deps.sh --parquet || echo "tests/run.sh: Parquet's libraries could not be fetched, so that their test is skipped"
fi

jobs=$(nproc)
sanitized=OFF
if [ "${WEFT_SANITIZE:-0}" = 1 ]; then
  sanitized=ON
  cmake --preset asan -DWEFT_TRAIN=ON -DWEFT_TESTS=ON -DWEFT_UNITY=ON
  cmake --build --preset asan -j "$jobs" --target attacks memory
  cmake --preset tsan -DWEFT_TESTS=ON -DWEFT_UNITY=ON
  cmake --build --preset tsan -j "$jobs" --target races
fi
architectures=$(jobs/gpu-architectures.sh)
cmake --preset release -DWEFT_TESTS=ON -DWEFT_TEST_HOOKS=ON -DWEFT_SANITIZED_TESTS=$sanitized -DWEFT_QUICK_TESTS=ON -DWEFT_UNITY=ON \
  "-DWEFT_CUDA_ARCHITECTURES=${architectures:-90a}"
cmake --build --preset release -j "$jobs"
[ $# -gt 0 ] || set -- -LE long
ctest --preset release -j "$jobs" "$@"
