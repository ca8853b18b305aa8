#!/usr/bin/env bash
# weft-data inspect documents on a run of weft-train that was resumed with another batch size and has three splits.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
command -v python3 >/dev/null || skip "needs python3"
export OMP_NUM_THREADS=2
make_vocabulary
make_corpus 60 >a.jsonl
{ make_corpus 20; echo '{"text": "\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\"}'; make_corpus 20; } >b.jsonl
expect 0 '' "$data" preprocess --input a.jsonl --output-prefix a --append-eod
expect 0 '' "$data" preprocess --input b.jsonl --output-prefix b --append-eod
train() {
  "$WEFT_BIN_DIR/weft-train" --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length 16 --max-position-embeddings 16 \
    --micro-batch-size 2 --lr 1e-3 --data-path 0.4 a_text_document 0.6 b_text_document --split 80,15,5 --train-iters 40 \
    --eval-iters 1 --eval-interval 10 --log-interval 1 --save run --load run --save-interval 5 --device cpu "$@"
}
expect 0 '' train --global-batch-size 4 --exit-interval 20
expect 0 '' train --global-batch-size 6 --override-lr-scheduler --exit-interval 30
inspect="$data inspect documents --run run"

# Forward, sample by sample, and backward agree: the document of every part names this iteration, split, sample, rank and slot.
python3 - $inspect <<'PYTHON' || fail "forward and backward differ"
import json, subprocess, sys
data = sys.argv[1]
def lines(*words):
    out = subprocess.run([data, "inspect", *words, "--run", "run", "--format", "jsonl"], stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]
forward, documents = set(), set()
for split, iterations in (("train", range(1, 31)), ("valid", (10, 20, 30))):
    for iteration in iterations:
        for sample in lines("samples", "--split-name", split, "--iteration", str(iteration)):
            for part in sample["parts"]:
                dataset = sample["dataset"]
                documents.add((dataset, part["document"]))
                forward.add((split, iteration, sample["sample"], dataset, part["document"], part["begin_token"], part["num_tokens"]))
assert {iteration for split, iteration, *_ in forward if split == "train"} == set(range(1, 31))
backward = set()
for name in ("a", "b"):
    dataset = {d for d, _ in documents if d.endswith("/" + name + "_text_document")}.pop()
    for document in range(max(n for d, n in documents if d == dataset) + 1):
        [answer] = lines("documents", "--document", str(document), "--dataset", name + "_text_document")
        assert answer["dataset"] == dataset
        for reading in answer["readings"]:
            assert reading["is_logged"] == (reading["iteration"] <= 30), reading
            if reading.get("at_end") or not reading["is_logged"]: continue
            assert reading["rank"] == 0
            backward.add((reading["split"], reading["iteration"], reading["sample"], dataset, document, reading["begin_token"], reading["num_tokens"]))
assert forward == backward, forward ^ backward
PYTHON

# The planted document, by its text, its line and its number.
offset=$(head -n 20 b.jsonl | wc -c)
expect 0 '' $inspect --grep '\\\\\\\\' --format jsonl
grep '^{' out.log >by_text
for pattern in '\\{8,}' '\\\\\\\\ --fixed-strings'; do
  expect 0 '' $inspect --grep $pattern --format jsonl
  grep '^{' out.log | cmp - by_text || fail "--grep $pattern finds other documents"
done
expect 2 'is no regular expression: missing ]: [a-z' $inspect --grep '[a-z'
expect 2 '--fixed-strings goes with --grep' $inspect --document 20 --dataset b_text_document --fixed-strings
expect 0 '' $inspect --source b.jsonl:$offset --format jsonl
grep '^{' out.log >by_line
expect 0 '' $inspect --document 20 --dataset b_text_document --format jsonl
grep '^{' out.log >by_number
cmp by_text by_line && cmp by_line by_number || fail "three ways to one document"
grep -q "\"document\":20,.*\"offset_bytes\":$offset" by_text || { cat by_text; fail "the planted document"; }
expect 0 'document 20 of ' $inspect --document 20 --dataset b_text_document
grep -qE '^    iteration [0-9]+, rank 0, micro-batch [0-9], slot [01], sample [0-9]+: tokens 0 to ' out.log || { cat out.log; fail "a reading"; }
grep -qF 'of them after iteration 30, the last logged one' out.log || { cat out.log; fail "readings to come"; }

