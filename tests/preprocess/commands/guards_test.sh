#!/usr/bin/env bash
# Users are told before the work, not after it, about outputs that are inputs, names that cannot be given.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
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
touch z.work/weft-data.work
printf 'weft-commit 3 77\nrename 0.idx ../elsewhere\n' >z.work/commit
cp corpus.jsonl z.work/0.idx
expect 3 'not a commit file of this version' "$data" preprocess --input corpus.jsonl --output-prefix z
[ ! -e ../elsewhere ] && [ -e z.work/0.idx ] || fail "an edited commit was carried out"
rm -r z.work

# --- files of other people under names of ours are neither overwritten nor removed
foreign() { # FILE COMMAND...
  local file=$1
  shift
  echo precious >"$file"
  expect 2 "$file' " "$@"
  [ "$(cat "$file")" = precious ] || fail "$file was overwritten by: $*"
  rm "$file"
}
foreign Cargo.lock "$data" preprocess --input corpus.jsonl --output-prefix Cargo
for suffix in .lock .merge; do
  foreign "d$suffix" "$data" merge --output-prefix d x_text_document x_text_document
done
foreign x_text_document.lock "$data" repair x_text_document
for suffix in .lock .part .part.json; do
  foreign "file$suffix" "$data" download https://name.invalid/file --attempts 1
done
ls file* d.* Cargo* 2>/dev/null && fail "something was left"
# A report replaces reports only.
for report in made.html made.json; do expect 0 "wrote $report" "$data" report x_text_document --output $report; done
foreign thesis.html "$data" report x_text_document --output thesis.html
grep -q 'move it away, or give another name, or --overwrite' out.log || fail "--overwrite is not named"
foreign thesis.json "$data" preprocess --input corpus.jsonl --output-prefix x --report thesis.json
# Its --overwrite would make the dataset anew.
grep -q 'move it away, or give another name$' out.log || fail "the advice is not to move the file away"
# Pages that speak of reports are none.
for text in 'My weft-data report' '<title>x: data report</title>' '{"program": "weft-data report"}' \
  $'<!DOCTYPE html>\n<html lang="en">\n<title>x: data report</title>\n<style>'; do
  echo "$text" >mine.html
  expect 2 "mine.html' is there, and is no report" "$data" report x_text_document --output mine.html
  [ "$(cat mine.html)" = "$text" ] || fail "mine.html was overwritten"
done
rm mine.html
echo precious >made.html
expect 0 'wrote made.html' "$data" report x_text_document --output made.html --overwrite
for report in made.html made.json; do
  echo precious >$report.part
  for time in first second; do expect 0 "wrote $report" "$data" report x_text_document --output $report; done
  [ "$(cat $report.part)" = precious ] || fail "$report.part was overwritten"
done
# Other files of people beside those that are written.
mkdir vocabulary
for name in vocab.json merges.txt; do echo precious >vocabulary/$name.part; done
expect 0 'entries learned' "$data" train-vocab --input corpus.jsonl --vocab-size 260 --output vocabulary
[ "$(cat vocabulary/*.part)" = $'precious\nprecious' ] || fail "train-vocab overwrote a .part file"
rm -r made.html* made.json* vocabulary
# The marker tells which remains of a killed merge are ours.
mkdir d.merge
echo half | tee d.merge/weft-data.merge >d.merge/merged.bin
expect 0 'wrote d.bin' "$data" merge --output-prefix d x_text_document x_text_document
[ "$(echo d.*)" = 'd.bin d.checksums d.idx d.manifest.json d.sources' ] || fail "merge left $(echo d.*)"

# --- a damaged finished dataset is not "there already"
again=("$data" preprocess --input corpus.jsonl --output-prefix x)
expect 0 'is there already' "${again[@]}"
cp -a . ../sound
for file in .bin .idx .sources .checksums; do
  truncate -s 0 "x_text_document$file"
  expect 6 "x_text_document$file" "${again[@]}"
  cp -p "../sound/x_text_document$file" .
done
truncate -s 10 x_text_document.idx
expect 6 'x_text_document.idx has 10 bytes instead of' "${again[@]}"
cp -p ../sound/x_text_document.idx .
for file in .sources .checksums; do
  mv "x_text_document$file" kept
  expect 6 "x_text_document$file is missing" "${again[@]}"
  mv kept "x_text_document$file"
done
expect 0 'is there already' "${again[@]}"
truncate -s 5 d.bin
expect 6 'd.bin has 5 bytes' "$data" merge --output-prefix d x_text_document x_text_document
expect 0 'wrote d.bin' "$data" merge --output-prefix d x_text_document x_text_document --overwrite

# --- half a dataset, which repair could save, is not replaced unasked
mv x_text_document.idx kept
expect 2 "x_text_document.bin' is there without its .idx" "${again[@]}"
mv kept x_text_document.idx
mv d.idx kept
expect 2 "d.bin' is there without its .idx" "$data" merge --output-prefix d x_text_document
mv kept d.idx
rm -r ../sound

# --- a first line that is bad: nothing is left
echo '{"text": 1' >bad.jsonl
expect 3 'nothing was written' "$data" preprocess --input bad.jsonl --output-prefix nothing
ls nothing* 2>/dev/null && fail "something was left"

# --- out of memory or of threads: exit 9 and no abort
ok=0 told=0
limits="50000 120000 140000 170000 200000 300000 600000 4000000"
# Sanitizers take terabytes of addresses for themselves.
if ldd "$data" | grep -qE 'lib[at]san'; then limits= ok=1 told=2; fi
for limit in $limits; do
  code=0
  (ulimit -v $limit; "$data" preprocess --input corpus.jsonl --output-prefix limit$limit --workers 6) >out.log 2>&1 || code=$?
  case $code in
    0) ok=$((ok + 1)) ;;
    9) told=$((told + 1)) ;;
    127) ;; # the loader had not enough
    *) cat out.log; fail "ulimit -v $limit gave exit code $code" ;;
  esac
done
[ $ok -ge 1 ] && [ $told -ge 2 ] || fail "$ok runs had enough memory, $told had not"

# --- a manifest of many keys takes no minutes
python3 - <<'END'
import json
manifest = json.load(open("x_text_document.manifest.json"))
manifest["options"] = {f"key{i}": "" for i in range(300000)}
json.dump(manifest, open("x_text_document.manifest.json", "w"))
END
expect 3 'too many members' timeout 20 "$data" info x_text_document
echo "all passed"
