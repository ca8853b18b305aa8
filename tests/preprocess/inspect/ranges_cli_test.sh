#!/usr/bin/env bash
# weft-data inspect grep, stats, exposure and diff on runs of weft-train, with planted poison: a long run of backslashes.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
command -v python3 >/dev/null || skip "needs python3"
export OMP_NUM_THREADS=2
make_vocabulary
python3 - <<'PYTHON'
import json, random
random.seed(5)
words = [line.split() for line in ("the quick brown fox of corpus times line", "caf\u00e9 jumps over lazy dogs and then sleeps", "numbers 12 345 and 6789 are here")]
def text(n): return " ".join(random.choice(random.choice(words)) for _ in range(n))
with open("a.jsonl", "w") as a, open("b.jsonl", "w") as b:
    for i in range(60): a.write(json.dumps({"text": f"document {i}: " + text(random.randint(20, 120))}) + "\n")
    for i in range(60):
        b.write(json.dumps({"text": f"other {i}: " + text(random.randint(20, 120))}) + "\n")
        if i == 30: b.write(json.dumps({"text": "\\" * 30000}) + "\n")
PYTHON
for name in a b; do expect 0 '' "$data" preprocess --input $name.jsonl --output-prefix $name --append-eod; done
train() { # FOLDER WORD...
  local folder=$1
  shift
  "$WEFT_BIN_DIR/weft-train" --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length 64 --max-position-embeddings 64 \
    --micro-batch-size 2 --lr 1e-3 --data-path 0.4 a_text_document 0.6 b_text_document --split 1,0,0 --train-iters 40 --log-interval 1 \
    --eval-iters 0 --global-batch-size 8 --save "$folder" --load "$folder" --save-interval 10 --device cpu "$@"
}
expect 0 '' train run --exit-interval 20
sed 's/^/ 0: /' out.log >train.log
expect 0 '' train run --global-batch-size 12 --override-lr-scheduler --exit-interval 30

# grep finds exactly the pieces whose text holds the text.
expect 0 '' "$data" inspect samples --run run --iterations 5 25 --format jsonl
mv out.log samples
expect 0 '' "$data" inspect grep dogs --run run --iterations 5 25 --format jsonl
grep '^{' out.log >found
expect 0 '' "$data" inspect grep dogs --run run --iterations 5 25 --format jsonl --threads 1
grep '^{' out.log | cmp - found || fail "grep depends on the number of threads"
python3 - "$data" <<'PYTHON' || fail "grep"
import json, subprocess, sys
samples = [json.loads(line) for line in open("samples")]
found = [json.loads(line) for line in open("found")]
expected = []
for sample in samples:
    # Texts of pieces: their lengths in tokens are known, their texts are told by the tool that decodes.
    at = 0
    for part in sample["parts"]:
        ids = sample["ids"][at:at + part["num_tokens"]]
        at += part["num_tokens"]
        text = subprocess.run([sys.argv[1], "encode", "--decode"], input=" ".join(map(str, ids)), stdout=subprocess.PIPE, text=True, check=True).stdout
        if "dogs" in text:
            expected.append((sample["iteration"], sample["sample"], part["document"], part["begin_token"], text.count("dogs")))
assert len(expected) > 10
assert expected == [(f["iteration"], f["sample"], f["document"], f["begin_token"], f["matches"]) for f in found], (expected[:3], found[:3])
PYTHON
expect 0 'found 0 times in 0 document pieces of iterations 1 to 30 of train' "$data" inspect grep 'no such text' --run run --iterations 1 30
# A regular expression finds a text across its tokens, whatever the case; a dot of a fixed text is a dot.
expect 0 '' "$data" inspect grep '(?i)D[o]G\w' --run run --iterations 5 25 --format jsonl
grep '^{' out.log | cmp - found || fail "an expression finds other pieces than its only text"
expect 0 '' "$data" inspect grep '^d[o]cument [0-9]+: ' --run run --iterations 5 25
grep -q '  text: .*\[document [0-9]*: \]' out.log || { cat out.log; fail "an expression of several tokens"; }
expect 0 'found 0 times' "$data" inspect grep --fixed-strings 'd.gs' --run run --iterations 5 25
expect 2 'is no regular expression: missing ): d(gs' "$data" inspect grep 'd(gs' --run run --iterations 5 25
expect 2 'rampup-batch-size needs --global-batch-size' "$data" inspect grep x --data-path a_text_document --seq-length 8 \
  --train-samples 100 --rampup-batch-size 2 2 8 --sample-range 0 1
grep -q 'whole number of increments' out.log && { cat out.log; fail "increments up to a batch size that was not given"; }
expect 2 'give the pattern' "$data" inspect grep --run run --iteration 1

# stats: the planted document stands on top of a range that holds it.
iteration=$("$data" inspect documents --run run --document 31 --dataset b_text_document --format jsonl | python3 -c \
  'import json, sys; print(next(r["iteration"] for r in json.load(sys.stdin)["readings"] if r["is_logged"] and r["num_tokens"] >= 64))')
