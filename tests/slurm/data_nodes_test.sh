#!/usr/bin/env bash
# weft-data preprocess on a real Slurm of three virtual nodes, by the job scripts that users submit (srun --mpi=pmix): one dataset of all
# nodes, equal to that of one process; a node that dies, upon which the job requeues itself; a signal before the time limit; and an array
# with a merge.
#
# The test does not depend on speed: WEFT_CRASH_AT (indexed_dataset/base/process/crash_point.h) holds or stops chosen ranks at chosen places, and
# everything else waits for a condition.
. "$(dirname "$0")/test-lib.sh" || exit
start_slurm 3 zstd gzip

# The corpus: this repository's own text in 12 files of several formats, and a vocabulary learned from it.
export DATA_PATH=$work/data WEFT_HOME=$source_dir
mkdir -p "$DATA_PATH/in" "$work/bin"
find "$source_dir"/{jobs,tokenizer,kernels,preprocess,trainer} -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.md' \) -print0 |
  sort -z | xargs -0 -I{} jq -Rsc '{text: .}' {} >"$work/all.jsonl"
split -n l/12 -d --additional-suffix=.jsonl "$work/all.jsonl" "$DATA_PATH/in/"
zstd -q --rm "$DATA_PATH"/in/0[2-5].jsonl
gzip "$DATA_PATH/in/07.jsonl"
"$bin/weft-data" train-vocab --input "$work/all.jsonl" --vocab-size 600 --output "$DATA_PATH" >/dev/null
export INPUT="$DATA_PATH/in/*" WORKERS=2 LOG_INTERVAL=50

# The ranks run weft-data, with a crash point where the test has put one for this rank.
cat >"$work/bin/weft-data" <<EOF
#!/usr/bin/env bash
if [ -f "$work/hold.\${SLURM_PROCID:-}" ]; then export WEFT_CRASH_AT=\$(cat "$work/hold.\$SLURM_PROCID"); fi
exec "$bin/weft-data" "\$@"
EOF
chmod +x "$work/bin/weft-data"
export WEFT_BIN=$work/bin

echo "0. one process"
# shellcheck disable=SC2086  # a glob
"$bin/weft-data" preprocess --ranks off --input $INPUT --output-prefix "$work/one" --vocab-file "$DATA_PATH/vocab.json" \
  --merge-file "$DATA_PATH/merges.txt" --append-eod >/dev/null 2>&1 || fail "the undisturbed run"

expect_equal() { # PREFIX: the dataset of $DATA_PATH is that of one process, and nothing else is left
  for file in bin idx sources; do
    cmp "$work/one_text_document.$file" "$1_text_document.$file" || fail "$1_text_document.$file differs"
  done
  "$bin/weft-data" verify "$1_text_document" >/dev/null || fail "verify of $1_text_document"
  [ ! -e "$1.work" ] || fail "$1.work is left"
}
submit() { # NAME: the job script on three nodes; prints the job's number
  OUTPUT_PREFIX=$DATA_PATH/$1 sbatch --parsable --nodes=3 --output="$work/$1.out" "$source_dir/jobs/1.data-preprocessing.sbatch"
}
state_is() { scontrol show job "$1" | grep -q "JobState=$2"; } # JOB STATE
ended() { state_is "$1" COMPLETED || state_is "$1" FAILED; }
wait_for_end() { # JOB
  wait_for "the end of job $1" ended "$1"
  state_is "$1" COMPLETED || fail "job $1 failed"
}
processes_of_rank() { # RANK: the weft-data processes of this test with that rank
  local folder
  for folder in /proc/[0-9]*; do
    [ "$(readlink "$folder/exe" 2>/dev/null)" = "$(readlink -f "$bin/weft-data")" ] || continue
    tr '\0' '\n' <"$folder/environ" 2>/dev/null | grep -qx "SLURM_PROCID=$1" || continue
    tr '\0' '\n' <"$folder/environ" 2>/dev/null | grep -qx "DATA_PATH=$DATA_PATH" && echo "${folder#/proc/}"
  done
}
rank_is_gone() { [ -z "$(processes_of_rank "$1")" ]; } # RANK

# A rank can be held up at a named place, as often as it gets there for the first time in a process.
hold() { echo "$2:1:$work/go.$1" >"$work/hold.$1"; rm -f "$work/go.$1"{,.waiting}; } # RANK PLACE
wait_until_held() { wait_for "rank $1 to be held" test -f "$work/go.$1.waiting"; }    # RANK
release() { local rank; for rank in "$@"; do touch "$work/go.$rank"; done; }          # RANK...
forget_holds() { rm -f "$work"/hold.*; }                                              # for processes to come

