#!/usr/bin/env bash
# Compares the curriculum of sequence lengths with DeepSpeed's own scheduler, from its source distribution on PyPI. Needs the network at the
# first run (1.4 MB), so it runs only where WEFT_PEER_TESTS=1 asks for it; WEFT_PEER_VERSIONS names other versions.
set -euo pipefail
if [[ "${WEFT_PEER_TESTS:-0}" != 1 ]]; then
  echo "skipped: set WEFT_PEER_TESTS=1 to compare with DeepSpeed from PyPI"
  exit 77
fi
source_dir=${WEFT_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
bin=${WEFT_BIN_DIR:?is set by ctest}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weft
mkdir -p "$cache"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
for i in $(seq 300); do echo "{\"text\": \"$i: $(seq -s ' ' $((i % 37 + 1)))\"}"; done >a.jsonl
"$bin/weft-data" train-vocab --input a.jsonl --vocab-size 300 --output gpt2 >/dev/null 2>&1
export WEFT_GPT2_DIR=$out/gpt2 OMP_NUM_THREADS=2
"$bin/weft-data" preprocess --input a.jsonl --output-prefix a --append-eod >/dev/null 2>&1
for version in ${WEFT_PEER_VERSIONS:-0.15.4}; do
  package=$cache/deepspeed-$version
  if [[ ! -d $package ]]; then
    rm -rf "$package.part" && mkdir "$package.part"
    # Its sources, and nothing that they depend on: the scheduler is one file of Python.
    if ! python3 -m pip download -q --no-deps --no-binary deepspeed --dest "$package.part" "deepspeed==$version"; then
      echo "skipped: the sources of DeepSpeed $version could not be had from PyPI"
      exit 77
    fi
    tar -xzf "$package.part/deepspeed-$version.tar.gz" -C "$package.part" --strip-components 1
    mv "$package.part" "$package"
  fi
  for seed in 1 2; do
    echo "DeepSpeed $version"
    python3 "$source_dir/tests/trainer/deepspeed_curriculum_peer.py" "$bin/weft-train" "$package" --cases 30 --seed $seed
  done
done
