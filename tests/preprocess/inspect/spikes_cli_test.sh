#!/usr/bin/env bash
# README's chapter "A loss spike at iteration 11448", its commands taken from the README itself, on a run whose corpus has two planted
# documents: the first three lines of the answer name them. Then: a run that is still writing, one that was resumed with another batch
# size, one that kept no losses, and folders whose files contradict each other.
set -euo pipefail
source_dir=${WEFT_SOURCE_DIR:?} bin=${WEFT_BIN_DIR:?}
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-spikes.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAILED: $1" >&2; shift; for file in "$@"; do echo "--- $file" >&2; head -n 40 "$file" >&2; done; exit 1; }

# 600 documents of plain sentences. Document 217 is 400 backslashes, document 431 is 400 tildes: the model has seen nothing like them.
# The random numbers are Lehmer's: each awk has others of its own, and where the two documents come depends on all lengths.
awk 'function random(n) { state = state * 16807 % 2147483647; return state % n }
BEGIN {
  state = 18
  split("the a one every some", det); split("old quiet green heavy bright small", adj)
  split("river stone garden window letter morning engine teacher city market song winter road house child", noun)
  split("finds sees keeps carries follows remembers crosses opens builds leaves", verb)
  for (d = 0; d < 600; ++d) {
    text = ""
    if (d == 217 || d == 431) {
      for (i = 0; i < 400; ++i) text = text (d == 217 ? "\\\\" : "~")
    } else {
      for (i = 20 + random(30); i > 0; --i)
        text = text det[1 + random(5)] " " adj[1 + random(6)] " " noun[1 + random(15)] " " \
          verb[1 + random(10)] " " det[1 + random(5)] " " noun[1 + random(15)] ". "
    }
    print "{\"text\": \"" text "\"}"
  }
}' >corpus.jsonl
grep -vE '~~|\\\\\\\\' corpus.jsonl >plain.jsonl
[ "$(wc -l <plain.jsonl)" = 598 ] || fail "the planted documents are not two" plain.jsonl
mkdir -p gpt2 build/release
ln -s "$bin" build/release/bin
"$bin/weft-data" train-vocab --input plain.jsonl --vocab-size 400 --output gpt2 >vocab.log 2>&1 || fail "train-vocab" vocab.log
export WEFT_GPT2_DIR=$work/gpt2
"$bin/weft-data" preprocess --input corpus.jsonl --output-prefix my --append-eod --workers 2 >data.log 2>&1 || fail "preprocess" data.log

# RUN_DIR [options]: 70 steps of 16 samples, in about 3 s.
train() {
  local run=$1; shift
  "$bin/weft-train" --num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 128 --max-position-embeddings 128 \
    --micro-batch-size 8 --global-batch-size 16 --train-iters 70 --lr 5e-3 --lr-warmup-iters 5 --lr-decay-style cosine \
    --data-path my_text_document --split 100,0,0 --eval-iters 0 --save "$run" --load "$run" --save-interval 30 --device cpu "$@" \
    >"$run.log" 2>&1 || fail "train $*" "$run.log"
}
train checkpoints
spikes() { "$bin/weft-data" inspect spikes "$@"; }

commands=$(sed -n '/^## A loss spike/,/^## /p' "$source_dir/README.md" | sed -n 's/^    \(build.*\)/\1/p')
[ "$(grep -c weft-data <<<"$commands")" -ge 2 ] || fail "README has no commands under 'A loss spike'"
first=$(sed -n 1p <<<"$commands")
eval "$first" >answer.txt 2>messages.txt || fail "$first" answer.txt messages.txt
for document in 217 431; do
  head -n 3 answer.txt | grep -qE "document $document\b.*corpus.jsonl, byte" || fail "the first three lines do not name document $document" answer.txt
done
head -n 1 answer.txt | grep -oE 'document [0-9]+' | sort -u | tr '\n' ' ' | grep -qx 'document 217 document 431 ' || fail "harmless neighbours are named" answer.txt
offset=$(grep -ob '{' corpus.jsonl | sed -n 218p | cut -d: -f1)
grep -q "document 217, corpus.jsonl, byte $offset" answer.txt || fail "document 217 begins at byte $offset" answer.txt
iteration=$(sed -nE 's/^iteration ([0-9]+):.*/\1/p' answer.txt | head -n 1)
while IFS= read -r command; do
  command=$(sed -E "s/--iteration [0-9]+/--iteration $iteration/; s/--document [0-9]+/--document 217/" <<<"$command")
  eval "$command" >out.txt 2>messages.txt || fail "$command" out.txt messages.txt
done < <(sed 1d <<<"$commands")

