#!/usr/bin/env bash
# Training by difficulty, from the metrics of weft-data analyze: a run that is resumed with another micro-batch size takes the samples of
# an undisturbed one, weft-data inspect shows them, and metrics or batch sizes of another run are refused.
set -euo pipefail
bin=${WEFT_BIN_DIR:?}
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-curriculum.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAILED: $1" >&2; shift; for file in "$@"; do echo "--- $file" >&2; head -n 30 "$file" >&2; done; exit 1; }

awk 'BEGIN { srand(3); for (d = 0; d < 300; ++d) { t = ""; w = 5 + int(195 * rand()); for (i = 20 + int(60 * rand()); i > 0; --i) t = t " w" int(w * rand());
  print "{\"text\": \"" t "\"}" } }' >corpus.jsonl
"$bin/weft-data" train-vocab --input corpus.jsonl --vocab-size 400 --output gpt2 >/dev/null 2>&1
export WEFT_GPT2_DIR=$work/gpt2
"$bin/weft-data" preprocess --input corpus.jsonl --output-prefix my --append-eod >data.log 2>&1 || fail preprocess data.log
order=(--data-path my_text_document --split 100,0,0 --seq-length 32 --eval-iters 0 --train-samples 170)
"$bin/weft-data" analyze "${order[@]}" --metric vocab_rarity document_length --output metrics >metrics.txt 2>&1 ||
  fail analyze metrics.txt
cat >metrics.json <<'J'
{"vocab_rarity": {"index_to_sample_path": "metrics/vocab_rarity/vocab_rarity_index_to_sample",
                  "difficulty_type": "percentile", "clustering_type": "schedule_based", "min_difficulty": 5, "max_difficulty": 100,
                  "schedule_type": "fixed_linear", "schedule_config": {"total_curriculum_step": 20, "difficulty_step": 5}},
 "document_length": {"index_to_sample_path": "metrics/document_length/document_length_index_to_sample",
                     "index_to_metric_path": "metrics/document_length/document_length_index_to_metric",
                     "difficulty_type": "value", "min_difficulty": 150, "max_difficulty": 1000,
                     "schedule_type": "fixed_discrete", "schedule_config": {"difficulty": [150, 1000], "max_step": [8]}}}
J
train() {
  "$bin/weft-train" --num-layers 1 --hidden-size 32 --num-attention-heads 2 --max-position-embeddings 32 --lr 1e-3 --device cpu \
    "${order[@]}" --rampup-batch-size 4 4 24 --log-interval 1 --curriculum-metrics metrics.json --save-interval 100 "$@"
}
train --global-batch-size 8 --micro-batch-size 2 --save whole >whole.log 2>&1 || fail "train" whole.log
grep -q 'curriculum: document_length by value, 150 at iteration 1 to 1000 from iteration 9 on; vocab_rarity by percentile, 5 at' whole.log || fail "the log does not tell the curriculum" whole.log
train --global-batch-size 8 --micro-batch-size 4 --save parts --load parts --exit-interval 7 --data-cache-path cache >parts.log 2>&1 || fail "first part" parts.log
train --global-batch-size 8 --micro-batch-size 1 --save parts --load parts --data-cache-path cache >rest.log 2>&1 || fail "resume" rest.log
ls cache/*-curriculum_draws.npy >/dev/null || fail "the draws are in no cache"
code=0; train --global-batch-size 16 --micro-batch-size 1 --save parts --load parts >other.log 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'global-batch-size was 8 .* and is 16 now: the iterations of --curriculum-metrics' other.log || fail "another batch size: exit $code" other.log

# What both runs took, told by inspect from their folders.
for run in whole parts; do
  "$bin/weft-data" inspect samples --run $run --iterations 1 24 --format jsonl >$run.jsonl 2>$run.err || fail "inspect $run" $run.err
done
[ "$(wc -l <whole.jsonl)" -ge 150 ] || fail "there are too few samples" whole.jsonl
strip() { jq -c '{sample, iteration, ids: (.documents // .parts | tostring)}' "$1"; }
cmp <(strip whole.jsonl) <(strip parts.jsonl) || fail "the resumed run took other samples"
"$bin/weft-data" inspect diff whole parts >diff.txt 2>&1 || fail diff diff.txt
grep -q 'all samples are equal' diff.txt || fail "diff" diff.txt
# Back from a document to the iterations that took it.
document=$(jq -r '.documents[0].document // .parts[0].document' whole.jsonl | sed -n 60p)
"$bin/weft-data" inspect documents --run whole --document "$document" >visits.txt 2>&1 || fail documents visits.txt
jq -r --argjson d "$document" 'select((.documents // .parts) | any(.document == $d)) | .iteration' whole.jsonl | sort -nu >expected.txt
grep -oE '^ +iteration [0-9]+' visits.txt | grep -oE '[0-9]+' | sort -nu | cmp - expected.txt || fail "visits of document $document" visits.txt expected.txt

# Metrics of another order.
code=0; train --seed 7 --global-batch-size 8 --micro-batch-size 2 --save seed >seed.log 2>&1 || code=$?
[ "$code" = 3 ] && grep -q '_index_to_sample was made of other samples.*seed was 1234 and is 7' seed.log || fail "another seed: exit $code" seed.log
echo ok
