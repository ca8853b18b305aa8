#!/usr/bin/env bash
# Ranks that mpirun starts make the bytes of one process, whatever happens to them: they are killed, frozen, suspended, stopped, started
# differently, or fail. Afterwards the same command goes on. WEFT_CRASH_AT holds, stops and ends ranks at named places, so that nothing
# depends on speed.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
forget_launchers
make_vocabulary
# Streams that cannot be cut: four tasks, of which no rank is given more than its share while others are there.
for part in 1 2 3 4; do make_corpus 3000 | sed "s/line/part $part/" | gzip >"$part.jsonl.gz"; done
options=(--input [1-4].jsonl.gz --append-eod --origin-key text)

# Without a launcher MPI is not touched, and variables of torchrun say nothing.
RANK=1 WORLD_SIZE=8 expect 0 'wrote' "$data" preprocess "${options[@]}" --output-prefix one
SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 expect 2 'start them with srun --mpi=pmix, or give --ranks off' \
  "$data" preprocess "${options[@]}" --output-prefix nobody
SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 expect 0 'wrote' "$data" preprocess "${options[@]}" --output-prefix off --ranks off
[ ! -e nobody.work ] || fail "a rank that knows no other has begun"

. "$WEFT_SOURCE_DIR/tests/preprocess/mpi.sh" || exit
launched=
trap '[ -z "$launched" ] || kill -9 "$launched" 2>/dev/null || true; kill -9 $(cat pid.* 2>/dev/null) 2>/dev/null || true; rm -rf "$work"' EXIT

