#!/usr/bin/env bash
# weft-train on a real Slurm of four virtual nodes, by the job script that users submit (srun --mpi=pmix), as data-parallel ranks on CPUs:
# a job that finishes; a signal before the time limit, upon which the job requeues itself; a rank that is killed, a node that dies, a network
# that is cut, each of which weft-train tells in its own line before the job goes on; eight ranks of a recipe, as tensor, pipeline and data
# parallel pairs, of which a node dies. The numbers of every run are those of the straight one, to the bit.
. "$(dirname "$0")/test-lib.sh" || exit
start_slurm 5

# The corpus: this repository's own text, and a vocabulary learned from it.
export DATA_PATH=$work/data WEFT_HOME=$source_dir WEFT_BIN=$bin
mkdir -p "$DATA_PATH"
find "$source_dir/jobs" "$source_dir/trainer" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.md' \) -print0 |
  sort -z | xargs -0 -I{} jq -Rsc '{text: .}' {} >"$work/all.jsonl"
"$bin/weft-data" train-vocab --input "$work/all.jsonl" --vocab-size 600 --output "$DATA_PATH" >/dev/null
"$bin/weft-data" preprocess --ranks off --input "$work/all.jsonl" --output-prefix "$DATA_PATH/my-gpt2" --append-eod \
  --vocab-file "$DATA_PATH/vocab.json" --merge-file "$DATA_PATH/merges.txt" >/dev/null 2>&1 || fail "no dataset"
export NUM_LAYERS=2 HIDDEN_SIZE=64 NUM_ATTENTION_HEADS=2 SEQ_LENGTH=64 MICRO_BATCH_SIZE=2 GLOBAL_BATCH_SIZE=12 \
  EVAL_INTERVAL=100 EVAL_ITERS=1 SPLIT=90,10,0 DEVICE=cpu LR=1e-3 MIN_LR=1e-4 SAVE_INTERVAL=50 TRAIN_ITERS=300 OMP_NUM_THREADS=1 \
  VOCAB_FILE=$DATA_PATH/vocab.json MERGE_FILE=$DATA_PATH/merges.txt EXTRA_ARGS="--distributed-timeout-minutes 0.25"
submit() { # NAME [NODES]: the job script on three nodes, or as many; prints the job's number
  SAVE_DIR=$work/$1 sbatch --parsable --nodes="${2:-3}" --output="$work/$1.out" "$source_dir/jobs/2.distributed-training.sbatch"
}
state_is() { scontrol show job "$1" | grep -q "JobState=$2"; } # JOB STATE
ended() { state_is "$1" COMPLETED || state_is "$1" FAILED; }
wait_for_end() { # JOB
  wait_for "the end of job $1" ended "$1"
  state_is "$1" COMPLETED || fail "job $1 failed"
}
numbers() { jq -r 'select(.lm_loss != null) | "\(.iteration) \(.lm_loss) \(.grad_norm)"' "$work/$1/metrics.jsonl"; }
expect_straight() { diff <(numbers "${2:-straight}") <(numbers "$1") >"$work/$1.diff" || { head -5 "$work/$1.diff" >&2; fail "$1 differs from the straight run"; }; }
iteration_is_reached() { [ "$(numbers "$1" | tail -n 1 | cut -d' ' -f1)" -ge "$2" ]; } # NAME ITERATION

echo "1. three nodes, a rank on each"
job=$(submit straight)
wait_for_end "$job"
grep -q '^0: using world size: 3, data-parallel-size: 3' "$work/straight.out" || fail "MPI did not number the ranks"
grep -qE '^0: +2  node[1-4] ' "$work/straight.out" || fail "no table of ranks"
grep -qE '^2: +iteration +300/ +300 \|' "$work/straight.out" || fail "the last rank prints no iterations"
[ "$(cat "$work/straight/latest_checkpointed_iteration.txt")" = 300 ] || fail "iteration 300 is not saved"

echo "2. a signal before the time limit: the job requeues itself and goes on"
job=$(submit signalled)
wait_for "iteration 20" iteration_is_reached signalled 20
scancel --signal=USR1 "$job"
wait_for "the job to requeue itself" grep -q "stopped on request" "$work/signalled.out"
wait_for_end "$job"
grep -q 'restart 1' "$work/signalled.out" || fail "the job was not requeued"
grep -qE '^0: start 2: the last one ended at iteration ([0-9]+) \(exit code 10: exiting program after receiving SIGUSR1\.\); this one goes on from iteration \1, none is done again$' \
  "$work/signalled.out" || fail "the second start does not tell how the first one ended"
