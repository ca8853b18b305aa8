#!/usr/bin/env bash
# Ranks that mpirun starts (Open MPI; weft-data links no MPI): the bytes of one process; a rank that is killed, upon which mpirun ends the
# others; and one that stands still. WEFT_CRASH_AT holds and stops ranks at named places, so that nothing depends on speed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v mpirun >/dev/null || skip "mpirun (openmpi-bin) is not installed"
for name in $(env | grep -oE '^(SLURM|OMPI|PMI|PMIX)_[A-Z0-9_]+' || true); do unset "$name"; done
mpirun --version | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_plm=isolated OMPI_MCA_oob_tcp_if_include=lo  # this machine only: neither ssh nor a network is asked for
export TMPDIR=$work  # Open MPI's own files
launched=
trap '[ -z "$launched" ] || kill -9 "$launched" $(ranks 2>/dev/null) 2>/dev/null || true; rm -rf "$work"' EXIT
timeout 60 mpirun -n 3 true >mpirun.log 2>&1 </dev/null || { cat mpirun.log; skip "mpirun cannot start three processes here"; }

make_vocabulary
# Streams that cannot be cut: four tasks, of which no rank is given more than its share while others are there.
for part in 1 2 3 4; do make_corpus 3000 | sed "s/line/part $part/" | gzip >"$part.jsonl.gz"; done
expect 0 'wrote' "$data" preprocess --ranks off --input [1-4].jsonl.gz --output-prefix one --append-eod

# What mpirun starts: weft-data, with this rank's crash points, if it has any.
cat >rank.sh <<'RANK'
#!/usr/bin/env bash
echo $$ >"pid.$OMPI_COMM_WORLD_RANK"
if [ -f "hold.$OMPI_COMM_WORLD_RANK" ]; then export WEFT_CRASH_AT=$(cat "hold.$OMPI_COMM_WORLD_RANK"); fi
exec "$@"
RANK
chmod +x rank.sh
ranks() { cat pid.0 pid.1 pid.2; }
launch() { # PREFIX [PEER_TIMEOUT]: in the background
  rm -f pid.*
  mpirun -n 3 ./rank.sh "$data" preprocess --input [1-4].jsonl.gz --output-prefix "$1" --append-eod --workers 2 --peer-timeout "${2:-60}" \
    >"$1.log" 2>&1 </dev/null &
  launched=$!
}
ends() { # PREFIX CODE TEXT; a CODE of "not 0" is any other
  local got=0
  wait "$launched" || got=$?
  launched=
  if [ "$2" = "not 0" ]; then [ $got != 0 ]; else [ $got = "$2" ]; fi || { cat "$1.log" >&2; fail "mpirun ended with $got instead of $2"; }
  grep -qF -- "$3" "$1.log" || { cat "$1.log" >&2; fail "'$3' was not printed"; }
}
waits_for() { for _ in $(seq 1200); do ! "${@:2}" 2>/dev/null || return 0; sleep 0.05; done; cat ./*.log >&2; fail "waited in vain for $1"; }
is_stopped() { grep -q '^State:.T' "/proc/$(cat pid.1)/status"; }
equal() {
  for suffix in bin idx sources; do cmp "one_text_document.$suffix" "$1_text_document.$suffix" || fail "$1_text_document.$suffix"; done
  [ ! -e "$1.work" ] || fail "$1.work is left"
}

# Each rank has a task before any goes on.
for rank in 0 1 2; do echo "task_given:1:go.$rank" >hold.$rank; done
launch together
for rank in 0 1 2; do waits_for "rank $rank to have a task" test -f go.$rank.waiting; done
touch go.0 go.1 go.2
ends together 0 '3 ranks make one output together (OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE)'
equal together

# Rank 1 dies; Open MPI ends the others. The same command goes on.
rm -f go.* hold.*
echo "rank_begins:1:go.0;dataset_finished:1:never" >hold.0
echo "rank_begins:1:go.0" >hold.2
echo "task_given:1:go.1;batch_written" >hold.1
launch killed
waits_for "rank 1 to have a task" test -f go.1.waiting
touch go.0
waits_for "rank 0 to join" grep -q 'joined' killed.log
touch go.1
ends killed 'not 0' 'signal 9'
[ ! -e killed_text_document.idx ] || fail "a killed run is complete"
rm -f hold.*
launch killed
ends killed 0 'going on with the work'
equal killed

# Rank 1 stands still: the others do its work. When it wakes up all is done.
for rank in 0 2; do echo "rank_begins:1:go.frozen" >hold.$rank; done
echo "batch_written:1:stop" >hold.1
launch frozen 5
waits_for "rank 1 to stop" is_stopped
touch go.frozen
waits_for "the dataset" test -f frozen_text_document.idx
is_stopped || fail "rank 1 is not frozen any more"
kill -CONT "$(cat pid.1)"
ends frozen 0 'rank 1 has nothing left to do'
equal frozen
grep -qE 'rank 1 \(.*\) is lost \(silent for 5 s\)' frozen.log || fail "nobody noticed the frozen rank"