# mpirun starts weft-data with this rank's crash points, options and folder, if it has any.
cat >rank.sh <<'RANK'
#!/usr/bin/env bash
rank=$OMPI_COMM_WORLD_RANK
if [ -f "hold.$rank" ]; then export WEFT_CRASH_AT=$(cat "hold.$rank"); fi
mapfile -t options < <(cat "options.$rank" 2>/dev/null || true)
echo $$ >"pid.$rank"
[ ! -d "folder.$rank" ] || cd "folder.$rank"
# In a session of its own it outlives mpirun.
[ ! -f "detach.$rank" ] || { setsid "$@" "${options[@]}" & echo $! >"pid.$rank"; wait $!; exit $?; }
exec "$@" "${options[@]}"
RANK
chmod +x rank.sh
launch() { # PREFIX OPTION...: in the background
  local prefix=$1
  shift
  rm -f pid.*
  mpirun -n 3 "$work/rank.sh" "$data" preprocess "${options[@]}" --output-prefix "$prefix" --workers 2 "$@" >"$prefix.log" 2>&1 </dev/null &
  launched=$!
}
ends() { # PREFIX CODE TEXT
  local got=0
  wait "$launched" || got=$?
  launched=
  [ $got = "$2" ] || { cat "$1.log" >&2; fail "mpirun ended with $got instead of $2"; }
  grep -qF -- "$3" "$1.log" || { cat "$1.log" >&2; fail "'$3' was not printed"; }
}
waits_for() { for _ in $(seq 2400); do ! "${@:2}" 2>/dev/null || return 0; sleep 0.05; done; cat ./*.log >&2; fail "waited in vain for $1"; }
is_stopped() { grep -q '^State:.T' "/proc/$(cat "pid.$1")/status"; }
is_gone() { ! grep -q '^State:.[^Z]' "/proc/$(cat "pid.$1")/status"; }
equal() {
  for suffix in bin idx sources; do cmp "one_text_document.$suffix" "$1_text_document.$suffix" || fail "$1_text_document.$suffix"; done
  [ ! -e "$1.work" ] || fail "$1.work is left"
}
has_done_a_task() { [ "$(wc -l <"$1.work/journal")" -ge 2 ]; } # PREFIX: the first line of a journal is no task
is_absent() { [ ! -e "$1_text_document.idx" ] || fail "$1 is complete"; }
forget() { rm -rf go.* hold.* options.* folder.* detach.*; }
goes_on() { # PREFIX: the same command completes what was begun
  forget
  launch "$1"
  ends "$1" 0 'going on with the work'
  equal "$1"
}
# Rank 1 gets to PLACE with a task of its own, all others wait before theirs. They go on when go.others is there.
only_rank_1_works() { # PLACE
  for rank in 0 2; do echo "rank_begins:1:go.others" >"hold.$rank"; done
  echo "$1" >hold.1
}

echo "together, each with a task before any goes on"
for rank in 0 1 2; do echo "task_given:1:go.$rank" >"hold.$rank"; done
launch together
for rank in 0 1 2; do waits_for "rank $rank to have a task" test -f "go.$rank.waiting"; done
touch go.0 go.1 go.2
ends together 0 '3 ranks make one output together'
equal together
forget
launch together
ends together 0 'is there already'

for place in mpi_starts mpi_has_started; do
  echo "a rank is frozen at $place"
  echo "$place:1:stop" >hold.1
  launch "$place" --peer-timeout 4
  ends "$place" 13 'the ranks have not all started MPI within 4 s (--peer-timeout)'
  [ ! -e "$place.work" ] || fail "$place.work is there"
  forget
done

echo "a rank is killed"
only_rank_1_works batch_written
launch killed
ends killed 137 'signal 9'
is_absent killed
goes_on killed

echo "a rank is frozen, outlives its launcher, and wakes when all is done"
only_rank_1_works 'pair_placed:2:go.1' # in the middle of a write, with an earlier task done
touch detach.1
launch frozen --peer-timeout 5
waits_for "rank 1 to write its second task" test -f go.1.waiting
waits_for "its first task to be in the journal" has_done_a_task frozen
kill -STOP "$(cat pid.1)"
touch go.others go.1
ends frozen 13 'was silent for 5 s; run the same command again to go on'
grep -qE "^error: rank 1 \($(hostname), process $(cat pid.1)\) was silent" frozen.log || fail "the frozen rank is not named"
is_absent frozen
is_stopped 1 || fail "the frozen rank is not frozen any more"
frozen=$(cat pid.1)
goes_on frozen
echo "$frozen" >pid.1
touch go.1
kill -CONT "$frozen"
waits_for "the rank that woke up to end" is_gone 1
equal frozen

echo "rank 0 is frozen"
for rank in 1 2; do echo "rank_begins:1:go.others" >"hold.$rank"; done
echo 'pair_placed:2:go.0' >hold.0
launch leaderless --peer-timeout 5
waits_for "rank 0 to write its second task" test -f go.0.waiting
waits_for "its first task to be in the journal" has_done_a_task leaderless
kill -STOP "$(cat pid.0)"
ends leaderless 13 "error: rank 0 ($(hostname), process "
is_absent leaderless
goes_on leaderless

echo "a suspended job goes on"
for rank in 0 1 2; do echo "task_given:1:go.$rank" >"hold.$rank"; done
launch suspended --peer-timeout 3
for rank in 0 1 2; do waits_for "rank $rank to have a task" test -f "go.$rank.waiting"; done
kill -STOP $(cat pid.0 pid.1 pid.2)
sleep 4
kill -CONT $(cat pid.0 pid.1 pid.2)
touch go.0 go.1 go.2
ends suspended 0 'wrote'
equal suspended

echo "one rank has other options, other inputs, or sees another folder"
forget
echo '--special=token' >options.2
launch differ
ends differ 14 'would make something else than rank 0: --special: rank 0 has "literal", that rank has "token"'
[ "$(grep -c '^error: rank 2 (' differ.log)" = 1 ] || fail "not said once"
echo '--input=nothing.jsonl' >options.2
launch differ
ends differ 4 "error: rank 2 ($(hostname), process "
grep -q 'nothing.jsonl' differ.log || fail "the file is not named"
forget
mkdir folder.1 folder.1/differ.work
cp -p [1-4].jsonl.gz folder.1
launch differ
ends differ 2 'is not the folder of that name of rank 0'
is_absent differ

echo "a bad line"
forget
gunzip -c 4.jsonl.gz >good.jsonl
{ cat good.jsonl; echo 'no JSON'; } >bad.jsonl
mpirun -n 3 "$work/rank.sh" "$data" preprocess --input [1-3].jsonl.gz bad.jsonl --append-eod --output-prefix bad >bad.log 2>&1 </dev/null &
launched=$!
ends bad 3 'bad.jsonl:3001:'
[ "$(grep -c 'bad.jsonl:3001:' bad.log)" = 1 ] || { cat bad.log >&2; fail "the bad line is not named once"; }

echo "a signal to one rank stops all"
only_rank_1_works 'batch_written:1:go.1'
launch stopped
waits_for "rank 1 to have written" test -f go.1.waiting
kill -TERM "$(cat pid.1)"
touch go.others go.1
ends stopped 10 'stopped: the work so far is kept in stopped.work'
is_absent stopped
goes_on stopped

echo "--ranks off: each on its own"
for rank in 0 1 2; do echo "--output-prefix=alone.$rank" >"options.$rank"; done
mpirun -n 3 "$work/rank.sh" "$data" preprocess "${options[@]}" --ranks off >alone.log 2>&1 </dev/null || { cat alone.log >&2; fail "--ranks off"; }
for rank in 0 1 2; do equal "alone.$rank"; done
echo "passed"
