#!/usr/bin/env bash
# The commands that read or write the files beside a dataset: merge, verify, repair, inspect, report.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
make_vocabulary
make_corpus 600 >corpus.jsonl
head -n 200 corpus.jsonl >a.jsonl && tail -n +201 corpus.jsonl >b.jsonl
for part in corpus a b; do
  expect 0 '' "$data" preprocess --append-eod --input $part.jsonl --output-prefix $part
done

# --- merge: the dataset of all documents, in the order of the command line
expect 0 'wrote whole.bin and .idx: 2 parts, 600 documents' "$data" merge a_text_document b_text_document --output-prefix whole --threads 2
cmp whole.bin corpus_text_document.bin && cmp whole.idx corpus_text_document.idx || fail "merge is not the dataset of all documents"
[ -z "$(ls -d ./*.merge ./*.lock 2>/dev/null)" ] || fail "merge left $(ls -d ./*.merge ./*.lock)"
expect 0 'line 1 of the corpus' "$data" info whole
expect 0 'a_text_document' cat whole.manifest.json
expect 0 'wrote other.bin' "$data" merge b_text_document.idx a_text_document --output-prefix other
cmp -s other.bin whole.bin && fail "the order of parts does not matter"
expect 0 'is there already: whole.bin and .idx: 2 parts, 600 documents' "$data" merge a_text_document b_text_document --output-prefix whole
cp whole.idx kept
expect 2 'of other parts' "$data" merge b_text_document a_text_document --output-prefix whole
touch -d '1 hour' a_text_document.idx  # the clock of another computer
expect 0 'is there already' "$data" merge a_text_document b_text_document --output-prefix whole
cmp whole.idx kept || fail "a merge that was refused replaced the dataset"
expect 0 'wrote other.bin' "$data" merge a_text_document b_text_document --output-prefix other --overwrite
cmp whole.idx other.idx || fail "merge --overwrite did not replace the dataset"
expect 2 "which merge has not made" "$data" merge a_text_document --output-prefix corpus_text_document
# Shards that are missing are refused; in the order of a shell's `*` they are noted.
for part in 0 1 2; do expect 0 '' "$data" preprocess --append-eod --input a.jsonl b.jsonl a.jsonl --output-prefix "s$part" --shard "$part/3"; done
shards=(s0_text_document s1_text_document s2_text_document)
expect 0 'wrote s.bin' "$data" merge "${shards[@]}" --output-prefix s
! grep -q 'note:' out.log || fail "shards in order: $(cat out.log)"
expect 3 'of which 1/3 is missing' "$data" merge s0_text_document s2_text_document --output-prefix s02
expect 0 'what one run makes: 0/3, 2/3, 1/3' "$data" merge s0_text_document s2_text_document s1_text_document --output-prefix s021
expect 3 'of which 1/3 is missing' "$data" merge s0_text_document a_text_document --output-prefix s0a
expect 0 'wrote sa.bin' "$data" merge a_text_document "${shards[@]}" b_text_document --output-prefix sa
! grep -q 'note:' out.log || fail "shards in order between others: $(cat out.log)"
grep -qF '"bad_lines_by_reason": {}' sa.manifest.json || fail "no bad lines: $(cat sa.manifest.json)"
expect 2 'give the datasets' "$data" merge
expect 2 "'a_text_document' is given twice, as .bin and as .idx" "$data" merge a_text_document.bin a_text_document.idx --output-prefix x
expect 2 'which the output would replace' "$data" merge a_text_document b_text_document --output-prefix b_text_document
expect 4 "no dataset file 'absent.idx'" "$data" merge a_text_document absent --output-prefix x
expect 4 'nowhere' "$data" merge a_text_document b_text_document --output-prefix nowhere/x
[ -z "$(ls x* 2>/dev/null)" ] || fail "a merge that failed left $(ls x*)"
expect 5 'No space left' env WEFT_IO_FAIL_AT=20:28 "$data" merge a_text_document b_text_document --output-prefix x
expect 137 '' env WEFT_IO_FAIL_AT=30:KILL "$data" merge a_text_document b_text_document --output-prefix x
[ ! -e x.idx ] || fail "a killed merge looks complete"
expect 0 'wrote x.bin' "$data" merge a_text_document b_text_document --output-prefix x
cmp x.bin whole.bin && cmp x.idx whole.idx && cmp x.checksums whole.checksums || fail "after a kill the same command gives other files"

