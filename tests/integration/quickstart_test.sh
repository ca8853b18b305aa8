#!/usr/bin/env bash
# README command 1 with the programs that are built already: a falling loss, a bit-exact resume, a sample's text; with the
# repository's own text and a learned vocabulary, and with a compressed corpus where one is given.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-quickstart.XXXXXX"); trap 'rm -rf "$work"' EXIT
# What it builds depends on the machine's GPUs; this cmake only tells how it was called.
mkdir "$work/tools"
printf '#!/bin/sh\necho "cmake called with: $*" >&2\nexit 1\n' >"$work/tools/cmake"
configured() { # OUTPUT_OF_NVIDIA_SMI TEXT...
  printf '#!/bin/sh\n[ -n "%s" ] || exit 9\nprintf "%s"\n' "$1" "$1" >"$work/tools/nvidia-smi"
  chmod +x "$work"/tools/*
  env -u WEFT_BIN_DIR PATH="$work/tools:$PATH" WEFT_NO_INSTALL=1 WEFT_QUICKSTART_DIR="$work/build" jobs/quickstart.sh >"$work/build.log" 2>&1 &&
    { echo "FAILED: it went on without a build" >&2; exit 1; }
  for text in "${@:2}"; do
    grep -qF -- "$text" "$work/build.log" || { cat "$work/build.log" >&2; echo "FAILED: no '$text' with a GPU of '$1'" >&2; exit 1; }
  done
}
configured '' 'cmake called with: --preset release -DWEFT_CUDA=OFF' 'no GPU found' 'cmake --preset release -DWEFT_UNITY=ON && cmake --build --preset release'
configured '9.0\n9.0\n' 'cmake called with: --preset release -DWEFT_CUDA=ON -DWEFT_CUDA_ARCHITECTURES=90a'
configured '8.6\n8.0\n' '-DWEFT_CUDA_ARCHITECTURES=80;86'

export WEFT_BIN_DIR=${WEFT_BIN_DIR:?}
check() { # LOG
  for line in 'equal to the last bit' '^loss +[0-9.]+ -> [0-9.]+ in' 'the text of a sample' 'HF model'; do
    grep -qE "$line" "$1" || { cat "$1" >&2; echo "FAILED: no line like: $line" >&2; exit 1; }
  done
}
# No GPT-2 vocabulary and no network: one is learned.
env -u WEFT_GPT2_DIR HOME="$work/home" https_proxy=http://127.0.0.1:9 WEFT_QUICKSTART_DIR="$work/own" jobs/quickstart.sh \
  >"$work/own.log" 2>&1 || { cat "$work/own.log" >&2; exit 1; }
grep -q 'learning a small one from the corpus' "$work/own.log" || { cat "$work/own.log" >&2; exit 1; }
check "$work/own.log"

if [ -n "${WEFT_CORPUS_DIR:-}" ] && [ -n "${WEFT_GPT2_DIR:-}" ]; then
  # The second time in the same folder, with another corpus and vocabulary.
  WEFT_QUICKSTART_DIR="$work/own" jobs/quickstart.sh "$WEFT_CORPUS_DIR/code.jsonl.zst" >"$work/code.log" 2>&1 ||
    { cat "$work/code.log" >&2; exit 1; }
  check "$work/code.log"
fi
echo passed