# The batch with the worst first, each loss beside that of the document's other samples; the same samples as without --sort.
batch() { "$bin/weft-data" inspect samples --run checkpoints --iteration "$iteration" --format jsonl "$@" 2>/dev/null; }
batch --sort loss >sorted.jsonl || fail "--sort loss" sorted.jsonl
sed -E 's/.*"loss":([0-9.]+).*/\1/' sorted.jsonl >losses.txt
sort -gr losses.txt | diff - losses.txt >&2 && [ "$(wc -l <losses.txt)" = 16 ] || fail "the largest loss is not first" losses.txt
diff <(batch | grep -oE '^."sample":[0-9]+' | sort) <(grep -oE '^."sample":[0-9]+' sorted.jsonl | sort) >&2 || fail "--sort loss shows other samples"
# Which of the two documents came in the iteration that is told first depends on the rounding of this machine's losses.
head -n 1 sorted.jsonl | grep -qE '"document":(217|431),[^}]*"other_samples":[1-9][0-9]*,"other_mean_loss":' || fail "the other samples of a planted document" sorted.jsonl
# inspect documents finds these and the sample itself.
told=$(head -n 1 sorted.jsonl | grep -oE '"document":(217|431),[^}]*"other_samples":[0-9]+' | head -n 1)
document=$(sed -E 's/"document":([0-9]+).*/\1/' <<<"$told")
found=$("$bin/weft-data" inspect documents --run checkpoints --document "$document" --format jsonl 2>/dev/null | grep -oE '"sample":[0-9]+' | sort -u | wc -l)
[ "$found" = $((${told##*:} + 1)) ] || fail "document $document is in $found samples, and $told"
for wrong in "--data-path my_text_document --seq-length 128 --train-samples 64 --global-batch-size 16 --iteration 1" \
  "--run checkpoints --split-name valid --iteration 10"; do
  code=0; "$bin/weft-data" inspect samples $wrong --sort loss >wrong.txt 2>&1 || code=$?
  [ $code = 2 ] && grep -q -- '--sort loss' wrong.txt || fail "$wrong (exit $code)" wrong.txt
done

# Programs read one object for each jump.
spikes --run checkpoints --format jsonl 2>/dev/null >answer.jsonl
grep -qE "^\{\"iteration\":$iteration,.*\"samples\":\[\{\"sample\":[0-9]+,\"loss\":.*\"document\":(217|431)," answer.jsonl || fail "no JSON of the first jump" answer.jsonl

# Where no sample stands out no document is named, and --unsee refuses such a file.
# The norm of an iteration jumps that has none of the two documents, as the one before and the one after.
quiet=0
for i in {40..68}; do
  grep -qE "^iteration ($((i - 1))|$i|$((i + 1))):" answer.txt || { quiet=$i; break; }
done
[ $quiet != 0 ] || fail "no iteration without a jump" answer.txt
mkdir plain && cp checkpoints/run_manifest.json checkpoints/sample_losses.bin plain/
sed -E '/"iteration":'$quiet',/s/"grad_norm":[^,}]*/"grad_norm":1e6/' checkpoints/metrics.jsonl >plain/metrics.jsonl
spikes --run plain >plain.txt 2>/dev/null || fail "a jump of the gradient norm alone" plain.txt
grep -A 1 "^iteration $quiet:" plain.txt | tail -n 1 | grep -q 'no sample stands out.*--iteration '"$quiet " || fail "a sample of iteration $quiet stands out" plain.txt
sed -n "/^iteration $quiet:/,/^iteration/p" plain.txt | grep document && fail "a document that does not stand out is named" plain.txt
spikes --run plain --format jsonl 2>/dev/null | grep "\"iteration\":$quiet," | grep -q '"samples":\[\]' || fail "samples that do not stand out"
spikes --run plain --format jsonl 2>/dev/null | grep "\"iteration\":$quiet," >nothing.jsonl
code=0
(train masked --exit-interval 1 --unsee nothing.jsonl) >/dev/null 2>&1 || code=1
[ $code = 1 ] && grep -q 'nothing.jsonl' masked.log || fail "--unsee takes a file that names no document" masked.log

# While the run goes on: the last line is being written, and the last samples are not there yet.
cp -r checkpoints live
lines=$(wc -l <live/metrics.jsonl)
head -n $((lines - 1)) checkpoints/metrics.jsonl >live/metrics.jsonl
tail -n 1 checkpoints/metrics.jsonl | head -c 40 >>live/metrics.jsonl
truncate -s -7 live/sample_losses.bin
spikes --run live >live.txt 2>/dev/null || fail "a run that goes on" live.txt
diff <(head -n 3 answer.txt) <(head -n 3 live.txt) >&2 || fail "a run that goes on has another answer"

# A run that was resumed with other batches, where the samples of an iteration follow from the segments of the manifest.
train resumed --exit-interval 30
train resumed --global-batch-size 8 --override-lr-scheduler
spikes --run resumed --format jsonl 2>/dev/null >resumed.jsonl || fail "a resumed run" resumed.jsonl
grep -q '"document":\(217\|431\)' resumed.jsonl || fail "the resumed run does not name a planted document" resumed.jsonl

# Without losses of samples the jumps are told, and that their samples are not known.
train none --no-sample-losses
spikes --run none >none.txt 2>/dev/null || fail "a run without losses" none.txt
code=0; "$bin/weft-data" inspect samples --run none --iteration 20 --sort loss >unsorted.txt 2>&1 || code=$?
[ $code = 3 ] && grep -q 'the run kept no losses of samples' unsorted.txt || fail "--sort loss without losses (exit $code)" unsorted.txt
grep -q 'its samples are not told: the run kept no losses of samples' none.txt || fail "nothing says that no losses were kept" none.txt

code=0; "$bin/weft-data" inspect samples --run none --iteration 20 --sort loss --format html >page.html 2>messages.txt || code=$?
[ $code = 3 ] && [ ! -s page.html ] || fail "a page is begun before the losses are there (exit $code)" page.html

# Document 217 of two datasets is two documents, without source maps, too.
for name in one two; do cp my_text_document.bin $name.bin && cp my_text_document.idx $name.idx; done
train datasets --data-path one --exit-interval 40
train datasets --data-path two
spikes --run datasets >datasets.txt 2>/dev/null || fail "a run of two datasets" datasets.txt
head -n 1 datasets.txt | grep -qE 'document (217|431), of [^ ;]*one \(' || fail "the first dataset" datasets.txt
head -n 1 datasets.txt | grep -qE 'document (217|431), of [^ ;]*two \(' || fail "the second dataset" datasets.txt

# A run that began with another run's checkpoint, in a folder where one has left its files: only its own iterations are judged.
cp -r checkpoints reused
train reused --load resumed --train-iters 90 --override-lr-scheduler --overwrite
spikes --run reused --threshold 1 --first 100 >reused.txt 2>messages.txt || fail "a folder that is used again" reused.txt messages.txt
grep -q '^iteration \([1-6]\?[0-9]\|70\):' reused.txt && fail "iterations of the run before are told" reused.txt

# An iteration that is told for its samples alone has one, however low the threshold.
for run in checkpoints resumed; do
  for threshold in 3 2 1; do
    spikes --run $run --threshold $threshold --first 100 >low.txt 2>messages.txt || fail "--threshold $threshold" low.txt messages.txt
    awk '{ if (has_begun && !/^  sample /) is_bare = 1; has_begun = / does not jump/ } END { exit is_bare || has_begun }' low.txt ||
      fail "--threshold $threshold: an iteration without a sample" low.txt
  done
done
# Without the dataset all of them are told, and that their samples are not known.
mv my_text_document.idx kept.idx
code=0; spikes --run resumed --threshold 1 --first 100 >unread.txt 2>messages.txt || code=$?
mv kept.idx my_text_document.idx
[ $code = 4 ] || fail "the dataset is not there (exit $code)" messages.txt
diff <(grep '^iteration' low.txt) <(grep '^iteration' unread.txt) >&2 || fail "iterations are missing without the dataset" unread.txt
grep -q '^  its samples are not told: ' unread.txt || fail "nothing says that the samples are not known" unread.txt

# Files that contradict each other, and damaged ones, are refused.
cp -r checkpoints mixed && cp resumed/run_manifest.json mixed/
if spikes --run mixed >mixed.txt 2>&1; then fail "a manifest of another run is taken" mixed.txt; fi
grep -q 'are not of one run' mixed.txt || fail "the manifest of another run is not named" mixed.txt
cp -r checkpoints damaged
sample=$(sed -nE 's/^  sample ([0-9]+):.*/\1/p' answer.txt | head -n 1)
printf 'x' | dd of=damaged/sample_losses.bin bs=1 seek=$((16 + 12 * sample + 5)) conv=notrunc status=none
code=0; spikes --run damaged >damaged.txt 2>&1 || code=$?
[ $code = 6 ] && grep -q "the record of sample $sample is damaged" damaged.txt || fail "a damaged record (exit $code)" damaged.txt
code=0; spikes --run absent >absent.txt 2>&1 || code=$?
[ $code = 4 ] || fail "a folder that is not there (exit $code)" absent.txt
code=0; spikes >usage.txt 2>&1 || code=$?
[ $code = 2 ] && grep -q -- '--run is required' usage.txt || fail "no --run (exit $code)" usage.txt
echo passed
