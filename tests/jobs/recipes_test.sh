#!/usr/bin/env bash
# Every recipe plans for its number of GPUs, fits into them, and has the size that its name says.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
plan() { env WEFT_BIN="${WEFT_BIN_DIR:?}" DATA_PATH="$work" PLAN="$1" EXTRA_ARGS=--verbose "${@:2}" bash jobs/2.distributed-training.sbatch >"$work/out" 2>&1; }
num=0
for recipe in jobs/recipes/*.env; do
  name=$(basename "$recipe" .env)
  gpus=$(sed -n 's/^: "${GPUS:=\([0-9]*\)}"$/\1/p' "$recipe")
  grep -q "| \`$name\` | $gpus |" jobs/README.md || fail "jobs/README.md does not list $name with $gpus GPUs"
  for device in a100-80gb h100; do
    plan "$device" RECIPE="$recipe" || { cat "$work/out" >&2; fail "$name does not fit into $device"; }
  done
  head -n 1 "$work/out" | grep -qE "^fits: [0-9.]+ [MBT] parameters on $gpus x NVIDIA H100 \(.*\): needs .* days at " || fail "the plan of $name begins without a verdict"
  grep -q "^using world size: $gpus," "$work/out" || fail "$name is not planned for $gpus GPUs"
  for pattern in 'device total' 'global batch size  learning rate' 'model FLOPs: ' "$gpus devices of 100 TFLOP"; do
    grep -q -- "$pattern" "$work/out" || fail "the plan of $name does not say: $pattern"
  done
  if grep -q 'PIPELINE_PARALLEL:=1}' "$recipe"; then
    ! grep -q 'pipeline bubble' "$work/out" || fail "$name has one stage and a bubble"
  else
    grep -q 'pipeline bubble: [0-9.]* % of a step' "$work/out" || fail "the plan of $name says no bubble"
  fi
  # Ranks of a tensor-parallel group repeat LayerNorms, and both ends of a pipeline the embedding: up to 4 % more.
  awk -v name="$name" '
    / > number of parameters on / { sum += $NF }
    END {
      size = name; sub(/.*-/, "", size); unit = size ~ /m$/ ? 1e6 : 1e9; sub(/[mb]$/, "", size)
      ratio = sum / (size * unit)
      if (ratio < 0.95 || ratio > 1.09) { printf "%s has %.4g parameters\n", name, sum; exit 1 }
    }' "$work/out" || fail "$name has another size"
  num=$((num + 1))
done
[ "$num" -ge 35 ] || fail "only $num recipes"

# Models of V100s fit into 32 GB. Heads that have no flash attention are told, and their scores are in the plan.
for size in 7.5b 30b:224 76b:320 104b:145 104b:512; do
  name=bigscience-${size%:*} head=${size#*:} shape=()
  if [ "$head" = 512 ]; then shape=(NUM_LAYERS=32 HIDDEN_SIZE=16384 NUM_ATTENTION_HEADS=32); fi
  plan v100-32gb RECIPE="jobs/recipes/$name.env" "${shape[@]}" || { cat "$work/out" >&2; fail "$name does not fit into 32 GB"; }
  if [ "$head" = "$size" ]; then
    ! grep -q 'no flash kernels' "$work/out" || fail "$name has flash attention"
  else
    grep -q "^> attention: there are no flash kernels for heads of $head, .* in [1-9][0-9.]* MiB of workspace" "$work/out" || fail "$name does not tell its attention"
  fi
done

# The environment is stronger than the recipe, and what does not fit says so.
plan h100 RECIPE=jobs/recipes/megatron-7.5b.env GPUS=16 EXTRA_ARGS="--verbose --log-interval 7" || { cat "$work/out" >&2; fail "16 GPUs"; }
grep -q '^using world size: 16, data-parallel-size: 4, tensor-model-parallel size: 4' "$work/out" || fail "GPUS=16 was not heard"
status=0; plan h100 RECIPE=jobs/recipes/megatron-18.4b.env TENSOR_PARALLEL=1 GPUS=8 || status=$?
[ "$status" = 9 ] && grep -q 'GiB on NVIDIA H100, which has' "$work/out" || { cat "$work/out" >&2; fail "18.4 B on single GPUs: $status"; }
status=0; plan h100 RECIPE=jobs/recipes/none.env || status=$?
[ "$status" = 2 ] && grep -q 'no recipe jobs/recipes/none.env; give the path of one of: .*megatron-7.5b.env' "$work/out" || fail "a recipe that is not there: $status"
status=0; plan h300 RECIPE=jobs/recipes/gpt3-126m.env || status=$?
[ "$status" = 2 ] && grep -q 'device-profile h300 is neither a file nor one of' "$work/out" || fail "a device that is not known: $status"
echo passed