echo "1. three nodes"
hold 0 rank_begins; hold 1 task_given; hold 2 task_given
job=$(submit plain)
wait_until_held 1
wait_until_held 2
release 0 1 2
wait_for_end "$job"
forget_holds
expect_equal "$DATA_PATH/plain"
grep -q "^0: 3 ranks make one output together" "$work/plain.out" || fail "MPI did not number the ranks"
grep -qE "^0: Processed [0-9]*[05]0 documents" "$work/plain.out" || fail "no progress in the log"

# Rank 1 freezes in the middle of a write, with its first task done. The others name it and end, and the script requeues the job. In its
# second start the rank's node dies: the same, but Slurm may be the first to requeue the job. The third start goes on to the end.
echo "2. a rank freezes, then its node dies"
hold 0 rank_begins; hold 2 rank_begins
echo "pair_placed:2:$work/go.1" >"$work/hold.1"; rm -f "$work/go.1"{,.waiting}
job=$(PEER_TIMEOUT=5 submit lost)
wait_until_held 1
has_done_a_task() { [ "$(wc -l <"$DATA_PATH/lost.work/journal")" -ge 2 ]; }  # the first line of a journal is no task
wait_for "rank 1's first task to be in the journal" has_done_a_task
kill -STOP "$(processes_of_rank 1)"
# The rank's other worker may have done all tasks but the held one: the second start is held at the first task that it places.
echo "pair_placed:1:$work/go.1" >"$work/hold.1"
wait_for "the job to be requeued" grep -q "requeueing" "$work/lost.out"
grep -qE "^0: error: rank 1 \(node2, process [0-9]+\) was silent for 5 s" "$work/lost.out" || fail "the frozen rank is not named"
wait_for "the frozen rank to be killed" rank_is_gone 1
rm -f "$work"/go.*.waiting
wait_for "the second start" grep -q "restart 1" "$work/lost.out"
wait_until_held 1
forget_holds
"$here/local-slurm-node.sh" kill node2
named() { [ "$(grep -cE "^0: error: rank 1 \(node2, process [0-9]+\) was silent for 5 s" "$work/lost.out")" = 2 ]; }
wait_for "rank 0 to name the rank of the dead node" named
[ ! -e "$DATA_PATH/lost_text_document.idx" ] || fail "the dataset is complete without node2"
left() { state_is "$job" PENDING || state_is "$job" REQUEUED || state_is "$job" COMPLETING; }
wait_for "the job to leave its nodes" left
release 0 2
"$here/local-slurm-node.sh" start node2
wait_for_end "$job"
expect_equal "$DATA_PATH/lost"
grep -q 'restart 2' "$work/lost.out" || fail "the job did not start again"
grep -q 'going on with the work' "$work/lost.out" || fail "the job began anew"

echo "3. a signal before the time limit: the job requeues itself and goes on"
hold 0 rank_begins; hold 2 rank_begins; hold 1 batch_written
job=$(submit signalled)
for rank in 0 1 2; do wait_until_held $rank; done  # a signal to a shell that is yet to start weft-data would kill it
forget_holds
release 0 2
scancel --signal=USR1 "$job"
release 1
wait_for_end "$job"
expect_equal "$DATA_PATH/signalled"
grep -q "ended with 10" "$work/signalled.out" || fail "the signal did not end the job with 10"
grep -q 'restart 1' "$work/signalled.out" || fail "the job was not requeued"
grep -q 'going on with the work' "$work/signalled.out" || fail "the job began anew"

echo "4. an array and a merge"
export OUTPUT_PREFIX=$DATA_PATH/array
array=$source_dir/jobs/1.data-preprocessing-array.sbatch
first=$(sbatch --parsable --array=0-3 --output="$work/array_%a.out" "$array")
PARTS=4 sbatch --wait --dependency="afterok:$first" --output="$work/merge.out" "$array" >/dev/null || fail "the merge failed"
expect_equal "$DATA_PATH/array"
[ -z "$(find "$DATA_PATH" -name '*part-*')" ] || fail "parts are left"
PARTS=4 sbatch --wait --output="$work/merge-again.out" "$array" >/dev/null || fail "the merge, submitted again"
grep -q 'is merged already' "$work/merge-again.out" || fail "the second merge did not see the first one's result"
status=0
PARTS=3 sbatch --wait --output="$work/merge-none.out" "$array" >/dev/null || status=$?
[ "$status" = 3 ] || fail "a merge without parts ended with $status, not 3"
grep -q -- '--array=0,1,2 ' "$work/merge-none.out" || fail "the missing parts are not named"
echo "passed"
