#!/usr/bin/env bash
# What happens to the output when a run is killed, stopped, doubled, or meets a full disk.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
make_vocabulary
make_corpus 200000 >corpus.jsonl
"$data" preprocess --input corpus.jsonl --output-prefix good --workers 2 >out.log 2>&1

same() { cmp "good_text_document.bin" "$1_text_document.bin" && cmp "good_text_document.idx" "$1_text_document.idx"; }
started() { for _ in $(seq 200); do [ -e "$1_text_document.bin.part" ] && return; sleep 0.02; done; fail "$1 did not start"; }

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

for signal in INT TERM; do
  begin "stopped$signal"
  kill -$signal $run
  code=0 && wait $run || code=$?
  end_input
  # A background job of a script ignores SIGINT until a program asks for it, as ours does.
  [ $code = $((128 + $(kill -l $signal))) ] || { cat "stopped$signal.log"; fail "SIG$signal gave exit code $code"; }
  [ "$(ls stopped$signal*)" = "stopped$signal.log" ] || fail "SIG$signal left $(ls stopped$signal*)"
done

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
  expect 5 'small/full_text_document' "$data" preprocess --input corpus.jsonl --output-prefix small/full
  [ -z "$(ls small)" ] || fail "a full disk left $(ls small)"
fi
echo "all passed"
