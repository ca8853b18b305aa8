#!/usr/bin/env bash
# What happens to the output when a run is killed, stopped, doubled, or meets a full disk.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
make_vocabulary
make_corpus 200000 >corpus.jsonl
"$data" preprocess --input corpus.jsonl --output-prefix good --workers 2 >out.log 2>&1

same() { cmp "good_text_document.bin" "$1_text_document.bin" && cmp "good_text_document.idx" "$1_text_document.idx"; }
started() { for _ in $(seq 3000); do [ -e "$1.work/journal" ] && return; sleep 0.02; done; fail "$1 did not start"; }

# --- a run whose input does not end: killed, stopped, doubled
mkfifo pipe
begin() { # NAME
  "$data" preprocess --input pipe --output-prefix "$1" >"$1.log" 2>&1 &
  run=$!
  exec 9>pipe
  head -n 20000 corpus.jsonl >&9
  started "$1"
}
end_input() { exec 9>&-; }

begin killed
kill -KILL $run && wait $run && fail "killed run succeeded" || true
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

# --- a run that can go on. It may come to its end before the signal does: then again.
for signal in TERM USR1 HUP; do
  for attempt in $(seq 20); do
    rm -rf usable*
    "$data" preprocess --input corpus.jsonl --output-prefix usable >usable.log 2>&1 &
    run=$!
    for _ in $(seq 3000); do [ -e usable.work/journal ] || [ -e usable_text_document.idx ] && break; sleep 0.02; done
    kill -$signal $run 2>/dev/null || true
    code=0 && wait $run || code=$?
    [ $code = 0 ] || break
  done
  [ $code = 10 ] || { cat usable.log; fail "SIG$signal gave exit code $code"; }
  grep -qF 'the same command goes on with it' usable.log || fail "SIG$signal is not explained"
  [ ! -e usable_text_document.idx ] || fail "SIG$signal left an .idx"
done
expect 0 'going on with the work' "$data" preprocess --input corpus.jsonl --output-prefix usable
same usable || fail "a stopped run that went on differs"
expect 0 'is there already' "$data" preprocess --input corpus.jsonl --output-prefix usable
expect 2 '--overwrite' "$data" preprocess --input corpus.jsonl --output-prefix usable --append-eod

# --- a stop is noticed while nothing arrives: a pipe nobody writes to, train-vocab on a silent pipe
mkfifo silent
waits() { # COMMAND...
  "$@" >waits.log 2>&1 &
  run=$!
  sleep 0.5
  kill -TERM $run
  for _ in $(seq 100); do kill -0 $run 2>/dev/null || break; sleep 0.05; done
  kill -KILL $run 2>/dev/null && fail "still there 5 s after SIGTERM: $*"
  code=0 && wait $run || code=$?
  [ $code = 143 ] || { cat waits.log; fail "exit code $code: $*"; }
}
waits "$data" preprocess --input silent --output-prefix silent
[ -z "$(ls silent_* 2>/dev/null)" ] || fail "SIGTERM left $(ls silent_*)"
waits "$data" train-vocab --input silent --vocab-size 300 --output silent_vocabulary
exec 8<>silent # now there is a writer, who says nothing
waits "$data" train-vocab --input silent --vocab-size 300 --output silent_vocabulary
exec 8>&-

# --- one run downloads a vocabulary, others wait for it (and can be stopped)
mkdir -p "$HOME/.cache/weft/gpt2"
exec 7>"$HOME/.cache/weft/gpt2/download.lock" && flock 7
waits env -u WEFT_GPT2_DIR https_proxy=http://127.0.0.1:9 "$data" preprocess --input corpus.jsonl --output-prefix waiting
grep -qF "waiting for another run's download" waits.log || { cat waits.log; fail "did not wait for the download"; }
env -u WEFT_GPT2_DIR https_proxy=http://127.0.0.1:9 timeout 60 "$data" preprocess --input corpus.jsonl --output-prefix waiting >waits.log 2>&1 7>&- &
run=$!
for _ in $(seq 100); do grep -q waiting waits.log && break; sleep 0.05; done
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
for i in $(seq 12); do
  rm -f random_text_document.*
  "$data" preprocess --input corpus.jsonl --output-prefix random --workers 2 >out.log 2>&1 &
  run=$!
  sleep "0.$((RANDOM % 6))$((RANDOM % 10))"
  kill -KILL $run 2>/dev/null || true
  wait $run || true
  [ ! -e random_text_document.idx ] || same random || fail "an incomplete pair has an .idx (round $i)"
done

# --- a killed second run leaves the pair of the first alone, or a complete new one
expect 0 '' "$data" preprocess --input corpus.jsonl --output-prefix random
same random || fail "random differs"

# --- a full disk: exit 5, the path is named, nothing looks complete
expect 5 'No space left on device' env WEFT_IO_FAIL_AT=9:28 "$data" preprocess --input corpus.jsonl --output-prefix full
[ ! -e full_text_document.idx ] || fail "a full disk left an .idx"
expect 4 'Input/output error' env WEFT_IO_FAIL_AT=9 "$data" preprocess --input corpus.jsonl --output-prefix full
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
  expect 5 'has room for no more files (its inodes are used up)' "$data" preprocess --input corpus.jsonl --output-prefix small/full
fi
echo "all passed"
