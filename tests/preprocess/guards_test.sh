#!/usr/bin/env bash
# What a user would rather be told before the work than after it: outputs that are inputs, names that cannot be given.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
make_vocabulary
make_corpus 20 >corpus.jsonl

# refused CODE TEXT FILE COMMAND...: the command ends so, FILE stays as the corpus, nothing else appears.
refused() {
  local code=$1 text=$2 file=$3 before
  shift 3
  before=$(ls)
  expect "$code" "$text" "$@"
  cmp -s corpus.jsonl "$file" || fail "$file is no longer what it was after: $*"
  [ "$(ls)" = "$before" ] || fail "$* left $(ls)"
}
touch out.log

# An input with the name of an output, straight, by a symbolic link, by a hard link; also the lock's and the report's name.
for suffix in _text_document.bin _text_document.idx _text_document.manifest.json .lock; do
  cp corpus.jsonl "x$suffix"
  refused 2 "'x$suffix' is the input" "x$suffix" "$data" preprocess --input corpus.jsonl "x$suffix" --output-prefix x --overwrite
  rm "x$suffix"
done
cp corpus.jsonl x_text_document.bin
ln -s x_text_document.bin link.jsonl
refused 2 "is the input 'link.jsonl'" x_text_document.bin "$data" preprocess --input link.jsonl --output-prefix "$PWD/x" --overwrite
rm link.jsonl
ln x_text_document.bin link.jsonl
refused 2 "is the input 'link.jsonl'" x_text_document.bin "$data" preprocess --input link.jsonl --output-prefix ./x --overwrite
rm link.jsonl x_text_document.bin
cp corpus.jsonl r.json
refused 2 "'r.json' is the input" r.json "$data" preprocess --input r.json --output-prefix x --report r.json
cp corpus.jsonl r.n.json
refused 2 "'r.n.json' is the input" r.n.json "$data" preprocess --input r.n.json --output-prefix x --json-keys text n --report r.json

# Names that nothing can have, or that something has.
refused 2 'line ends' corpus.jsonl "$data" preprocess --input corpus.jsonl --output-prefix $'x\ny'
refused 2 'line ends' corpus.jsonl "$data" preprocess --input corpus.jsonl --output-prefix x --json-keys $'a\nb'
refused 4 'choose a shorter name' corpus.jsonl "$data" preprocess --input corpus.jsonl --output-prefix "$(printf 'x%.0s' {1..235})"
mkdir x_text_document.bin
refused 4 'Is a directory' corpus.jsonl "$data" preprocess --input corpus.jsonl --output-prefix x
rmdir x_text_document.bin
refused 4 "folder 'absent' for the output does not exist" corpus.jsonl \
  "$data" preprocess --input corpus.jsonl --output-prefix x --report absent/r.html
refused 2 'is a name of the dataset itself' corpus.jsonl \
  "$data" preprocess --input corpus.jsonl --output-prefix x --report ./x_text_document.manifest.json
expect 0 'wrote x_text_document' "$data" preprocess --input corpus.jsonl --output-prefix x
expect 2 'is a name of the dataset itself' "$data" report x_text_document --output x_text_document.manifest.json
expect 0 'sound' "$data" verify x_text_document

# Numbers of parts that cannot be meant.
for shard in 3/3 1 -1/3 ' 1/3' 1/3x 0/99999999999999999999 1/9223372036854775807 /3 1/; do
  expect 2 'is not I/N' "$data" preprocess --input corpus.jsonl --output-prefix y --shard "$shard"
done
expect 0 'done: 0 documents' "$data" preprocess --input corpus.jsonl --output-prefix y --shard 0/1000000

# A commit that somebody has changed gives no names elsewhere.
mkdir z.work
printf 'weft-commit 1\nrename 0.idx ../elsewhere\nend\n' >z.work/commit
cp corpus.jsonl z.work/0.idx
expect 3 'names a file of another folder' "$data" preprocess --input corpus.jsonl --output-prefix z
[ ! -e ../elsewhere ] && [ -e z.work/0.idx ] || fail "an edited commit was carried out"