expect 0 '' "$data" inspect stats --run run --iterations $((iteration > 3 ? iteration - 3 : 1)) $iteration --top 3
sed -n 2p out.log | grep -qE '^score [0-9.]+ by .*: document 31 of .*/b_text_document, ' || { cat out.log; fail "the planted document is not on top"; }
grep -qF 'from b.jsonl, byte ' out.log || fail "its source"
expect 0 '' "$data" inspect stats --run run --iterations 1 30 --format jsonl --threads 2 && grep '^{' out.log >two
expect 0 '' "$data" inspect stats --run run --iterations 1 30 --format jsonl --threads 1 && grep '^{' out.log | cmp - two || fail "stats depend on threads"
[ "$(wc -l <two)" = 20 ] || fail "--top"

# exposure is the sum of what the samples hold.
expect 0 '' "$data" inspect samples --run run --iterations 1 30 --format jsonl
mv out.log samples
for by in dataset source document; do
  expect 0 '' "$data" inspect exposure --run run --by $by --format jsonl --top 1000
  mv out.log by_$by
done
python3 - <<'PYTHON' || fail "exposure"
import collections, json
by = {name: [json.loads(line) for line in open("by_" + name)] for name in ("dataset", "source", "document")}
counts, documents, inputs = collections.Counter(), collections.Counter(), collections.Counter()
for sample in map(json.loads, open("samples")):
    counts[sample["dataset"]] += 1
    rest = 64
    for part in sample["parts"]:
        tokens = min(rest, part["num_tokens"])
        rest -= tokens
        documents[sample["dataset"], part["document"]] += tokens
        inputs[part["input"]] += tokens
assert sum(counts.values()) == 20 * 8 + 10 * 12
assert {row["dataset"]: (row["samples"], row["tokens"]) for row in by["dataset"]} == {d: (n, 64 * n) for d, n in counts.items()}
assert {row["input"]: row["tokens"] for row in by["source"]} == dict(inputs)
documents = {key: tokens for key, tokens in documents.items() if tokens}
assert {(row["dataset"], row["document"]): row["tokens"] for row in by["document"]} == documents
epochs = [row["epochs"] for row in by["document"]]
assert epochs == sorted(epochs, reverse=True)
for row in by["dataset"]: assert abs(row["epochs"] - row["tokens"] / row["tokens_per_epoch"]) < 1e-9
PYTHON
expect 0 ' samples, ' "$data" inspect exposure --run run --iteration 7
mv run/metrics.jsonl kept
expect 3 'give --iteration' "$data" inspect exposure --run run
expect 3 'run: there is no metrics.jsonl that tells how far the run has come; give --iterations' "$data" inspect diff run run
mv kept run/metrics.jsonl

# Two shares of one dataset: an epoch is both.
shares() {
  expect 0 '' "$data" inspect exposure --train-weighted-split-paths "train: $1" --seq-length 64 --train-iters 10 --global-batch-size 4 \
    --eval-iters 0 --iteration 10 --by $2 --format jsonl
  grep '^{' out.log
}
for by in dataset source; do
  shares "1 0:1 a_text_document" $by >whole
  for parts in "0:0.4 0.4:1" "0.4:1 0:0.4" "0:0.6 0.4:1"; do
    shares "0.5 ${parts% *} a_text_document, 0.5 ${parts#* } a_text_document" $by >parts
    python3 - <<'PYTHON' || { cat whole parts; fail "an epoch of the shares $parts, by $by"; }
import json
whole, parts = ([json.loads(line) for line in open(name)] for name in ("whole", "parts"))
assert len(whole) == len(parts) == 1
for name in ("tokens", "tokens_per_epoch", "epochs"): assert whole[0][name] == parts[0][name], name
PYTHON
  done
done

# Two spellings of one dataset are one for every command that counts or ranks documents.
for suffix in bin idx sources manifest.json; do ln -s a_text_document.$suffix link_text_document.$suffix; done
python3 - $data <<'PYTHON' || fail "two spellings are two datasets"
import json, subprocess, sys
def rows(words):
    more = " --data-path 0.5 a_text_document 0.5 link_text_document --split 1,0,0 --seq-length 64 --train-iters 40 --global-batch-size 6 --eval-iters 0"
    return [json.loads(line) for line in subprocess.run([sys.argv[1], "inspect", *(words + more + " --format jsonl").split()],
            stdout=subprocess.PIPE, check=True).stdout.splitlines()]
samples = rows("samples --sample-range 0 240")
for command in ("stats --sample-range 0 240 --top 1000", "exposure --by document --top 1000", "exposure --by source", "exposure"):
    found = rows(command)
    assert {row["dataset"].rsplit("/")[-1] for row in found} == {"a_text_document"}, (command, found[:2])
    keys = [(row.get("document"), row.get("input")) for row in found]
    assert len(keys) == len(set(keys)), (command, keys)
    if command.startswith("exposure"): assert sum(row["tokens"] for row in found) == 240 * 64, command
