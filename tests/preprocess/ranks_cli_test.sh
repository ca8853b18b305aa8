#!/usr/bin/env bash
# Processes that RANK and WORLD_SIZE number, as a user starts them: together, alone, with different options, and stopped.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for name in $(env | grep -oE '^(SLURM|OMPI|PMI|PMIX)_[A-Z0-9_]+' || true); do unset "$name"; done
pids=()
trap 'for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
make_vocabulary
make_corpus 3000 >corpus.jsonl
"$data" preprocess --input corpus.jsonl --output-prefix one --append-eod >one.log 2>&1

# start RANK PREFIX OPTION...: rank RANK of two in the background, its output in RANK.log.
start() {
  local rank=$1 prefix=$2
  shift 2
  RANK=$rank WORLD_SIZE=2 "$data" preprocess --input "${input:-corpus.jsonl}" --output-prefix "$prefix" "$@" >"$rank.log" 2>&1 </dev/null &
  pids[$rank]=$!
}
# ends RANK CODE TEXT: it ends with CODE and has printed TEXT.
ends() {
  local got=0
  wait "${pids[$1]}" || got=$?
  [ "$got" = "$2" ] || { cat "$1.log" >&2; fail "rank $1 ended with $got instead of $2"; }
  [ -z "$3" ] || grep -qF -- "$3" "$1.log" || { cat "$1.log" >&2; fail "rank $1 did not print '$3'"; }
}
says() { for _ in $(seq 1200); do ! grep -qF -- "$2" "$1.log" || return 0; sleep 0.05; done; cat "$1.log" >&2; fail "rank $1 does not say '$2'"; }
same() { cmp "one_text_document.bin" "$1_text_document.bin" && cmp "one_text_document.idx" "$1_text_document.idx"; }

start 0 both --append-eod
start 1 both --append-eod
ends 0 0 'rank 1 '
ends 1 0 ''
same both
# Both find that it is done.
start 0 both --append-eod
start 1 both --append-eod
ends 0 0 'is there already'
ends 1 0 ''

# Different options: the rank that differs says in what. Rank 0 would wait for a rank 1 that fits.
start 0 differ
says 0 'Time to startup'
start 1 differ --append-eod --special token
ends 1 14 '--append-eod: there false, here true; --special: there "literal", here "token"'
kill -9 "${pids[0]}"
wait "${pids[0]}" 2>/dev/null || true

# What that killed rank 0 left names a port where nobody listens. A rank that waits says so, and can be stopped.
[ -e differ.work/coordinator.json ] || fail "nothing was left of rank 0"
start 1 differ --peer-timeout 1
says 1 'rank 1 waits for rank 0'
kill -TERM "${pids[1]}"
ends 1 10 'stopped'
start 1 absent --peer-timeout 1
says 1 "'absent.work/coordinator.json' is not there"
kill -TERM "${pids[1]}"
ends 1 10 'stopped'
# While it waits, rank 0 comes.
start 1 absent --append-eod --peer-timeout 1
says 1 'rank 1 waits for rank 0'
start 0 absent --append-eod --peer-timeout 60
ends 0 0 'rank 1 '
ends 1 0 ''
same absent

# Rank 0 refuses to begin, and nobody waits for it for minutes. (What failed at its first line is nobody's work.)
{ for _ in $(seq 20); do cat corpus.jsonl; done; echo 'no JSON'; } >bad.jsonl
expect 3 'bad.jsonl:60001:' "$data" preprocess --input bad.jsonl --output-prefix begun
input=bad.jsonl start 0 begun --append-eod
ends 0 2 'with other options (--append-eod: was false, is true)'
input=bad.jsonl start 1 begun --append-eod --peer-timeout 1
ends 1 2 'with other options (--append-eod: was false, is true)'
expect 0 'of them now in' "$data" preprocess --input bad.jsonl --output-prefix begun --on-bad-line skip
echo 'no JSON' >bad.jsonl
expect 3 'bad.jsonl:1:' "$data" preprocess --input bad.jsonl --output-prefix worthless
expect 0 'wrote' "$data" preprocess --input corpus.jsonl --output-prefix worthless
start 0 both
ends 0 2 'is a finished dataset'
start 1 both --peer-timeout 1
ends 1 2 'is a finished dataset'

# A rank that stops still is given up. It wakes when rank 0 ends, or when all is done, and sees that: no error.
waits_for() { for _ in $(seq 1200); do ! "${@:2}" 2>/dev/null || return 0; sleep 0.05; done; fail "waited in vain for $1"; }
is_stopped() { grep -q '^State:.T' "/proc/${pids[1]}/status"; }
sleeps_through() { # PREFIX PLACES OPTION...: rank 0 is held at the PLACES, which are "NAME:1:FILE" with ; between them; rank 1 stops at its first task
  local prefix=$1 places=$2
  shift 2
  WEFT_CRASH_AT=$places start 0 "$prefix" --append-eod --peer-timeout 4 "$@"
  WEFT_CRASH_AT='batch_written:1:stop' start 1 "$prefix" --append-eod --peer-timeout 4 "$@"
  waits_for "rank 1 to stop" is_stopped
  touch "$prefix.go"
}
sleeps_through asleep 'rank_begins:1:asleep.go'
ends 0 0 'is lost (silent for 4 s)'
is_stopped || fail "rank 1 woke up by itself"
same asleep
kill -CONT "${pids[1]}"
ends 1 0 'rank 1 has nothing left to do, the others have done its work (rank 0 has ended'
same asleep

# Also where it was to replace a dataset, which stands there again.
rm asleep.go
sleeps_through asleep 'rank_begins:1:asleep.go' --overwrite
ends 0 0 'wrote'
kill -CONT "${pids[1]}"
ends 1 0 'rank 1 has nothing left to do, the others have done its work (rank 0 has ended'
same asleep
# And if it starts when all is done, as far as its launcher says that it is of that run.
TORCHELASTIC_RUN_ID=7 start 0 asleep --append-eod --overwrite --peer-timeout 1
ends 0 0 'wrote'
TORCHELASTIC_RUN_ID=7 start 1 asleep --append-eod --overwrite --peer-timeout 1
ends 1 0 ''
for id in 8 ''; do
  TORCHELASTIC_RUN_ID=$id start 1 asleep --append-eod --overwrite --peer-timeout 1
  says 1 'rank 1 waits for rank 0'
  kill -TERM "${pids[1]}"
  ends 1 10 'stopped'
done

sleeps_through drowsy 'rank_begins:1:drowsy.go;dataset_finished:1:drowsy.end'
waits_for "rank 0 to make the index" test -f drowsy.end.waiting
kill -CONT "${pids[1]}"
ends 1 0 'rank 1 has nothing left to do, the others have done its work'
[ ! -e drowsy_text_document.idx ] || fail "rank 0 was not held up"
touch drowsy.end
ends 0 0 'wrote'
same drowsy

# While others work, it is an error.
sleeps_through late 'rank_begins:1:late.go;task_given:1:late.end'
waits_for "rank 0 to be given rank 1's task" test -f late.end.waiting
kill -CONT "${pids[1]}"
ends 1 13 'was given up'
touch late.end
ends 0 0 'wrote'
same late
