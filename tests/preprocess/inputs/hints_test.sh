#!/usr/bin/env bash
# Files of other kinds are refused with a command that makes JSON lines of them; the commands do what is said.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
make_vocabulary
# converts FILE TEXT...: the command in the hint gives lines with these texts
converts() {
  local file=$1 got=0
  shift
  "$data" preprocess --input "$file" --output-prefix x --overwrite >out.log 2>&1 </dev/null || got=$?
  [ $got = 3 ] || { cat out.log; fail "exit code $got: $file"; }
  local command
  command=$(grep -oE '(zcat|jq|sqlite3) .*FILE.*' out.log | head -1 | sed -E "s/\)$//; s/ makes .*//; s/FILE/$file/") || true
  [ -n "$command" ] || { cat out.log; fail "no command for $file"; }
  bash -c "$command" >lines.jsonl || { echo "$command"; fail "the command for $file does not work"; }
  printf '%s\n' "$@" >expected
  jq -r '.text | tojson' lines.jsonl >got
  diff expected got || { echo "$command"; fail "$file: other texts"; }
  expect 0 "wrote x_text_document.bin and .idx: $# documents" "$data" preprocess --input lines.jsonl --output-prefix x --overwrite
}
need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }
need jq
need sqlite3

printf '[{"text":"a\\n\\u00e9"},\n {"text":"b"}]\n' >array.json
converts array.json '"a\né"' '"b"'
printf '{"messages":[{"role":"user","content":"Hi?"},{"role":"assistant","content":"Yes."}]}\n' >chat.jsonl
converts chat.jsonl '"Hi?\n\nYes."'
printf '{"id":1,"conversations":[{"from":"human","value":"Hi?"},{"from":"gpt","value":"Yes."}]}\n' >share.jsonl
converts share.jsonl '"Hi?\n\nYes."'
printf 'id,text,n\n1,"a ""q"", b\nsecond line é",3\n2,plain,4\n' >table.csv
converts table.csv '"a \"q\", b\nsecond line é"' '"plain"'
printf 'id\ttext\n1\ta, "b" c\n2\tplain\n' >table.tsv
converts table.tsv '"a, \"b\" c"' '"plain"'
{
  printf 'WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 5\r\n\r\ninfo!\r\n\r\n'
  printf 'WARC/1.0\r\nWARC-Type: conversion\r\nX: é\r\n\r\ntext é one\nline two\r\n\r\npara\r\n\r\n'
  printf 'WARC/1.0\r\nWARC-Type: conversion\r\n\r\nsecond\r\n\r\n'
} | gzip >x.wet.gz
converts x.wet.gz '"text é one\nline two\r\n\r\npara"' '"second"'
printf 'Hello,\n' >letter.txt
expect 3 '--input-format text makes one document of each text file' "$data" preprocess --input letter.txt --output-prefix x --overwrite
expect 0 'wrote x_text_document.bin and .idx: 1 documents' "$data" preprocess --input letter.txt --input-format text --output-prefix x --overwrite
echo "all passed"
