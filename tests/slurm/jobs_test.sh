#!/usr/bin/env bash
# Submits the two sbatch scripts as a user does, on a real local Slurm: corpus -> dataset -> trained model, the same folder
# variable for both; a job that is stopped before its time limit goes on by itself; wrong input ends with its message.
. "$(dirname "$0")/test-lib.sh" || exit
start_slurm 1

# The corpus: this repository's own text, and a vocabulary learned from it, where the jobs look for them.
export DATA_PATH=$work/data WEFT_HOME=$source_dir WEFT_BIN=$bin
mkdir -p "$DATA_PATH"
find "$source_dir/jobs" "$source_dir/tokenizer" "$source_dir/kernels" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.md' -o -name '*.sh' \) -print0 |
  sort -z | xargs -0 -I{} jq -Rsc '{text: .}' {} >"$DATA_PATH/oscar-1GB.jsonl"
"$bin/weft-data" train-vocab --input "$DATA_PATH/oscar-1GB.jsonl" --vocab-size 600 --output "$DATA_PATH" >/dev/null

echo "1. preprocessing"
LOG_INTERVAL=50 sbatch --wait --output="$work/pre.out" "$source_dir/jobs/1.data-preprocessing.sbatch" || fail "job 1 failed"
[ -f "$DATA_PATH/my-gpt2_text_document.idx" ] || fail "job 1 wrote no dataset"
grep -qE "^0: Processed [0-9]*[05]0 documents \([0-9.]+ docs/s, [0-9.]+ MB/s\)\.$" "$work/pre.out" || fail "no progress in job 1's log"
"$bin/weft-data" verify "$DATA_PATH/my-gpt2_text_document" >/dev/null || fail "the dataset is not sound"

echo "2. training by a recipe; by the environment, stopped by hand in the middle, submitted again"
export EVAL_INTERVAL=20 EVAL_ITERS=1 SPLIT=90,10,0 DEVICE=cpu \
  VOCAB_FILE=$DATA_PATH/vocab.json MERGE_FILE=$DATA_PATH/merges.txt TRAIN_ITERS=40 SAVE_INTERVAL=10
shape=(NUM_LAYERS=2 HIDDEN_SIZE=64 NUM_ATTENTION_HEADS=2 SEQ_LENGTH=64 MICRO_BATCH_SIZE=2 GLOBAL_BATCH_SIZE=4 LR=1e-3 MIN_LR=1e-4)
for setting in "${shape[@]}" RECIPE_ARGS=--use-distributed-optimizer; do
  echo ": \"\${${setting%%=*}:=${setting#*=}}\""
done >"$work/tiny.env"
(cd "$work" && RECIPE=tiny.env SAVE_DIR=$work/straight sbatch --wait --output="$work/straight.out" \
  "$source_dir/jobs/2.distributed-training.sbatch") || fail "job 2 failed"
jq -e '.arguments.use_distributed_optimizer' "$work/straight/run_manifest.json" >/dev/null || fail "the recipe's RECIPE_ARGS were not heard"
export "${shape[@]}"
[ "$(cat "$work/straight/latest_checkpointed_iteration.txt")" = 40 ] || fail "job 2 did not save iteration 40"
grep -qE '^0: +iteration +40/ +40 \|' "$work/straight.out" || fail "no iteration line in job 2's log"

export SAVE_DIR=$work/chained
EXTRA_ARGS="--exit-interval 20" sbatch --wait --output="$work/first.out" "$source_dir/jobs/2.distributed-training.sbatch" || fail "first link failed"
[ "$(cat "$SAVE_DIR/latest_checkpointed_iteration.txt")" = 20 ] || fail "the first link did not save iteration 20"
# It keeps the global batch of 4 samples; MICRO_BATCH_SIZE alone would make it 2.
env -u GLOBAL_BATCH_SIZE sbatch --wait --output="$work/second.out" "$source_dir/jobs/2.distributed-training.sbatch" || fail "second link failed"
numbers() { jq -r 'select(.lm_loss != null) | "\(.iteration) \(.lm_loss) \(.grad_norm)"' "$1/metrics.jsonl"; }
diff <(numbers "$work/straight") <(numbers "$work/chained") || fail "the chained run differs from the straight one"

echo "3. a signal before the time limit saves and requeues"
export SAVE_DIR=$work/signalled TRAIN_ITERS=100000 SAVE_INTERVAL=100000 EVAL_ITERS=0
job=$(sbatch --parsable --output="$work/signalled.out" "$source_dir/jobs/2.distributed-training.sbatch")
for _ in $(seq 300); do grep -qE 'iteration +5/' "$work/signalled.out" 2>/dev/null && break; sleep 0.2; done
scancel --signal=USR1 "$job"
for _ in $(seq 300); do [ -f "$SAVE_DIR/latest_checkpointed_iteration.txt" ] && break; sleep 0.2; done
[ -f "$SAVE_DIR/latest_checkpointed_iteration.txt" ] || fail "the signalled job did not save"
for _ in $(seq 300); do grep -q 'restart 1' "$work/signalled.out" && break; sleep 0.2; done
grep -q 'restart 1' "$work/signalled.out" || fail "the job was not requeued"
scancel "$job"

echo "4. wrong input"
status=0
DATA_PATH=$work/nowhere SAVE_DIR=$work/x sbatch --wait --output="$work/missing.out" "$source_dir/jobs/2.distributed-training.sbatch" || status=$?
[ "$status" = 3 ] || fail "a missing dataset must end with exit code 3, not $status"
grep -q 'run jobs/1.data-preprocessing.sbatch' "$work/missing.out" || fail "no hint for a missing dataset"
echo "passed"