# What cannot be known is refused.
expect 2 'the run has 2 datasets; say which one is meant by --dataset' $inspect --document 20
expect 2 'there is no document 41, there are 41' $inspect --document 41 --dataset b_text_document
expect 3 "no document's line begins at byte $((offset + 1)) of it; document 20 begins before it, at byte $offset, document 21 begins behind it" \
  $inspect --source b.jsonl:$((offset + 1))
expect 3 'no dataset of the run was made of it' $inspect --source c.jsonl:0
expect 2 'give FILE:OFFSET' $inspect --source b.jsonl
expect 2 'give one of --document N, --source FILE:OFFSET and --grep PATTERN' $inspect --document 1 --grep x
expect 2 'none of the run'"'"'s 2 datasets ends so' $inspect --document 1 --dataset c

# By hand, without a run: ranks follow from the sizes that are told.
by_hand="$data inspect documents --data-path a_text_document --split 1,0,0 --seq-length 16 --train-iters 40 --global-batch-size 6 --eval-iters 0"
expect 0 'training: ' $by_hand --document 3
if grep -q 'rank' out.log; then cat out.log; fail "a rank that nobody told"; fi
expect 0 ', rank ' $by_hand --document 3 --micro-batch-size 1 --data-parallel-size 3
expect 0 'validation: never' $by_hand --document 3
expect 2 '--run already says' $inspect --document 3 --data-parallel-size 3

# A dataset without its source map may hold the line of a document that is not to be trained: that is no silent guess.
mv a_text_document.sources kept.sources
echo "b.jsonl:$offset" >unsee
expect 3 'a document of this line was found; no source map beside' "$WEFT_BIN_DIR/weft-train" --num-layers 1 --hidden-size 16 \
  --num-attention-heads 1 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 \
  --data-path 0.4 a_text_document 0.6 b_text_document --split 80,15,5 --train-iters 2 --eval-iters 0 --device cpu --unsee unsee
mv kept.sources a_text_document.sources

# One dataset under two spellings, twice in a blend and once in each part of a resumed run: every reading is told, whichever is asked for.
ln -s a_text_document.bin link_text_document.bin; ln -s a_text_document.idx link_text_document.idx
expect 0 '' $data inspect documents --data-path 0.5 a_text_document 0.5 link_text_document --split 1,0,0 --seq-length 16 --train-iters 40 \
  --global-batch-size 6 --eval-iters 0 --document 3 --format jsonl
grep '^{' out.log >first_name
expect 0 '' $data inspect documents --data-path 0.5 a_text_document 0.5 link_text_document --split 1,0,0 --seq-length 16 --train-iters 40 \
  --global-batch-size 6 --eval-iters 0 --document 3 --dataset link_text_document --format jsonl
grep '^{' out.log | cmp - first_name || fail "the name decides what is found"
python3 - $data <<'PYTHON' || fail "readings of one spelling only"
import json, subprocess, sys
forward = subprocess.run([sys.argv[1], *"inspect samples --data-path 0.5 a_text_document 0.5 link_text_document --split 1,0,0 --seq-length 16 "
    "--train-iters 40 --global-batch-size 6 --eval-iters 0 --sample-range 0 240 --format jsonl".split()], stdout=subprocess.PIPE, check=True).stdout
expected = [(sample["dataset"], sample["sample"], part["begin_token"]) for sample in map(json.loads, forward.splitlines())
            for part in sample["parts"] if part["document"] == 3]
assert {dataset.rsplit("/")[-1] for dataset, *_ in expected} == {"a_text_document", "link_text_document"}
found = [(reading["sample"], reading["begin_token"]) for reading in json.loads(open("first_name").read())["readings"]]
assert found == [tuple(rest) for _, *rest in expected], (found, expected)
PYTHON

# Another dataset under the name of the one that the run has read.
make_corpus 30 >c.jsonl
expect 0 '' "$data" preprocess --input c.jsonl --output-prefix b --append-eod --overwrite
expect 3 'was replaced or changed' "$data" inspect documents --run run --document 1 --dataset b_text_document
echo ok
