#!/usr/bin/env bash
# --input-format text: the datasets of JSON lines that a few lines of Python make of the same files, from wherever they come.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
. "$WEFT_SOURCE_DIR/tests/preprocess/web/web.sh"
forget_launchers
make_vocabulary
run=("$data" preprocess --append-eod --overwrite)
text=("${run[@]}" --input-format text)
python() { python3 "$WEFT_SOURCE_DIR/tests/preprocess/inputs/texts_to_jsonl.py" "$@"; }
expected() { # SPLIT FILE...: the dataset `expected`
  python "$@" >expected.jsonl 2>bad
  expect 0 wrote "${run[@]}" --input expected.jsonl --output-prefix expected
}
same() { for suffix in bin idx; do cmp expected_text_document.$suffix "$1_text_document.$suffix" || fail "$1: .$suffix"; done; }

echo "random bytes, however they are cut"
python3 - <<'MAKE'
import random
random.seed(20261128)
letters = [b"a", b"b ", b" ", b"\n", b"\n\n", b"\r", b"\r\n", b"\r\r\n", "é".encode(), "日本".encode(), b"\xef\xbb\xbf", b"\x00", b"\x85", b"\x0c"]
for i in range(40):
    weights = [random.random() ** 3 for _ in letters]
    weights[-2] = 0.02 * random.random() if i % 4 == 0 else 0  # invalid UTF-8
    with open(f"random{i:02}.txt", "wb") as out:
        out.write(b"".join(random.choices(letters, weights, k=random.choice([0, 1, 2, 5, 50, 500, 20000]))))
MAKE
for split in file line blank-line; do
  expected $split random*.txt
  for workers in 1 3; do
    expect 0 wrote "${text[@]}" --split-at $split --on-bad-line skip --input random*.txt --output-prefix random --workers $workers
    same random
    num_bad=$(jq '.input_counts.bad_lines' random_text_document.manifest.json)
    [ "$num_bad" = "$(wc -l <bad)" ] || fail "$split: $num_bad bad texts"
  done
  [ "$(wc -l <bad)" -gt 0 ] || fail "no invalid UTF-8"
done

echo "folders, in which texts have names of their own; compressed, from standard input and from a server"
mkdir -p book/chapters
printf '\xEF\xBB\xBFOne.\r\n\r\nTwo,\r\nthree.\r\n\r\n' >book/1.txt
printf '# Title\n\nText.\n' >book/chapters/b.MD
printf 'Title\n=====' | gzip >book/chapters/c.rst.gz
printf '\n\n' >book/d.markdown
: >book/empty.text
printf '{"text": "no"}\n' >book/no.jsonl
python3 - <<'PY' >three.jsonl
import json
for text in "One.\r\n\r\nTwo,\r\nthree.\r\n\r\n", "# Title\n\nText.\n", "Title\n=====", "\n\n": print(json.dumps({"text": text}))
PY
expect 0 '4 documents' "${run[@]}" --input three.jsonl --output-prefix expected
expect 0 "'book' stands for 5 files; 1 other passed over (hidden, or of another name than plain text): 'book/no.jsonl'" \
  "${text[@]}" --input book --output-prefix book
same book
expect 0 '' "${text[@]}" --input 'book/**' --output-prefix book
same book
jq -e '.run_options["--input-format text --split-at"] == "file" and .options["input-format"] == "text"' book_text_document.manifest.json >/dev/null ||
  fail "the manifest does not say it"
zcat book/chapters/c.rst.gz | cat book/1.txt - >all.txt
for split in file line blank-line; do
  expected $split all.txt
  gzip -k -f all.txt
  for name in all.txt all.txt.gz; do
    expect 0 wrote "${text[@]}" --split-at $split --input $name --output-prefix all
    same all
  done
  "${text[@]}" --split-at $split --input - --output-prefix all <all.txt >out.log 2>&1 || fail "standard input"
  same all
  CONTENT=all.txt start_server server$split
  expect 0 wrote "${text[@]}" --split-at $split --allow-http --input "http://127.0.0.1:$(cat server$split.port)/sometimes" --output-prefix all
  same all
done


echo "inspect says where a text begins; a bad one is told by its number, and what it may be"
expect 0 'byte: 11 (of the line, decompressed)' "$data" inspect document all_text_document 1
printf 'One.\n\ncaf\xE9\n' >latin1.txt
expect 3 'latin1.txt: text 2 (byte 6): invalid UTF-8: byte 0xE9, at byte 3 of the text; texts are UTF-8: convert what is written otherwise (iconv' \
  "${text[@]}" --split-at blank-line --input latin1.txt --output-prefix x
