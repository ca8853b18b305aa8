#!/usr/bin/env bash
# Names that are no files: pipes, standard input by other names, words behind "--"; and more files than may be open.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
make_vocabulary
make_corpus 20 >corpus.jsonl
run=("$data" preprocess --output-prefix d)

# --- standard input by two of its names, whatever it is
for name in /dev/stdin /dev/fd/0 /proc/self/fd/0; do
  for input in "- $name" "$name -" "$name $name"; do
    # shellcheck disable=SC2086
    expect 2 'standard input' "${run[@]}" --input $input
    # shellcheck disable=SC2086
    code=0 && "${run[@]}" --input $input <corpus.jsonl >out.log 2>&1 || code=$?
    [ $code = 2 ] || fail "--input $input read a file twice: exit code $code"
  done
  "${run[@]}" --input $name --overwrite <corpus.jsonl >out.log 2>&1 || fail "--input $name"
done
expect 0 'sound; 20 documents' "$data" verify d_text_document

# --- a pipe that nobody writes to, where a file is needed: no waiting, not even for a signal
mkfifo pipe
no_waiting() { expect 4 "$1" timeout --signal=KILL 20 "${@:2}"; }
cp gpt2/merges.txt .
no_waiting 'from a pipe' "${run[@]}" --input corpus.jsonl --vocab-file pipe --merge-file merges.txt
no_waiting 'from a pipe' "${run[@]}" --input corpus.jsonl --vocab-file gpt2/vocab.json --merge-file pipe
mv d_text_document.manifest.json kept
mv pipe d_text_document.manifest.json
no_waiting "manifest.json', which is no regular file" "$data" info d_text_document
no_waiting "manifest.json', which is no regular file" "$data" verify d_text_document
mv d_text_document.manifest.json pipe
mv kept d_text_document.manifest.json
mv d_text_document.idx kept
mv pipe d_text_document.idx
no_waiting "idx', which is no regular file" "$data" info d_text_document
mv d_text_document.idx pipe
mv kept d_text_document.idx
mkdir new.work
touch new.work/weft-data.work
for name in journal commit; do
  mv pipe new.work/$name
  no_waiting "$name', which is no regular file" "$data" preprocess --input corpus.jsonl --output-prefix new
  mv new.work/$name pipe
done
rm -r new.work

# --- "--" ends the options
expect 0 'sound' "$data" verify --threads 2 -- d_text_document
for suffix in bin idx; do cp d_text_document.$suffix ./--odd.$suffix; done
expect 0 'sound' "$data" verify -- --odd
expect 2 "'more': unexpected argument" "$data" verify -- d_text_document more

# --- more open files than allowed: the message says how many; what may be raised is raised
keys=$(seq 1 300)
# shellcheck disable=SC2086
many=("$data" preprocess --input corpus.jsonl --output-prefix many --json-keys text $keys --on-bad-line skip --workers 1)
code=0 && (ulimit -n 1024 && "${many[@]}") >out.log 2>&1 || code=$?
[ $code = 2 ] && grep -q '301 keys .* 1577 open files .* 1024 .*ulimit -n 1577' out.log || { cat out.log; fail "300 keys: exit $code"; }
if [ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 1577 ]; then
  code=0 && (ulimit -Sn 256 && "${many[@]}") >out.log 2>&1 || code=$?
  [ $code = 3 ] && grep -q 'no line of the input is a document' out.log || { cat out.log; fail "300 keys with a soft limit: exit $code"; }
fi
echo "all passed"
