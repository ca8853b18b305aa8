#!/usr/bin/env bash
# hf://datasets/OWNER/NAME/... as inputs: the same dataset as from files; pinned, listed and resolved as seldom as can be; and what goes wrong.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
source "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
source "$WEFT_SOURCE_DIR/tests/preprocess/stores/hub.sh"
make_vocabulary
make_dataset
make_certificate
start_hub
preprocess() { "$data" preprocess --json-keys text --append-eod --workers 2 "$@"; }
expect 0 '' preprocess --input $one/data --output-prefix file
is_equal() {
  cmp file_text_document.bin "$1_text_document.bin" && cmp file_text_document.idx "$1_text_document.idx" || fail "$1: another dataset"
}

# --- folders, patterns, a file for each; the branch is pinned, and the list may have pages
echo 2 >page
expect 0 "hf://datasets/o/n@$commit_1/data/a/1.jsonl" preprocess --input hf://datasets/o/n --output-prefix all
is_equal all
grep -q "o/n' stands for 3 files; 4 others passed over" out.log || fail "no note of what was passed over"
grep -q "\"hf://datasets/o/n@$commit_1/data/a/1.jsonl\"" all_text_document.manifest.json || fail "the manifest has no commit"
for name in data 'data/*/*.jsonl*' 'data/**/*.jsonl*' '**/[ab]'; do
  expect 0 '' preprocess --input "hf://datasets/o/n@main/$name" --output-prefix pattern --overwrite
  is_equal pattern
done
expect 0 '' preprocess --input hf://datasets/o/n/data/{a/1.jsonl,a/2.jsonl.gz,b/3.jsonl.zst} --output-prefix each
is_equal each
expect 0 'is there already' preprocess --input hf://datasets/o/n@$commit_1/data/{a/1.jsonl,a/2.jsonl.gz,b/3.jsonl.zst} --output-prefix each
printf 'data/%s\n' a/1.jsonl a/2.jsonl.gz b/3.jsonl.zst >list
expect 0 '' preprocess --input-list list --input-root hf://datasets/o/n@refs%2Fconvert%2Fjsonl --output-prefix list
is_equal list
expect 0 "o/n' stands for 2 files; 5 others passed over (hidden, or of another name than plain text)" "$data" preprocess --input hf://datasets/o/n --input-format text --output-prefix texts
expect 0 'entries learned from 3 documents' "$data" train-vocab --input hf://datasets/o/small --vocab-size 270 --output small-gpt2

# --- each file is resolved once; its storage is asked without the hub, and again when the address expires
: >hub.requests
expect 0 '' preprocess --input hf://datasets/o/n@main/data --output-prefix once
is_equal once
[ "$(grep -c '^hub 302 ' hub.requests)" = 3 ] || fail "$(grep -c '^hub 302 ' hub.requests) resolves of 3 files"
echo 1 >uses
expect 0 '' preprocess --input hf://datasets/o/n@main/data --output-prefix expired
is_equal expired
grep -q '^storage 403 ' hub.requests || fail "no address has expired"
echo 0 >uses
expect 7 'the storage of the hub answered 403' preprocess --input hf://datasets/o/n@main/data --output-prefix never
rm uses
echo 2 >busy
expect 0 '' preprocess --input hf://datasets/o/n/data --output-prefix busy
is_equal busy
[ "$(grep -c '^hub 429 ' hub.requests)" = 2 ] || fail "429 was not waited for"

# --- small files lie in the hub itself
expect 0 '' preprocess --input hf://datasets/o/small/small.ndjson --output-prefix small
expect 0 'documents: 3 ' "$data" report small_text_document