expect 3 'latin1.txt:3: (byte 6) invalid UTF-8: byte 0xE9, at byte 3 of the line' "${text[@]}" --split-at line --input latin1.txt --output-prefix x
iconv -f UTF-8 -t UTF-16 book/1.txt >utf16.txt
expect 3 'utf16.txt: text 1 (byte 0): invalid UTF-8: byte 0xFF; this is UTF-16: convert it first' "${text[@]}" --input utf16.txt --output-prefix x
expect 0 '2 documents' "${text[@]}" --split-at blank-line --on-bad-line skip --input latin1.txt all.txt --limit 2 --output-prefix x

echo "a text of the longest length goes in, a longer one is a bad line"
printf 'abcd\r\n\r\nefghi\n\r\njk\n' >long.txt
printf '{"text": "abcd"}\n{"text": "jk"}\n' >short.jsonl
expect 0 '' "${run[@]}" --input short.jsonl --output-prefix expected
expect 0 '1 bad line (1 line too long)' "${text[@]}" --split-at blank-line --max-line-bytes 4 --on-bad-line skip --input long.txt --output-prefix long
same long
expect 3 'long.txt: text 1 (byte 0): line too long: more than 18 bytes (--max-line-bytes)' "${text[@]}" --max-line-bytes 18 --input long.txt --output-prefix long
expect 0 '1 documents' "${text[@]}" --max-line-bytes 19 --input long.txt --output-prefix long

echo "what a text does not have is refused by name"
for option in '--json-keys text' "--where a=='b'" '--origin-key url'; do
  expect 2 "${option%% *} is for JSON lines: a text has no keys beside it" "${text[@]}" --input all.txt --output-prefix x $option
done
expect 2 '--split-at needs --input-format text' "${run[@]}" --split-at line --input all.txt --output-prefix x
expect 4 'no file in it has a name of plain text: .txt, .text, .md, .markdown or .rst, and perhaps .gz' "${text[@]}" --input home --output-prefix x
expect 4 'texts are read by --input-format text' "${run[@]}" --input home --output-prefix x
: >nothing.txt
expect 0 'note: there is no text in the input' "${text[@]}" --input nothing.txt --output-prefix x

echo "a vocabulary is learned from texts as from the same JSON lines, and a report is made of them"
python blank-line all.txt >expected.jsonl
expect 0 '' "$data" train-vocab --input expected.jsonl --vocab-size 280 --output v1
expect 0 'learned from 3 documents' "$data" train-vocab --input-format text --split-at blank-line --input all.txt --vocab-size 280 --output v2
cmp v1/merges.txt v2/merges.txt || fail "another vocabulary"
expect 2 '--json-key is for JSON lines' "$data" train-vocab --input-format text --json-key text --input all.txt --vocab-size 280 --output v3
expect 0 'wrote report.json' "${text[@]}" --input book --output-prefix x --report report.json

echo "a killed run goes on, with the same way of splitting; parts merged are the whole"
expected blank-line random*.txt
begin=("$data" preprocess --append-eod --on-bad-line skip --input-format text --input random*.txt --output-prefix killed --workers 1)
code=0
WEFT_CRASH_AT=journal_synced:1 "${begin[@]}" --split-at blank-line >out.log 2>&1 || code=$?
[ $code = 137 ] || { cat out.log; fail "exit code $code"; }
expect 2 '--input-format text --split-at: was "blank-line", is "line"' "${begin[@]}" --split-at line
expect 2 '--input-format text --split-at: was "blank-line", is "not given (JSON lines)"' "$data" preprocess --append-eod --on-bad-line skip \
  --input random*.txt --output-prefix killed
expect 0 'going on with the work' "${begin[@]}" --split-at blank-line
same killed
for i in 0 1 2; do
  expect 0 '' "${text[@]}" --split-at blank-line --on-bad-line skip --input random*.txt --shard $i/3 --output-prefix part$i
done
expect 0 '' "$data" merge part0_text_document part1_text_document part2_text_document --output-prefix merged_text_document
same merged

echo "ranks read the same texts"
. "$WEFT_SOURCE_DIR/tests/preprocess/mpi.sh" || exit
expect 0 '2 ranks make one output together' mpirun -n 2 "${text[@]}" --split-at blank-line --on-bad-line skip --input random*.txt --output-prefix ranks
same ranks
echo "all passed"