# --- duplicates over several datasets: the list, and the dataset without them, which is that of the lines without them
make_corpus 40 | sed '3p; 9p' >d0.jsonl                               # within one
{ sed -n '5p; 40p' d0.jsonl; make_corpus 70 | tail -n +41; echo '{"text": ""}'; echo '{"text": ""}'; } >d1.jsonl
{ echo '{"text": "a"}'; cat d1.jsonl; echo '{"text": "a "}'; sed -n 1p d0.jsonl; } >d2.jsonl
awk '/"text": ""/ || !seen[$0]++' d0.jsonl d1.jsonl d2.jsonl >once.jsonl
eod=(--append-eod --append-eod '')
for i in 0 1 2; do expect 0 '' "$data" preprocess ${eod[i]} --input d$i.jsonl --output-prefix d$i; done
expect 0 '' "$data" preprocess --append-eod --input once.jsonl --output-prefix once
ds=(d0_text_document d1_text_document d2_text_document)
expect 0 'comparing 113 documents of 3 datasets: 1.81 kB of memory' "$data" report --duplicates dup.txt "${ds[@]}" --threads 1
grep -q '^wrote dup.txt: 37 duplicates with .* tokens among 113 documents' out.log || fail "duplicates: $(cat out.log)"
cp dup.txt dup1.txt
expect 0 'wrote dup.txt' "$data" report --duplicates dup.txt "${ds[@]}" --threads 3
cmp dup.txt dup1.txt || fail "the list depends on the number of threads"
grep -q '^duplicate 0 3 0 2$' dup.txt && grep -q '^duplicate 1 0 0 4$' dup.txt && ! grep -q '^duplicate 2 0 ' dup.txt || fail "$(cat dup.txt)"
expect 0 '76 documents' "$data" merge "${ds[@]}" --drop dup.txt --output-prefix dropped
grep -q '(37 duplicates left out)' out.log || fail "merge does not say what it left out"
expect 0 'sound; 76 documents' "$data" verify dropped
expect 0 '76 documents' "$data" merge "${ds[@]}" --drop dup.txt --output-prefix dropped3 --threads 3
for suffix in bin idx sources checksums; do cmp dropped.$suffix dropped3.$suffix || fail "dropped.$suffix depends on threads"; done
python3 - "$data" <<'PYTHON' || fail "the dataset without duplicates"
import json, subprocess, sys
lines = open("once.jsonl", "rb").read().splitlines()
at = {}  # file and byte of the first line of each text; empty documents stay, all of them
wanted = []
for name in ("d0.jsonl", "d1.jsonl", "d2.jsonl"):
    offset = 0
    for line in open(name, "rb"):
        text = json.loads(line)["text"]
        if text == "" or text not in at:
            at[text] = True
            wanted.append((name, offset, text))
        offset += len(line)
assert len(wanted) == len(lines) == 76, (len(wanted), len(lines))
for i, (name, offset, text) in enumerate(wanted):
    if i % 7 and i < 70: continue
    shown = subprocess.run([sys.argv[1], "inspect", "document", "dropped", str(i)], capture_output=True, text=True).stdout
    assert f"file: {name}\n  byte: {offset} " in shown, (i, name, offset, shown)
    assert text.strip() in shown, (i, text, shown)