# --- what goes wrong, and what helps
expect 2 'hf://datasets/OWNER/NAME' preprocess --input hf://o/n/data --output-prefix none
expect 2 'hf://datasets/OWNER/NAME' preprocess --input hf://datasets/o --output-prefix none
expect 7 "'o/gated' is gated: open $HF_ENDPOINT/datasets/o/gated, accept its conditions, and give a token" preprocess --input hf://datasets/o/gated/data --output-prefix none
expect 7 "'o/private' does not exist on the hub, or is private: give a token" preprocess --input hf://datasets/o/private/data --output-prefix none
expect 7 "'o/absent' does not exist on the hub, or is private" preprocess --input hf://datasets/o/absent/data --output-prefix none
expect 7 "'o/n' has no revision 'v9'" preprocess --input hf://datasets/o/n@v9/data --output-prefix none
expect 7 'has no such file or folder at this commit' preprocess --input hf://datasets/o/n/data/4.jsonl --output-prefix none
expect 7 "has no 'other/'" preprocess --input hf://datasets/o/n/other/4.jsonl --output-prefix none
expect 4 'no file fits the pattern' preprocess --input 'hf://datasets/o/n/data/*.bin' --output-prefix none
expect 4 'hf://datasets/o/n@refs/convert/parquet/**/*.parquet' preprocess --input hf://datasets/o/n/notes --output-prefix none
touch endless odd
expect 7 'the answer names no commit' preprocess --input hf://datasets/o/n/data --output-prefix none
rm odd
expect 7 "list of files has no end" preprocess --input hf://datasets/o/n/data --output-prefix none
rm endless
export HF_TOKEN=stranger
expect 7 'the one that was sent has no access' preprocess --input hf://datasets/o/gated/data --output-prefix none
expect 7 'may not read it' preprocess --input hf://datasets/o/absent/data --output-prefix none
HF_TOKEN=unknown expect 7 'does not know the token' preprocess --input hf://datasets/o/n/data --output-prefix none

# --- the token of an account that may: from the environment or the file; never to the storage
HF_TOKEN=$CANARY expect 0 '' preprocess --input hf://datasets/o/gated/data --output-prefix gated
is_equal gated
unset HF_TOKEN
mkdir -p "$HF_HOME" && echo "$CANARY" >"$HF_HOME/token"
expect 0 '' preprocess --input hf://datasets/o/private/data --output-prefix private
is_equal private
rm "$HF_HOME/token"
grep -q '^hub 302 .*Bearer_canary' hub.requests || fail "the token was not sent"
if grep '^storage' hub.requests | grep Bearer; then fail "the storage got the token"; fi
if grep -rl 'canary\|secret-[0-9]' . | grep -v hub.requests; then fail "a secret is in these files"; fi

# --- killed while it reads, and the branch moves meanwhile: the work of the old commit goes on where that is named
touch hold
"$data" preprocess --json-keys text --append-eod --workers 2 --input hf://datasets/o/n@main/data --output-prefix held >log_of_held 2>&1 &
run=$!
is_noted() { [ "$(wc -l 2>/dev/null <held.work/journal || echo 0)" -ge 2 ]; }
wait_until is_noted
kill -KILL $run
wait $run 2>/dev/null && fail "not killed"
rm hold
move_branch
expect 7 "'o/n' has moved on the hub: it was at commit $commit_1, and is at $commit_2 now; hf://datasets/o/n@$commit_1/..." preprocess --input hf://datasets/o/n@main/data --output-prefix held
[ -d held.work ] || fail "the work was dropped"
expect 0 'going on with the work' preprocess --input hf://datasets/o/n@$commit_1/data --output-prefix held
is_equal held
expect 2 'has moved on the hub' preprocess --input hf://datasets/o/n/data --output-prefix held

# --- a download of many ranges, while its address expires
echo 5 >uses
WEFT_PART_BYTES=100000 WEFT_RETRY_DELAY_MS=10 expect 0 'as expected' "$data" download hf://datasets/o/n@$commit_1/data/a/1.jsonl --output ranges
cmp $one/data/a/1.jsonl ranges || fail "another file"
[ "$(grep -c '^storage 206 ' hub.requests)" -ge 34 ] || fail "not read in ranges"
rm uses

# --- download: a folder, with the checksums of the list; a pattern; a file; bytes that are not those of the list
get() { "$data" download "$@"; }
mkdir folder
expect 0 "stands for 7 files" get hf://datasets/o/n@$commit_1 --output-folder folder
diff -r $one folder || fail "another folder"
[ "$(grep -c 'as expected' out.log)" = 3 ] || fail "not all large files were checked"
mkdir some
expect 0 '' get 'hf://datasets/o/n@'$commit_1'/data/*/*.gz' --output-folder some
cmp $one/data/a/2.jsonl.gz some/a/2.jsonl.gz || fail "another file"
expect 0 'as expected' get hf://datasets/o/n@$commit_1/data/a/1.jsonl --output single
expect 0 'is there already, SHA-256 as expected' get hf://datasets/o/n@$commit_1/data/a/1.jsonl --output single
cmp $one/data/a/1.jsonl single || fail "another file"
expect 2 'are for one file' get hf://datasets/o/n --output single
touch lie
expect 6 'expected' get hf://datasets/o/n@$commit_1/data/a/1.jsonl --output lied
[ ! -e lied ] || fail "other bytes have the name"
echo "all passed"