expect_straight signalled

lose_last_node() { # NAME JOB FAULT...: waits for iteration 60, does the fault to the job's last node, sets `lost`, and waits for the end of the job
  wait_for "iteration 60" iteration_is_reached "$1" 60
  lost=$(scontrol show hostnames "$(scontrol show job "$2" | sed -n 's/^ *NodeList=//p')" | tail -n 1)
  "$here/local-slurm-node.sh" "$3" "$lost" "${@:4}"
  wait_for "the second start" grep -q 'restart 1' "$work/$1.out"
  if [ "$3" = cut ]; then "$here/local-slurm-node.sh" heal "$lost"; fi
  wait_for_end "$2"
}
kill_rank=(exec sh -c 'kill -9 $(pgrep -x weft-train)')
expect_told() { # NAME CODE WORDS: the first rank tells the loss at once and the second start repeats it, and a file has it
  local rank="rank 2 \($lost, process [0-9]+\)"
  grep -qE "^0: error: $rank$3" "$work/$1.out" || fail "$1: the lost rank is not named"
  grep -qE "^0: start 2: the last one ended at iteration [0-9]+ \(exit code $2: $rank$3.*\); this one goes on from iteration [1-9][0-9]*, ([0-9]+ iterations are|none is) done again\$" \
    "$work/$1.out" || fail "$1: the second start does not tell how the first one ended"
  jq -e --arg node "$lost" '(.exit_code | tostring | test("^'"$2"'$")) and (.ranks[2] | .is_gone and (.place | startswith($node)))' \
    "$work/$1/failure.start_00001.json" >/dev/null || fail "$1: no failure.json of the first start"
}

echo "3. a rank is killed, a network is cut, a node dies: its rank is named, the job goes on, on other nodes where it must"
job=$(submit killed)
lose_last_node killed "$job" "${kill_rank[@]}"
expect_told killed 13 ': its process has ended without a word'
expect_straight killed
# The list of CONTAINER goes to srun, where the last word counts.
job=$(CONTAINER="--kill-on-bad-exit=0 --wait=60" submit alone)
lose_last_node alone "$job" "${kill_rank[@]}"
expect_told alone 13 ': its process has ended without a word'
expect_straight alone
job=$(submit cut)
lose_last_node cut "$job" cut
expect_told cut 12 ' was silent for '
expect_straight cut
job=$(submit lost)
lose_last_node lost "$job" kill
# The kernel of a virtual node outlives it, and may close its connections.
expect_told lost '1[23]' '(: its process has ended without a word| was silent for )'
expect_straight lost

echo "4. tasks that do not know each other are refused"
status=0
SRUN_MPI=none SAVE_DIR=$work/none sbatch --wait --nodes=2 --output="$work/none.out" "$source_dir/jobs/2.distributed-training.sbatch" || status=$?
[ "$status" = 2 ] || fail "srun without MPI ended with $status, not 2"
grep -q 'start the ranks with srun --mpi=pmix' "$work/none.out" || fail "no hint how to start"
"$here/local-slurm-node.sh" start "$lost"

echo "5. eight ranks, two on each of four nodes, as 2 x 2 x 2, by a recipe; a node dies"
for setting in NUM_LAYERS=4 TENSOR_PARALLEL=2 PIPELINE_PARALLEL=2 MICRO_BATCH_SIZE=1 GLOBAL_BATCH_SIZE=16 TRAIN_ITERS=120 \
  "RECIPE_ARGS=--use-distributed-optimizer --sequence-parallel --recompute-granularity full --recompute-method uniform"; do
  echo ": \"\${${setting%%=*}:=${setting#*=}}\""
  unset "${setting%%=*}"
done >"$work/2x2x2.env"
export RECIPE=$work/2x2x2.env RANKS_PER_NODE=2
EXTRA_ARGS+=" --check-weights-interval 50"
job=$(submit straight-2x2x2 4)
wait_for_end "$job"
grep -q '^0: using world size: 8, data-parallel-size: 2, tensor-model-parallel size: 2' "$work/straight-2x2x2.out" || fail "not 2 x 2 x 2"
job=$(submit lost-2x2x2 4)
lose_last_node lost-2x2x2 "$job" kill
expect_straight lost-2x2x2 straight-2x2x2
echo "passed"
