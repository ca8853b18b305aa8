#!/usr/bin/env bash
# The output stays whole or absent when a run is killed, stopped, doubled, or meets a full disk.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
make_vocabulary
make_corpus 200000 >corpus.jsonl
"$data" preprocess --input corpus.jsonl --output-prefix good --workers 2 >out.log 2>&1

same() { cmp "good_text_document.bin" "$1_text_document.bin" && cmp "good_text_document.idx" "$1_text_document.idx"; }
wait_for() { for _ in $(seq 3000); do [ ! -e "$1" ] || return 0; sleep 0.02; done; fail "$1 did not appear"; }

# --- a run whose input does not end: killed, stopped, doubled
mkfifo pipe
begin() { # NAME
  "$data" preprocess --input pipe --output-prefix "$1" >"$1.log" 2>&1 &
  run=$!
  exec 9>pipe
  head -n 20000 corpus.jsonl >&9
  wait_for "$1.work/journal"
}
end_input() { exec 9>&-; }

begin killed
kill -KILL $run
code=0 && wait $run || code=$?
[ $code = 137 ] || fail "a run that was killed ended with $code"
end_input
[ ! -e killed_text_document.idx ] || fail "a killed run left an .idx"
expect 0 '' "$data" preprocess --input corpus.jsonl --output-prefix killed
same killed || fail "the run after a killed one differs"
[ ! -e killed.lock ] || fail "the lock file stayed"

for signal in INT TERM HUP; do
  begin "stopped$signal"
  kill -$signal $run
  code=0 && wait $run || code=$?
  end_input
  # A background job of a script ignores SIGINT until a program asks for it, as ours does.
  [ $code = $((128 + $(kill -l $signal))) ] || { cat "stopped$signal.log"; fail "SIG$signal gave exit code $code"; }
  [ "$(ls stopped$signal*)" = "stopped$signal.log" ] || fail "SIG$signal left $(ls stopped$signal*)"
done

# --- a run that can go on. It is held up while the signal arrives, so that it cannot end before.
for signal in TERM USR1 HUP; do
  rm -rf usable*
  WEFT_CRASH_AT=batch_written:1:usable.go "$data" preprocess --input corpus.jsonl --output-prefix usable >usable.log 2>&1 &
  run=$!
  wait_for usable.go.waiting
  kill -$signal $run
  touch usable.go
  code=0 && wait $run || code=$?
  [ $code = 10 ] || { cat usable.log; fail "SIG$signal gave exit code $code"; }
  grep -qF 'the same command goes on with it' usable.log || fail "SIG$signal is not explained"
  [ ! -e usable_text_document.idx ] || fail "SIG$signal left an .idx"
done
expect 0 'going on with the work' "$data" preprocess --input corpus.jsonl --output-prefix usable
same usable || fail "a stopped run that went on differs"
expect 0 'is there already' "$data" preprocess --input corpus.jsonl --output-prefix usable
expect 2 '--overwrite' "$data" preprocess --input corpus.jsonl --output-prefix usable --append-eod

# --- a stop is noticed while nothing arrives: a pipe without a writer, and one whose writer is silent
mkfifo silent
catches_sigterm() { ((0x0$(awk '/^SigCgt/ {print $2}' "/proc/$run/status" 2>/dev/null) >> 14 & 1)); } # the run has a handler
has_opened_silent() { [ -n "$(find "/proc/$run/fd" -lname "$work/silent" 2>/dev/null)" ]; }
waits_for_download() { grep -qF "waiting for another run's download" stops.log; }
stops() { # CONDITION COMMAND...: from when the condition is true SIGTERM ends the command, by its handler and not by the default action
  local condition=$1
  shift
  "$@" >stops.log 2>&1 7>&- 8>&- &
  run=$!
  for _ in $(seq 3000); do catches_sigterm && $condition && break; sleep 0.02; done
  catches_sigterm && $condition || { cat stops.log; fail "not so far within 60 s that $condition: $*"; }
  kill -TERM $run
  for _ in $(seq 3000); do kill -0 $run 2>/dev/null || break; sleep 0.02; done
  kill -KILL $run 2>/dev/null && fail "still there 60 s after SIGTERM: $*"
  code=0 && wait $run || code=$?
  [ $code = 143 ] || { cat stops.log; fail "exit code $code: $*"; }
  grep -qF 'stopped by signal 15' stops.log || { cat stops.log; fail "SIGTERM was not handled: $*"; }
}
stops has_opened_silent "$data" preprocess --input silent --output-prefix silent
[ "$(ls -d silent*)" = silent ] || fail "SIGTERM left $(ls -d silent*)"
stops has_opened_silent "$data" train-vocab --input silent --vocab-size 300 --output silent_vocabulary
exec 8<>silent # now there is a writer, which says nothing
stops has_opened_silent "$data" train-vocab --input silent --vocab-size 300 --output silent_vocabulary
exec 8>&-

