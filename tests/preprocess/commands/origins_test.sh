#!/usr/bin/env bash
# Domains and sources from the lines of a corpus to the report, beside a count of them by other means.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
make_vocabulary
# Lines of 40 sites, the first ones with most; some name a source, some nothing, some are bad.
awk 'BEGIN {
  for (i = 0; i < 2000; ++i) {
    site = int((i * 7919 % 2000) ^ 2 / 100000)
    text = "\"text\": \"line " i " of the corpus: the quick brown fox\""
    if (i % 50 == 7) print "{\"meta\": {\"url\": \"https://bad.example/\"}, \"text\": " i "}"
    else if (i % 10 == 3) print "{" text ", \"meta\": {\"pile_set_name\": \"Set " i % 3 "\", \"url\": null}}"
    else if (i % 10 == 4) print "{" text ", \"id\": \"https://nobody.example/\"}"
    else print "{\"meta\": {\"url\": \"https://user@www.Site" site ".example:8080/p?q=" i "\"}, " text ", \"source\": \"web\"}"
  }
}' >corpus.jsonl
expect 0 'wrote r.json' "$data" preprocess --on-bad-line skip --input corpus.jsonl --output-prefix d --report r.json --workers 3
python3 - r.json corpus.jsonl <<'PYTHON' || fail "the report's domains and sources"
import collections, json, sys, urllib.parse
report = json.load(open(sys.argv[1]))
origins, counts, without = report["origins"], collections.Counter(), 0
for line in map(json.loads, open(sys.argv[2])):
    if not isinstance(line["text"], str):
        continue
    meta = line.get("meta", {})
    host = urllib.parse.urlsplit(meta.get("url") or "").hostname
    name = host.removeprefix("www.") if host else meta.get("pile_set_name")
    without += name is None
    counts[name] += name is not None
del counts[None]
assert origins["different"] == len(counts) == 43, (origins, counts)
assert origins["documents_without"] == without > 100
assert len(origins["largest"]) == 30
assert [row["tokens"] for row in origins["largest"]] == sorted((row["tokens"] for row in origins["largest"]), reverse=True)
for row in origins["largest"]:
    assert row["documents"] == counts[row["origin"]], row
    assert row["share_of_tokens"] == row["tokens"] / report["tokens"]
assert report["documents"] == sum(counts.values()) + without
PYTHON
expect 0 'from site0.example: ' "$data" report d_text_document
grep -qF 'domains and sources: 43 different ones, 200 documents name none' out.log || { cat out.log; fail "the summary"; }
expect 0 'sound' "$data" verify d_text_document
expect 0 'from: site' "$data" inspect document d_text_document 0
expect 0 '"origin":"site' "$data" inspect document d_text_document 0 --format jsonl
expect 0 ' (from ' "$data" inspect samples --data-path d_text_document --split 100,0,0 --seq-length 16 --seed 7 --train-samples 8 --sample-range 0 8

# --- kept only where they are asked for; a dataset without them is good enough for a report
size_of() { stat -c %s "$1"; }
same=(--on-bad-line skip --input corpus.jsonl)
expect 0 '' "$data" preprocess "${same[@]}" --output-prefix plain
cmp plain_text_document.bin d_text_document.bin || fail "tokens depend on --origin-key"
[ $(($(size_of d_text_document.sources) - $(size_of plain_text_document.sources))) = $((32 * 1960)) ] || fail "32 bytes a document"
grep -qF '"origin-key": "none"' plain_text_document.manifest.json && grep -qF '"origin-key": "auto"' d_text_document.manifest.json ||
  fail "the manifest does not say which key"
expect 0 'is there already' "$data" preprocess "${same[@]}" --output-prefix plain --report plain.json
grep -qF -- '--origin-key auto keeps them' plain.json || fail "the report does not say how domains are kept"
expect 2 'is a finished dataset' "$data" preprocess "${same[@]}" --output-prefix plain --origin-key auto
expect 0 '' "$data" preprocess "${same[@]}" --output-prefix none --origin-key none --report none.json
cmp none_text_document.sources plain_text_document.sources || fail "--origin-key none with a report"
expect 0 '' "$data" preprocess "${same[@]}" --output-prefix key --origin-key meta.pile_set_name --report key.json
python3 -c 'import json; assert json.load(open("key.json"))["origins"]["different"] == 3' || fail "a key of one's own"
expect 2 'has an empty key in it' "$data" preprocess "${same[@]}" --output-prefix x --origin-key meta..url

# --- in parts, and of parts without
for i in 0 1 2; do
  expect 0 '' "$data" preprocess "${same[@]}" --output-prefix part$i --shard $i/3 --origin-key auto
done
expect 0 '' "$data" merge part{0,1,2}_text_document --output-prefix parts
cmp parts.sources d_text_document.sources || fail "parts in their order are not the whole"
expect 0 '' "$data" merge plain_text_document d_text_document --output-prefix both
expect 0 'sound' "$data" verify both
expect 0 'domains and sources: 43 different ones, 2160 documents name none' "$data" report both

# --- text from the web stays text
printf '%s\n' '{"text": "a", "url": "https://<script>alert(1)<\/script>.example"}' '{"text": "b", "source": "x\u001b[31m\"><img src=x>"}' \
  '{"text": "c", "url": "https://\u202egro.elpmaxe"}' >hostile.jsonl
expect 0 'wrote hostile.html' "$data" preprocess --input hostile.jsonl --output-prefix hostile --report hostile.html
grep -qF '&lt;script&gt;alert(1)&lt;' hostile.html || fail "the host is not in the report"
! grep -qE '<script|<img' hostile.html || fail "a host became part of the page"
LC_ALL=C grep -qP '\x1b|\xe2\x80\xae' hostile.html && fail "control characters in the page"
expect 0 'from x\x1B[31m">' "$data" report hostile_text_document
expect 0 'from: \u{202E}gro.elpmaxe' "$data" inspect document hostile_text_document 2
echo "all passed"
