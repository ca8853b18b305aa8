#!/usr/bin/env bash
# Compares with versions of Megatron-Core itself, from PyPI, on larger random datasets than the shipped golden files. Needs the
# network at the first run (30 MB each), so it runs only where WEFT_PEER_TESTS=1 asks for it; WEFT_PEER_VERSIONS names others.
set -euo pipefail
if [[ "${WEFT_PEER_TESTS:-0}" != 1 ]]; then
  echo "skipped: set WEFT_PEER_TESTS=1 to compare with megatron-core from PyPI"
  exit 77
fi
source_dir=${WEFT_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
test_program=$(dirname "${WEFT_BIN_DIR:?is set by ctest}")/tests/indexed_dataset_test
weft=$WEFT_BIN_DIR/weft-data
venv=${XDG_CACHE_HOME:-$HOME/.cache}/weft/test-venv-megatron
if ! "$venv/bin/python" -c 'import numpy' 2>/dev/null; then
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  if ! "$venv/bin/pip" install -q numpy; then
    echo "skipped: numpy could not be installed from PyPI"
    exit 77
  fi
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
for name in a b; do
  for i in $(seq 300); do echo "{\"text\": \"$name $i: $(seq -s ' ' $((i % 37 + 1)))\"}"; done >$name.jsonl
done
"$weft" train-vocab --input a.jsonl --vocab-size 300 --output gpt2 >/dev/null 2>&1
# The default of --split gives the test 0.1 %, and Megatron-Core looks for a sample in no document without an end.
for i in $(seq 3000); do echo "{\"text\": \"c $i\"}"; done >c.jsonl
for name in a b c; do WEFT_GPT2_DIR=$out/gpt2 "$weft" preprocess --input $name.jsonl --output-prefix $name --append-eod >/dev/null 2>&1; done

show() { "$weft" inspect samples --megatron-args args --sample-order "$1" --sample-range 0 2991 --format jsonl "${@:2}" 2>messages; }

for version in ${WEFT_PEER_VERSIONS:-0.7.0 0.10.0 0.12.0 0.16.1}; do
  package=$(dirname "$venv")/megatron-core-$version
  # Without dependencies: they are PyTorch with CUDA, several GB; megatron_peer.py says why they are not needed.
  if [[ ! -d $package ]]; then
    rm -rf "$package.part"
    if ! "$venv/bin/pip" install -q --no-deps --target "$package.part" "megatron-core==$version"; then
      echo "skipped: megatron-core $version could not be installed from PyPI"
      exit 77
    fi
    mv "$package.part" "$package"
  fi
  peer() { PYTHONPATH=$package "$venv/bin/python" -W ignore "$source_dir/tests/indexed_dataset/$1" "${@:2}"; }
  case $version in
    0.[5-9].* | 0.10.*) order=core-0.10 other=core ;;
    *) order=core other=core-0.10 ;;
  esac

  for seed in 1 2 3; do
    # Earlier versions have neither of the options that this varies.
    if [[ $version != 0.7.* ]]; then
      peer megatron_peer.py "$out/$seed" --documents $((seed * 700)) --cases 25 --seed "$seed"
      echo "$version, seed $seed: $(wc -l <"$out/$seed/samples.txt") indexes by Megatron-Core"
      WEFT_MEGATRON_GOLDEN_DIR=$out/$seed "$test_program" --gtest_filter='MegatronGolden.*' --gtest_brief=1
    fi
    peer megatron_blend_peer.py "$out/blends-$seed" --cases 150 --seed "$seed" --datasets $((seed * 10)) 2>/dev/null
    echo "$version, seed $seed: $(wc -l <"$out/blends-$seed/$order.blends.txt") blends by Megatron-Core"
    # Names of caches are those of 0.9 and later: older descriptions of blends lack a line.
    filter='MegatronBlends.*'
    [[ $version = 0.[78].* ]] && filter='MegatronBlends.Sizes*'
    WEFT_MEGATRON_BLENDS_DIR=$out/blends-$seed "$test_program" --gtest_filter="$filter" --gtest_brief=1
    rm -rf "${out:?}/$seed" "$out/blends-$seed"
  done

  # Without --split the files have the names that follow from the default of Megatron's programs.
  rm -rf cache cache2
  peer megatron_cache_peer.py cache 2991 "969, 30, 1" 16 7 c_text_document >/dev/null
  "$weft" index --data-path c_text_document --data-cache-path cache2 --seq-length 16 --train-samples 2991 --seed 7 --sample-order $order \
    --dataset-description "$(ls cache/*-GPTDataset-train-description.txt)" >/dev/null
  diff <(ls cache | grep train) <(ls cache2 | grep -v weft)
  rm -rf cache cache2

  # weft-data inspect --megatron-args reads the caches that Megatron-Core leaves, and shows the samples that it gives.
  for blend in a_text_document "0.3 a_text_document 0.7 b_text_document"; do
    rm -rf cache
    peer megatron_cache_peer.py cache 2991 90,5,5 16 7 $blend >theirs
    echo "--data-path $blend --data-cache-path cache --seq-length 16 --train-samples 2991 --global-batch-size 4 --eval-iters 0 --split 90,5,5 --seed 7" >args
    show $order --dataset-description "$(ls cache/*-GPTDataset-train-description.txt | head -n 1)" >ours || { cat messages; exit 1; }
    grep -q "the indexes are mapped from caches" messages || { cat messages; exit 1; }
    "$venv/bin/python" -c 'import json
for line in open("ours"): print(*json.loads(line)["ids"])' | cmp - theirs
    echo "$version, caches of $blend: $(wc -l <theirs) samples by Megatron-Core"
    # The same program finds caches of weft-data index that are named by one of its descriptions, and writes none itself: its tokenizer is
    # no vocabulary of two files.
    description=$(ls cache/*-GPTDataset-train-description.txt | head -n 1)
    cp "$description" description.txt
    if [[ $order = core || $blend = a_text_document ]]; then
      rm -rf cache2
      "$weft" index --data-path $blend --data-cache-path cache2 --seq-length 16 --train-samples 2991 --split 90,5,5 --seed 7 --sample-order $order \
        --dataset-description description.txt >/dev/null
      ls cache2 | sort >before
      diff <(ls cache | grep train) <(grep -v weft before)
      touch -d '2020-01-01' cache2/*
      peer megatron_cache_peer.py cache2 2991 90,5,5 16 7 $blend >mapped
      cmp mapped theirs
      find cache2 -name '*train*' -newermt '2020-01-02' | grep . && { echo "error: $version has built what weft-data index had built"; exit 1; }
    fi
    # The other generation asks for other numbers of samples: its caches are not those of this one.
    if [[ $blend = 0.3* ]] && show $other --dataset-description description.txt >wrong && grep -q "mapped from caches" messages; then
      echo "error: --sample-order $other was believed of $version"
      exit 1
    fi
  done
done
