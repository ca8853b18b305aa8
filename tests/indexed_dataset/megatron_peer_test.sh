#!/usr/bin/env bash
# Compares with Megatron-Core itself, from PyPI, on larger random datasets than the shipped golden files. Needs the
# network at the first run (30 MB), so it runs only where WEFT_PEER_TESTS=1 asks for it.
set -euo pipefail
if [[ "${WEFT_PEER_TESTS:-0}" != 1 ]]; then
  echo "skipped: set WEFT_PEER_TESTS=1 to compare with megatron-core from PyPI"
  exit 77
fi
source_dir=${WEFT_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
test_program=$(dirname "${WEFT_BIN_DIR:?is set by ctest}")/tests/indexed_dataset_test
venv=${XDG_CACHE_HOME:-$HOME/.cache}/weft/test-venv-megatron
if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/pip" show -q megatron-core 2>/dev/null; then
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  # Without dependencies: they are PyTorch with CUDA, several GB; megatron_peer.py says why they are not needed.
  if ! "$venv/bin/pip" install -q numpy || ! "$venv/bin/pip" install -q --no-deps megatron-core==0.16.1; then
    echo "skipped: numpy and megatron-core could not be installed from PyPI"
    exit 77
  fi
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for seed in 1 2 3; do
  "$venv/bin/python" "$source_dir/tests/indexed_dataset/megatron_peer.py" "$out/$seed" \
    --documents $((seed * 700)) --cases 25 --seed "$seed"
  echo "seed $seed: $(wc -l <"$out/$seed/samples.txt") indexes by Megatron-Core"
  WEFT_MEGATRON_GOLDEN_DIR=$out/$seed "$test_program" --gtest_filter='MegatronGolden.*' --gtest_brief=1
  "$venv/bin/python" "$source_dir/tests/indexed_dataset/megatron_blend_peer.py" "$out/blends-$seed" --cases 150 --seed "$seed" \
    --datasets $((seed * 10))
  echo "seed $seed: $(wc -l <"$out/blends-$seed/blends.txt") blends by Megatron-Core"
  WEFT_MEGATRON_BLENDS_DIR=$out/blends-$seed "$test_program" --gtest_filter='MegatronBlends.*' --gtest_brief=1
done

# weft-data inspect --megatron-args reads the caches that Megatron-Core leaves, and shows the samples that it gives.
weft=$WEFT_BIN_DIR/weft-data
cd "$out"
for name in a b; do
  for i in $(seq 300); do echo "{\"text\": \"$name $i: $(seq -s ' ' $((i % 37 + 1)))\"}"; done >$name.jsonl
done
"$weft" train-vocab --input a.jsonl --vocab-size 300 --output gpt2 >/dev/null 2>&1
for name in a b; do WEFT_GPT2_DIR=$out/gpt2 "$weft" preprocess --input $name.jsonl --output-prefix $name --append-eod >/dev/null 2>&1; done
for blend in a_text_document "0.3 a_text_document 0.7 b_text_document"; do
  rm -rf cache
  "$venv/bin/python" -W ignore "$source_dir/tests/indexed_dataset/megatron_cache_peer.py" cache 3000 90,5,5 16 7 $blend >theirs
  echo "--data-path $blend --data-cache-path cache --seq-length 16 --train-samples 3000 --global-batch-size 4 --eval-iters 0 --split 90,5,5 --seed 7" >args
  "$weft" inspect samples --megatron-args args --sample-order core --sample-range 0 3000 --format jsonl >ours 2>messages
  grep -q "the indexes are mapped from caches" messages || { cat messages; exit 1; }
  "$venv/bin/python" -c 'import json
for line in open("ours"): print(*json.loads(line)["ids"])' | cmp - theirs
  echo "caches of $blend: $(wc -l <theirs) samples by Megatron-Core"
done