# --- one run downloads a vocabulary, others wait for it (and can be stopped)
mkdir -p "$HOME/.cache/weft/gpt2"
exec 7>"$HOME/.cache/weft/gpt2/download.lock" && flock 7
stops waits_for_download env -u WEFT_GPT2_DIR https_proxy=http://127.0.0.1:9 "$data" preprocess --input corpus.jsonl --output-prefix waiting
env -u WEFT_GPT2_DIR https_proxy=http://127.0.0.1:9 "$data" preprocess --input corpus.jsonl --output-prefix waiting >waits.log 2>&1 7>&- &
run=$!
for _ in $(seq 3000); do grep -qF "waiting for another run's download" waits.log && break; sleep 0.02; done
grep -qF "waiting for another run's download" waits.log || { cat waits.log; fail "a run did not wait for another's download"; }
cp gpt2/* "$HOME/.cache/weft/gpt2/"
exec 7>&-
wait $run && same waiting || { cat waits.log; fail "did not use the vocabulary that another run had fetched"; }
rm -r "$HOME/.cache/weft"

begin first
expect 8 "process $run on" "$data" preprocess --input corpus.jsonl --output-prefix first
expect 0 '' "$data" preprocess --input corpus.jsonl --output-prefix other
end_input
wait $run || fail "the first run was disturbed"
[ -e first_text_document.idx ] || fail "the first run wrote nothing"

# --- kill -9 at random moments: never an .idx beside an incomplete .bin
begun=$(date +%s%N)
expect 0 '' "$data" preprocess --input corpus.jsonl --output-prefix random --workers 2
whole_ms=$(((($(date +%s%N) - begun) / 1000000) + 1))
rm -f random_text_document.*
num_killed=0
for attempt in $(seq 100); do
  "$data" preprocess --input corpus.jsonl --output-prefix random --workers 2 >out.log 2>&1 &
  run=$!
  sleep "$(printf '%d.%03d' $((RANDOM % whole_ms / 1000)) $((RANDOM % whole_ms % 1000)))"
  kill -KILL $run 2>/dev/null || true
  code=0 && wait $run 2>/dev/null || code=$?
  # Only a run that had begun to write counts.
  if [ $code = 137 ] && [ -s random.work/journal ]; then num_killed=$((num_killed + 1)); fi
  [ ! -e random_text_document.idx ] || same random || fail "an incomplete pair has an .idx (attempt $attempt)"
  [ $num_killed -lt 12 ] || break
  [ $code != 0 ] || rm -f random_text_document.*
done
[ $num_killed = 12 ] || fail "only $num_killed of 100 kills hit a working run"

# --- the next run completes the pair
expect 0 '' "$data" preprocess --input corpus.jsonl --output-prefix random
same random || fail "random differs"

# --- a full disk: exit 5, the path is named, nothing looks complete
expect 5 'No space left on device' env WEFT_IO_FAIL_AT=9:28 "$data" preprocess --input corpus.jsonl --output-prefix full
[ ! -e full_text_document.idx ] || fail "a full disk left an .idx"
expect 4 'Input/output error' env WEFT_IO_FAIL_AT=9 "$data" preprocess --input corpus.jsonl --output-prefix full
[ "$(head -1 out.log)" = 'this build is for tests, and WEFT_IO_FAIL_AT=9 makes it fail' ] || fail "a hook is active without a word: $(cat out.log)"
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=1m tmpfs small 2>/dev/null; then
  trap 'umount "$work/small"; rm -rf "$work"' EXIT
  expect 5 'small/full.work' "$data" preprocess --input corpus.jsonl --output-prefix small/full
  grep -qF 'the work so far is kept in small/full.work; the same command goes on with it' out.log || fail "no hint: $(cat out.log)"
  [ "$(ls small)" = full.work ] || fail "a full disk left $(ls small)"
  mount -o remount,size=64m small
  expect 0 'going on with the work' "$data" preprocess --input corpus.jsonl --output-prefix small/full
  same small/full || fail "a run that met a full disk differs"
  rm -rf small/*
  for i in {1..10}; do : >"small/$i"; done
  mount -o remount,nr_inodes=12 small
  expect 5 'has no room for more files (its inodes are used up)' "$data" preprocess --input corpus.jsonl --output-prefix small/full
fi
echo "all passed"