manifest = json.load(open("dropped.manifest.json"))
assert manifest["dataset"]["documents"] == 76
assert [part.get("dropped_documents", 0) for part in manifest["parts"]] == [2, 2, 33], manifest["parts"]
assert sum(part["documents"] for part in manifest["parts"]) == 76
assert sum(part["tokens"] for part in manifest["parts"]) == manifest["dataset"]["tokens"]
PYTHON
expect 0 'is there already' "$data" merge "${ds[@]}" --drop dup.txt --output-prefix dropped
expect 2 'made with another list of --drop, or without one' "$data" merge "${ds[@]}" --output-prefix dropped
# All end alike: the bytes are those of the lines without duplicates.
expect 0 '' "$data" preprocess --append-eod --overwrite --input d2.jsonl --output-prefix d2
expect 2 'its dataset 3 was' "$data" merge "${ds[@]}" --drop dup.txt --output-prefix never
expect 0 'wrote dup.txt' "$data" report --duplicates dup.txt "${ds[@]}"
expect 0 '76 documents' "$data" merge "${ds[@]}" --drop dup.txt --output-prefix dropped --overwrite
cmp dropped.bin once_text_document.bin && cmp dropped.idx once_text_document.idx || fail "merge --drop is not the dataset without duplicates"
expect 2 'and 2 are merged' "$data" merge d0_text_document d1_text_document --drop dup.txt --output-prefix never
expect 2 'its dataset 1 was' "$data" merge d1_text_document d0_text_document d2_text_document --drop dup.txt --output-prefix never
head -n 5 dup.txt >cut.txt
expect 3 'is cut off or damaged' "$data" merge "${ds[@]}" --drop cut.txt --output-prefix never
expect 3 'is no list of duplicates' "$data" merge "${ds[@]}" --drop d0.jsonl --output-prefix never
expect 2 'and is no list of duplicates' "$data" report --duplicates d0.jsonl "${ds[@]}"
expect 2 'several are for --duplicates' "$data" report "${ds[@]}"
expect 0 '0 duplicates' "$data" report --duplicates dup.txt once_text_document

