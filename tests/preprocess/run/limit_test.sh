#!/usr/bin/env bash
# --limit N makes the dataset of the first N documents, and --where of those for which it holds, whoever reads them; a
# killed run goes on with that.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
forget_launchers
make_vocabulary
make_corpus 40 | sed 's/line/part 1/; 5s/.*/no JSON/; 12s/.*/{"text": ""}/; 20s/.*/{"n": 1}/' >1.jsonl
make_corpus 40 | sed 's/line/part 2/' | gzip >2.jsonl.gz
make_corpus 40 | sed 's/line/part 3/; 3s/$/\r/; $s/$/ /' | tr -d '\n' >3.jsonl # one line, and no document
make_corpus 40 | sed 's/line/part 4/' >4.jsonl
run=("$data" preprocess --append-eod --on-bad-line skip --overwrite)
inputs=(--input 1.jsonl 2.jsonl.gz 3.jsonl 4.jsonl)
same() { for suffix in bin idx ${3:-}; do cmp "$1_text_document.$suffix" "$2_text_document.$suffix" || fail "$1 and $2 differ: .$suffix"; done; }
{ cat 1.jsonl; zcat 2.jsonl.gz; cat 3.jsonl; echo; cat 4.jsonl; } | grep '"text"' | grep -v 'part 3' >good.jsonl

for limit in 1 2 37 38 39 70 78 79 117 118 119 100000; do
  head -n $limit good.jsonl >head.jsonl
  expect 0 wrote "${run[@]}" --input head.jsonl --output-prefix head
  expect 0 wrote "${run[@]}" "${inputs[@]}" --limit $limit --workers 1 --output-prefix one
  expect 0 wrote "${run[@]}" "${inputs[@]}" --limit $limit --workers 3 --output-prefix three
  same head one
  same one three sources
done
expect 0 '' "${run[@]}" "${inputs[@]}" --output-prefix all
same all three sources

echo "a bad line behind the last document is not met"
expect 0 ': 4 documents' "$data" preprocess --input 1.jsonl --limit 4 --output-prefix x --append-eod
expect 3 '1.jsonl:5: (byte' "$data" preprocess --input 1.jsonl --limit 5 --output-prefix y
expect 2 '--limit reads its documents twice' "${run[@]}" --input - --limit 3 --output-prefix y
expect 2 '--limit: 0 is too small' "${run[@]}" --input 1.jsonl --limit 0 --output-prefix y

echo "the manifest says so, and so does another run"
expect 0 wrote "${run[@]}" "${inputs[@]}" --limit 50 --output-prefix fifty
jq -e '.run_options["--limit"] == 50 and .dataset.documents == 50 and .input_counts.documents == 50' \
  fifty_text_document.manifest.json >/dev/null || fail "the manifest does not know the limit"
again=("$data" preprocess --append-eod --on-bad-line skip "${inputs[@]}" --output-prefix fifty)
expect 0 'is there already' "${again[@]}" --limit 50
expect 2 'made with other options (--limit: was 50, is 51)' "${again[@]}" --limit 51
expect 2 'made with other options (--limit: was 50, is "none")' "${again[@]}"

echo "a killed run goes on"
code=0
killed=("$data" preprocess --append-eod --on-bad-line skip "${inputs[@]}" --limit 50 --output-prefix killed)
WEFT_CRASH_AT=journal_synced:1 "${killed[@]}" >out.log 2>&1 || code=$?
[ $code = 137 ] || { cat out.log; fail "exit code $code"; }
expect 0 'going on with the work' "${killed[@]}"
same fifty killed sources

echo "parts, merged, are the whole"
for i in 0 1; do expect 0 '' "${run[@]}" "${inputs[@]}" --limit 50 --shard $i/2 --output-prefix part$i; done
expect 0 '' "$data" merge part0_text_document part1_text_document --output-prefix merged_text_document --overwrite
same fifty merged

echo "--where takes the documents for which it holds"
where=(--where "n >= 8 and text != ''")
{ sed -n 8,40p 1.jsonl; zcat 2.jsonl.gz | sed 1,7d; echo; sed 1,7d 4.jsonl; } | grep '"n"' | grep '"text"' >chosen.jsonl
expect 0 wrote "${run[@]}" --input chosen.jsonl --output-prefix chosen
for workers in 1 3; do
  expect 0 "left out by --where: 21 documents (n >= 8: 20; n >= 8, without the key: 1)" \
    "${run[@]}" "${inputs[@]}" "${where[@]}" --workers $workers --output-prefix where$workers
  same chosen where$workers
done
same where1 where3 sources
jq -e '.run_options["--where"] == "n >= 8 and text != '"''"'" and .input_counts.left_out == 21 and .input_counts.documents == 97 and
  .input_counts.left_out_by_reason == {"n >= 8": 20, "n >= 8, without the key": 1}' where1_text_document.manifest.json >/dev/null ||
  fail "the manifest does not know what was left out: $(cat where1_text_document.manifest.json)"
expect 0 'left out by --where: 20 (n >= 8)' "$data" report where1_text_document
head -n 50 chosen.jsonl >head.jsonl
expect 0 wrote "${run[@]}" --input head.jsonl --output-prefix head
expect 0 wrote "${run[@]}" "${inputs[@]}" "${where[@]}" --limit 50 --output-prefix fifty_where
same head fifty_where
again=("$data" preprocess --append-eod --on-bad-line skip "${inputs[@]}" --output-prefix where1)
expect 0 'is there already' "${again[@]}" --where "n>=8   and text!=\"\""
expect 2 '(--where: was "n >= 8 and text != '"''"'", is "none")' "${again[@]}"
expect 2 "--where: 'n == 8' is not \`and\`" "${again[@]}" --where "n >= 8 n == 8"
expect 3 'no document is left: left out by --where: 118 documents (m == 1, without the key: 118); nothing was written' \
  "${run[@]}" "${inputs[@]}" --where 'm == 1' --output-prefix none
killed=("$data" preprocess --append-eod --on-bad-line skip "${inputs[@]}" "${where[@]}" --output-prefix killed_where)
code=0
WEFT_CRASH_AT=journal_synced:1 "${killed[@]}" >out.log 2>&1 || code=$?
[ $code = 137 ] || { cat out.log; fail "exit code $code"; }
expect 2 '--where: was "n >= 8 and text != '"''"'", is "n >= 9"' \
  "$data" preprocess --append-eod --on-bad-line skip "${inputs[@]}" --where 'n >= 9' --output-prefix killed_where
expect 0 'left out by --where: 21 documents' "${killed[@]}"
same chosen killed_where
for i in 0 1; do expect 0 '' "${run[@]}" "${inputs[@]}" "${where[@]}" --shard $i/2 --output-prefix part$i; done
expect 0 '' "$data" merge part0_text_document part1_text_document --output-prefix merged_text_document --overwrite
same chosen merged
jq -e '.input_counts.left_out_by_reason == {"n >= 8": 20, "n >= 8, without the key": 1}' merged_text_document.manifest.json >/dev/null ||
  fail "merge does not add up what was left out"

echo "ranks stop at the same document"
. "$WEFT_SOURCE_DIR/tests/preprocess/mpi.sh" || exit
expect 0 '2 ranks make one output together' mpirun -n 2 "${run[@]}" "${inputs[@]}" --limit 50 --output-prefix ranks
same fifty ranks sources
expect 0 'left out by --where: 21 documents' mpirun -n 2 "${run[@]}" "${inputs[@]}" "${where[@]}" --output-prefix ranks_where
same where1 ranks_where sources
echo "all passed"
