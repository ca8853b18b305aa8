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