[whole] = rows("exposure")
[source] = rows("exposure --by source")
assert whole["samples"] == 240 and whole["tokens_per_epoch"] == source["tokens_per_epoch"], (whole, source)
PYTHON

# The banner of the log tells the same as the run's folder.
expect 0 '' "$data" inspect samples --run run --iterations 1 20 --format jsonl
mv out.log of_run
expect 0 '' "$data" inspect samples --megatron-args train.log --sample-order core --data-parallel-size 1 --iterations 1 20 --format jsonl
grep -v '^no index cache was found' out.log >of_banner
sed "s|$PWD/||g" of_run | cmp - of_banner || fail "the banner of a log"
expect 0 '' "$data" inspect documents --megatron-args train.log --sample-order core --document 31 --dataset b_text_document
expect 2 '--sample-order is required with --megatron-args' "$data" inspect samples --megatron-args train.log --iteration 1
expect 2 '--megatron-args already tells the arguments: leave --seed out' "$data" inspect samples --megatron-args train.log --sample-order core --seed 1 --iteration 1
sed 's/^ 0:   eval_iters [.]* 0/ 0:   eval_iters ................... 1/; s/\(full_validation [.]* \)False/\1True/' train.log >full.log
grep -q 'full_validation .* True' full.log || fail "the banner has no full_validation"
expect 0 '' "$data" inspect samples --megatron-args full.log --sample-order core --data-parallel-size 1 --iterations 1 20 --format jsonl
grep -v '^no index cache was found' out.log | cmp - of_banner || fail "training beside evaluations that are not known"
expect 3 'with full_validation True the samples of validation and test are not computed here' "$data" inspect samples --megatron-args full.log \
  --sample-order core --data-parallel-size 1 --split-name valid --sample-range 0 1
expect 0 'validation is left out: with full_validation True' "$data" inspect documents --megatron-args full.log --sample-order core --data-parallel-size 1 --document 31 \
  --dataset b_text_document
# The curriculum stands in DeepSpeed's file, which the banner names.
echo '{"curriculum_learning": {"enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 64,' \
  '"schedule_type": "fixed_linear", "schedule_config": {"total_curriculum_step": 15, "difficulty_step": 8}}}' >ds.json
expect 0 '' train growing --exit-interval 20 --deepspeed_config ds.json
mv out.log growing.log
expect 0 '' "$data" inspect samples --run growing --iterations 1 20 --format jsonl
sed "s|$PWD/||g" out.log >of_run
expect 0 '' "$data" inspect samples --megatron-args growing.log --sample-order core --data-parallel-size 1 --iterations 1 20 --format jsonl
grep -v '^no index cache was found' out.log | cmp - of_run || fail "the curriculum of DeepSpeed's file"
echo '--seq-length 64' >words
expect 2 'it tells neither train_samples nor train_iters' "$data" inspect samples --megatron-args words --sample-order core --iteration 1

# diff
expect 0 '' train same --exit-interval 20
expect 0 'iterations 1 to 20: all samples are equal' "$data" inspect diff same run --iterations 1 20
# What both have trained is all equal; what only one has is compared if it is asked for.
expect 0 'iterations 1 to 20: all samples are equal' "$data" inspect diff run same
if grep -q 'because of' out.log; then cat out.log; fail "iterations that nobody trained"; fi
expect 0 'from iteration 21 on' "$data" inspect diff run same --iterations 1 30
grep -qF 'because of --global-batch-size: 12 and 8' out.log || { cat out.log; fail "the reason"; }
expect 0 '' train other --exit-interval 10 --seed 99
expect 0 'because of --seed: 1234 and 99' "$data" inspect diff same other
for run in same other; do "$data" inspect samples --run $run --iterations 1 10 --format jsonl >$run.samples; done
expect 0 '' "$data" inspect diff same other --format jsonl
python3 - <<'PYTHON' || fail "diff"
import json
difference = json.load(open("out.log"))
a, b = ([json.loads(line) for line in open(run + ".samples")] for run in ("same", "other"))
different = [(x, y) for x, y in zip(a, b) if x["ids"] != y["ids"]]
assert difference["last_iteration"] == 10
assert len(a) == len(b) == 80 and different
assert difference["different_iterations"] == 10 and difference["first_different_iteration"] == 1
assert difference["reasons"] == ["--seed: 1234 and 99"]
PYTHON
expect 0 '"different_iterations":0' "$data" inspect diff run run --format jsonl
expect 2 'iterations: run: iteration 41 is asked for, but the' "$data" inspect diff run same --iterations 1 41
expect 2 'give two folders' "$data" inspect diff run
expect 4 'run_manifest.json' "$data" inspect diff run absent
echo ok
