#!/usr/bin/env bash
# weft-data analyze: killed and started again it gives the files of an undisturbed run; other arguments never reuse its files.
set -euo pipefail
bin=${WEFT_BIN_DIR:?}
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-analyze.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAILED: $1" >&2; shift; for file in "$@"; do echo "--- $file" >&2; head -n 20 "$file" >&2; done; exit 1; }

awk 'BEGIN { srand(3); for (d = 0; d < 3000; ++d) { t = ""; for (i = 20 + int(80 * rand()); i > 0; --i) t = t " w" int(200 * rand() * rand());
  print "{\"text\": \"" t "\"}" } }' >corpus.jsonl
"$bin/weft-data" train-vocab --input corpus.jsonl --vocab-size 400 --output gpt2 >/dev/null 2>&1
"$bin/weft-data" preprocess --input corpus.jsonl --output-prefix my --append-eod --vocab-file gpt2/vocab.json --merge-file gpt2/merges.txt \
  >data.log 2>&1 || fail preprocess data.log
analyze() { "$bin/weft-data" analyze --data-path my_text_document --split 98,2,0 --seq-length 4 --train-samples 100 "$@"; }
all=(--metric vocab_rarity document_length repeated_tokens compressed_size)

analyze "${all[@]}" --output whole --threads 1 >whole.txt 2>whole.log || fail "analyze" whole.txt whole.log
[ "$(grep -c percentiles whole.txt)" = 4 ] || fail "four metrics are not told" whole.txt
num_samples=$(sed -nE 's/^([0-9]+) samples in.*/\1/p' whole.txt)
[ "$num_samples" -gt 65536 ] || fail "there are no three pieces to kill between: $num_samples" whole.txt
WEFT_CRASH_AT=analyze-piece:2 analyze "${all[@]}" --output killed >/dev/null 2>&1 && fail "the run was not killed"
ls killed | grep -qv 'work\|lock' && fail "a killed run left what looks complete: $(ls killed)"
analyze "${all[@]}" --output killed --threads 2 >killed.txt 2>killed.log || fail "the same command again" killed.txt killed.log
grep -q '65536 samples were there from an earlier run' killed.txt || fail "it has begun anew" killed.txt
diff -r whole killed || fail "the files differ from those of a run that was not killed"

# Killed when one metric was complete and before its pieces were removed: the other three go on from theirs.
WEFT_CRASH_AT=analyze-stamp:1 analyze "${all[@]}" --output between >/dev/null 2>&1 && fail "the run was not killed between two metrics"
analyze "${all[@]}" --output between >between.txt 2>between.log || fail "the same command again" between.txt between.log
grep -q 'vocab_rarity: it was there already' between.txt || fail "the first metric was measured anew" between.txt
grep -q "$num_samples samples were there from an earlier run" between.txt || fail "the others were measured anew" between.txt
diff -r whole between || fail "the files differ from those of a run that was not killed between two metrics"
# Killed while it counts tokens: two pieces are not counted again.
num_pieces=$(((num_samples + 32767) / 32768))
WEFT_CRASH_AT=analyze-count:2 analyze "${all[@]}" --output counted >/dev/null 2>&1 && fail "the run was not killed while it counted"
WEFT_CRASH_AT=analyze-count:$((num_pieces - 1)) analyze "${all[@]}" --output counted >counted.txt 2>counted.log ||
  fail "all pieces were counted again" counted.txt counted.log
diff -r whole counted || fail "the files differ from those of a run that was not killed while it counted"
# Other samples: what killed runs left of them is removed when the metric is complete.
WEFT_CRASH_AT=analyze-piece:1 analyze --seed 5 --metric document_length --output left >/dev/null 2>&1 && fail "the run was not killed"
analyze --metric document_length --output left >left.txt 2>&1 || fail "after a killed run with another seed" left.txt
[ "$(ls left)" = document_length ] || fail "a killed run's work is still there: $(ls left)"
# That of other metrics, too; but not what can still go on, and not when a run with another seed is killed as well.
WEFT_CRASH_AT=analyze-piece:1 analyze --metric repeated_tokens --output left >/dev/null 2>&1 && fail "the run was not killed"
WEFT_CRASH_AT=analyze-piece:1 analyze --seed 5 --metric compressed_size --output left >/dev/null 2>&1 && fail "the run was not killed"
[ "$(ls left | grep -c '^work')" = 2 ] || fail "a run that was killed removed another one's work: $(ls left)"
analyze --metric document_length --output left >left.txt 2>&1 || fail "what was there already" left.txt
[ "$(ls left | grep -c '^work')" = 2 ] || fail "a run that measured nothing removed another one's work: $(ls left)"
analyze --metric vocab_rarity --output left >left.txt 2>&1 || fail "another metric" left.txt
grep -q 'removed what 1 unfinished measurement of other samples or orders had left' left.txt || fail "what was removed is not told" left.txt
[ "$(ls left | sed 's/\(work[^ ]*\.\)[0-9a-f]*$/\1/' | tr '\n' ' ')" = "document_length vocab_rarity work.repeated_tokens. " ] || fail "the work of another seed is still there: $(ls left)"