# --- verify: every bit, where there are checksums
expect 0 'sound; 600 documents' "$data" verify whole --threads 2
grep -q 'every block as its checksum' out.log || fail "verify does not say that it compared checksums"
rm -f a_text_document.checksums
expect 0 'only the structure was checked' "$data" verify a_text_document
flip() { # FILE OFFSET: the lowest bit of that byte
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
flip whole.bin 1000
expect 6 'whole.bin: block 0 (bytes 0 to ' "$data" verify whole
grep -q 'documents 0 to 599 lie there' out.log || fail "verify does not name the documents"
flip whole.bin 1000 && flip whole.idx 40
expect 6 'whole.idx: block 0' "$data" verify whole
flip whole.idx 40 && flip whole.checksums 60
expect 6 'whole.checksums: is damaged' "$data" verify whole
flip whole.checksums 60
expect 0 'sound' "$data" verify whole
mv whole.idx lost
expect 4 'weft-data repair whole' "$data" verify whole

# --- repair: the lost index, and only that
expect 0 'it fits its checksum' "$data" repair whole
cmp whole.idx lost || fail "repair made another index"
expect 0 'is sound, nothing was done' "$data" repair whole
expect 0 'sound' "$data" verify whole
flip whole.idx 35
expect 0 'it fits its checksum' "$data" repair whole
cmp whole.idx lost || fail "repair mended to another index"
[ -e whole.idx.damaged ] || fail "repair did not keep the damaged index"
expect 0 '' "$data" preprocess --input corpus.jsonl --output-prefix without
rm without_text_document.idx
expect 3 'made without --append-eod' "$data" repair without_text_document
[ ! -e without_text_document.idx ] || fail "a repair that failed left an index"
expect 4 'tokenize the corpus anew' "$data" repair absent
expect 2 'give the dataset' "$data" repair
# --- inspect: where a document came from, also through a merge and a sample
at=$(head -n 30 b.jsonl | wc -c)
expect 0 'line 231 of the corpus' "$data" inspect document whole 230
grep -qF 'file: b.jsonl' out.log && grep -qF "byte: $at (of the line" out.log || { cat out.log; fail "inspect document: file and byte"; }
tail -c +$((at + 1)) b.jsonl | sed -n 1p | grep -F 'line 231 of' >out.log || fail "another line begins at that byte"
expect 0 "\"input\":\"b.jsonl\",\"offset_bytes\":$at," "$data" inspect document whole 230 --format jsonl
expect 0 'tokens in 1 sequence' "$data" inspect document whole 599 --max-tokens 3
expect 2 'there is no document 600, there are 600' "$data" inspect document whole 600
expect 2 'give the number of the document' "$data" inspect document whole x
expect 2 'give the number of the document' "$data" inspect document whole
order=(--data-path whole --split 90,10,0 --seq-length 16 --seed 7 --train-samples 64)
expect 0 '.jsonl, byte ' "$data" inspect samples "${order[@]}" --sample-range 3 4
expect 0 '"offset_bytes":' "$data" inspect samples "${order[@]}" --sample-range 3 4 --format jsonl
mv whole.sources hidden
expect 0 'there is no source map' "$data" inspect document whole 230
expect 0 'sample 3 of train' "$data" inspect samples "${order[@]}" --sample-range 3 4
cp a_text_document.sources whole.sources
expect 3 'it is not of this dataset' "$data" inspect document whole 230
head -c 100 hidden >whole.sources
for command in 'inspect document whole 230' 'report whole' 'merge whole --output-prefix never'; do
  expect 3 'move the file away (everything but file names and origins works without it)' "$data" $command
done
mv hidden whole.sources

# --- report
printf '{"text": "<script>alert(1)</script> \\u001b[31m"}\n{"text": "%s"}\nbad\n' "$(printf '%0300d' 0)" >odd.jsonl
cat corpus.jsonl >>odd.jsonl && head -n 5 corpus.jsonl >>odd.jsonl
expect 0 '' "$data" preprocess --append-eod --on-bad-line skip --input odd.jsonl --output-prefix odd
expect 0 'most repeated characters: document 1, ' "$data" report odd_text_document
for text in 'verdict: 2 findings' '  1 of 607 documents (0.2 %; ' ' is nearly all repetition: ' '  1 line of the corpus (0.2 %) was bad' '% repeated, ' \
  'documents without an end-of-document token: 0, with one inside: 0' \
  'documents: 607 (0 of them empty)' 'bad lines: 1' 'exact duplicates: 5 groups, 5 superfluous documents' \
  'odd.jsonl, byte ' 'longest: document '; do
  grep -qF "$text" out.log || { cat out.log; fail "the report does not say '$text'"; }
done
expect 0 'wrote odd.html' "$data" report odd_text_document --output odd.html --threads 2
expect 0 "default-src 'none'" cat odd.html
grep -qF '<script' odd.html && fail "text of a document became part of the page"
expect 0 'wrote odd.json' "$data" report odd_text_document.idx --output odd.json --threads 1
python3 - odd.json <<'PYTHON' || fail "the report's JSON"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["documents"] == 607 and report["bad_lines_by_reason"] == {"not valid JSON": 1}, report
assert sum(entry["documents"] for entry in report["length_histogram"]) == 607
assert report["most_repeated_characters"][0]["document"] == 1
PYTHON
expect 2 'ends in neither .html nor .json' "$data" report odd_text_document --output odd.txt
expect 4 'absent' "$data" report absent
expect 4 'nowhere' "$data" report odd_text_document --output nowhere/x.html
# --- a dataset that is cut off while it is looked at (report maps .idx, then .bin): the message names the file
expect 0 '' "$data" preprocess --append-eod --input a.jsonl --output-prefix cut
WEFT_CRASH_AT='file_mapped:2:cut.go' "$data" report cut_text_document >cut.log 2>&1 &
run=$!
for _ in $(seq 1200); do [ ! -e cut.go.waiting ] || break; sleep 0.05; done
: >cut_text_document.bin
touch cut.go
code=0 && wait $run || code=$?
[ $code = 4 ] && grep -qF "error: 'cut_text_document.bin' was made shorter while it was read" cut.log || { cat cut.log; fail "a .bin that was cut off gave exit code $code"; }
echo "all passed"
