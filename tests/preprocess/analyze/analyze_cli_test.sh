#!/usr/bin/env bash
# weft-data analyze: killed and started again it gives the files of an undisturbed run; other arguments never reuse its files, and nothing
# else in its folder is touched.
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

# Killed when one metric was complete: that one stays, and the others are measured.
code=0; WEFT_CRASH_AT=analyze-stamp:1 analyze "${all[@]}" --output killed >/dev/null 2>&1 || code=$?
[ "$code" = 137 ] || fail "the run was not killed between two metrics: exit $code"
analyze "${all[@]}" --output killed --threads 2 >killed.txt 2>killed.log || fail "the same command again" killed.txt killed.log
grep -q 'vocab_rarity: it was there already' killed.txt || fail "the first metric was measured anew" killed.txt
diff -r whole killed || fail "the files differ from those of a run that was not killed"

# Names that begin as those of temporary files might are a user's own.
mkdir -p own/work.vocab_rarity.old own/work.document_length.0123456789abcdef0123456789abcdef
echo thesis | tee own/work.vocab_rarity.old/thesis.txt >own/work.document_length.0123456789abcdef0123456789abcdef/thesis.txt
echo notes | tee own/work.vocab_rarity.notes own/work.document_length.xlsx >own/vocab_rarity.part
cp -r own before
for times in once again; do
  analyze --metric vocab_rarity document_length --output own >own.txt 2>own.log || fail "analyze beside a user's files" own.txt own.log
done
for metric in vocab_rarity document_length; do diff -r whole/$metric own/$metric && rm -r own/$metric || fail "$metric beside a user's files"; done
diff -r before own || fail "a user's files are gone or others were left"

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
code=0; analyze --metric document_length document_length --output x >error.txt 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'one of them is named twice' error.txt || fail "a metric named twice: exit $code" error.txt
code=0; analyze --metric rarity --output x >error.txt 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'rarity is none of vocab_rarity' error.txt || fail "an unknown metric: exit $code" error.txt
echo ok