# A file that is lost or damaged is not "there already".
cp -r whole damaged
rm damaged/document_length/document_length_index_to_sample.bin
printf x | dd of=damaged/vocab_rarity/vocab_rarity.npy bs=1 seek=200 conv=notrunc 2>/dev/null
analyze "${all[@]}" --output damaged >damaged.txt 2>damaged.log || fail "damaged files" damaged.txt damaged.log
grep -q 'document_length: .*document_length_index_to_sample.bin is not there, so it is measured anew' damaged.log || fail "a lost file" damaged.log
grep -q 'vocab_rarity: .*vocab_rarity.npy has another checksum .*, so it is measured anew' damaged.log || fail "a damaged file" damaged.log
[ "$(grep -c 'it was there already' damaged.txt)" = 2 ] || fail "two metrics were whole" damaged.txt
diff -r whole damaged || fail "damaged files were not replaced"

analyze "${all[@]}" --output whole >again.txt || fail "again" again.txt
[ "$(grep -c 'it was there already' again.txt)" = 4 ] || fail "it was done again" again.txt
code=0; analyze --seed 5 "${all[@]}" --output whole >other.txt 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'seed was 1234 and is 5.*--overwrite' other.txt || fail "another seed: exit $code" other.txt
analyze --seed 5 --metric document_length --output whole --overwrite >other.txt 2>&1 || fail "--overwrite" other.txt
cmp -s whole/document_length/document_length.npy killed/document_length/document_length.npy && fail "--overwrite has replaced nothing"

# A user's scores: the mean of a constant is the constant.
awk 'BEGIN { for (i = 0; i < 3000; ++i) print 0.5 }' >scores.txt
analyze --document-scores scores.txt --score-scale 10 --score-name quality --output scored >scored.txt 2>&1 || fail "scores" scored.txt
grep -q 'quality: 1 distinct values; percentiles 0: 5, .* 100: 5$' scored.txt || fail "the constant is not 5" scored.txt
seq "$num_samples" >ranks.txt
analyze --sample-scores ranks.txt --output scored >scored.txt 2>&1 || fail "scores of samples" scored.txt
grep -q "score: $num_samples distinct values; percentiles 0: 1, .* 100: $num_samples\$" scored.txt || fail "ranks" scored.txt
code=0; analyze --document-scores scores.txt --output scored >error.txt 2>&1 || code=$?
[ "$code" = 3 ] && grep -q 'scores.txt:1: 0.5 has a fraction.*--score-scale' error.txt || fail "fractions: exit $code" error.txt
WEFT_CRASH_AT=analyze-stamp:1 analyze --seed 6 --metric document_length repeated_tokens --output whole --overwrite >/dev/null 2>&1 ||
  [ $? = 137 ] || fail "the run that overwrites was not killed"
analyze --seed 6 --metric document_length repeated_tokens --output whole --overwrite >other.txt 2>&1 || fail "--overwrite once more" other.txt
grep -q 'document_length: it was there already' other.txt || fail "--overwrite has replaced metrics of the same samples" other.txt
grep -q "$num_samples samples were there from an earlier run" other.txt || fail "--overwrite has begun anew" other.txt
code=0; analyze --metric document_length document_length --output x >error.txt 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'one of them is named twice' error.txt || fail "a metric named twice: exit $code" error.txt
code=0; analyze --metric rarity --output x >error.txt 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'rarity is none of vocab_rarity' error.txt || fail "an unknown metric: exit $code" error.txt
echo ok
