#!/usr/bin/env bash
# The output for hostile lines, with a vocabulary of bytes, equals that of a simple re-implementation of Megatron-LM's algorithm in
# Python, which uses Python's json module.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
here=$WEFT_SOURCE_DIR/tests/preprocess/run
python=$(command -v python3) || skip "no python3"

echo '{"text":"x"}' >one.jsonl
expect 0 '257 entries' "$data" train-vocab --input one.jsonl --vocab-size 257 --output bytes
for seed in 1 2 3 4 5 6; do
  [ $seed != 6 ] || export WEFT_SIMD=scalar
  "$python" "$here/make_hostile_lines.py" $seed 20000 >lines
  num_bad=$("$python" "$here/reference_preprocess.py" bytes/vocab.json reference lines)
  expect 0 "$num_bad bad lines" "$data" preprocess --input lines --output-prefix ours --overwrite --append-eod --on-bad-line skip --workers 2 \
    --vocab-file bytes/vocab.json --merge-file bytes/merges.txt
  [ "$num_bad" -gt 1000 ] || fail "only $num_bad hostile lines"
  cmp reference.bin ours_text_document.bin && cmp reference.idx ours_text_document.idx || fail "seed $seed"
  cmp reference.sources ours_text_document.sources || fail "seed $seed: sources"
done
