#!/usr/bin/env bash
# weft-data preprocess --input URL: the same dataset as from a file, whatever the server does; continued after a kill.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
make_vocabulary
make_corpus 40000 >corpus.jsonl
gzip -k corpus.jsonl
preprocess() { "$data" preprocess --json-keys text --append-eod --workers 2 --allow-http "$@"; }
expect 0 '' preprocess --input corpus.jsonl --output-prefix file
is_equal() {
  cmp file_text_document.bin "$1_text_document.bin" && cmp file_text_document.idx "$1_text_document.idx" || fail "$1: another dataset"
}

# --- usage
expect 2 '--allow-http' "$data" preprocess --input http://h/x --output-prefix y
expect 2 'not an https URL' "$data" preprocess --input az://bucket/x --output-prefix y

# --- plain and compressed, with everything that can pass on the way
CONTENT=corpus.jsonl start_server plain
CONTENT=corpus.jsonl.gz start_server gzip
for server in plain gzip; do
  at=http://127.0.0.1:$(cat $server.port)
  for mode in plain sometimes norange excess; do
    expect 0 '' preprocess --input "$at/$mode" --output-prefix $server-$mode
    is_equal $server-$mode
  done
done
grep -q 'bytes=[1-9]' plain.requests || fail "cuts were not continued"
at=http://127.0.0.1:$(cat plain.port)
expect 0 '' preprocess --input "$at/plain?signature=secret-0815" --output-prefix secret
is_equal secret
if grep -rl secret-0815 . | grep -v plain.requests; then fail "the query of a URL is in these files"; fi

# --- trouble that does not pass: its exit code, and no dataset
expect 7 '404' preprocess --input "$at/missing" --output-prefix none
expect 7 'has changed' preprocess --input "$at/changing" --output-prefix none
[ ! -e none_text_document.idx ] || fail "a dataset of half a corpus"

# --- killed in the middle of the file, after some of it was noted as done: of a plain file only the rest is asked for, a
# compressed one is fetched and decoded again from its start
begin_and_kill() { # PREFIX URL: some of it is in the journal
  rm -f release
  held="$data preprocess --json-keys text --append-eod --workers 2 --allow-http --input $2 --output-prefix $1"
  $held >log_of_held 2>&1 &
  run=$!
  is_noted() { [ "$(wc -l 2>/dev/null <"$1.work/journal" || echo 0)" -ge 2 ]; }
  wait_until is_noted "$1"
  kill -KILL $run
  wait $run 2>/dev/null && fail "not killed"
  [ ! -e "$1_text_document.idx" ] || fail "half a corpus has the final name"
  touch release
}
for server in plain gzip; do
  begin_and_kill $server-held "http://127.0.0.1:$(cat $server.port)/halfheld"
  expect 0 'going on with the work' $held
  is_equal $server-held
done
grep -q '^/halfheld bytes=[1-9]' plain.requests || fail "the download began anew"

# --- another file has its name after the kill: nothing is mixed
begin_and_kill switched "http://127.0.0.1:$(cat plain.port)/switched"
make_corpus 30000 | tac >changed_to
expect 0 "/switched' has changed" $held
expect 0 '' preprocess --input changed_to --output-prefix file --overwrite
is_equal switched
echo "all passed"
