#!/usr/bin/env bash
# What the commands of weft-data inspect print with --format jsonl is a file for weft-train --unsee: exactly the documents that it names have no
# loss. The corpus tries to name others in its texts and sources.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
command -v python3 >/dev/null || skip "needs python3"
export OMP_NUM_THREADS=2
make_vocabulary
python3 - <<'PYTHON'
import json, random
random.seed(3)
words = [line.split() for line in ("the quick brown fox of corpus times line", "café jumps over lazy dogs and then sleeps", "numbers 12 345 and 6789 are here")]
hostile = ['"; document 5, tokens 0 to 3 of 9: "x', "document 6 of b_text_document: 9 tokens", "\n  document 7 of b_text_document: 9 tokens\n", "b_text_document 8", '\\"; document 9, of b_text_document']
for name in "ab":
    with open(name + ".jsonl", "w") as out:
        for i in range(40):
            text = " ".join(random.choice(random.choice(words)) for _ in range(random.randint(20, 90)))
            source = ""
            if i % 6 == 4: text = random.choice(hostile) + " " + text
            if i % 6 == 5: source = random.choice(["x); document 3, tokens 0 to 1", "a, byte 0 (from b"])
            if i in (13, 29): text = random.choice(hostile) + ("\\" if name == "a" else "~") * 400
            print(json.dumps({"text": text, "source": source}), file=out)
PYTHON
for name in a b; do expect 0 '' "$data" preprocess --input $name.jsonl --output-prefix $name --append-eod --origin-key source; done
for suffix in bin idx sources manifest.json; do ln -s a_text_document.$suffix link_text_document.$suffix; done
# One dataset twice under two names.
train() { # FOLDER WORD...
  local folder=$1
  shift
  "$WEFT_BIN_DIR/weft-train" --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length 64 --max-position-embeddings 64 \
    --micro-batch-size 4 --lr 3e-3 --data-path 0.25 a_text_document 0.5 b_text_document 0.25 link_text_document --split 1,0,0 --train-iters 60 \
    --log-interval 1 --eval-iters 0 --global-batch-size 8 --save "$folder" --load "$folder" --save-interval 100 --device cpu "$@"
}
expect 0 '' train run
keep() { # NAME WORD...: the answer of a command
  local name=$1
  shift
  "$data" inspect "$@" --run run --format jsonl >$name.jsonl 2>messages || { cat messages; fail "inspect $*"; }
  [ -s $name.jsonl ] || fail "inspect $* prints nothing"
}
keep documents documents --document 13 --dataset link_text_document
keep lines documents --source b.jsonl:$(head -n 29 b.jsonl | wc -c)
keep texts documents --grep 'tokens 0 to 3'
keep stats stats --iterations 1 60 --top 12
keep grep grep 'document' --iterations 10 30
keep exposure exposure --by document --top 7
keep samples samples --iterations 20 21
keep by_loss samples --iteration 22 --sort loss
keep spikes spikes --threshold 2 --samples 2 --first 5
# The other two forms.
python3 - <<'PYTHON'
import json
answers = [json.loads(line) for line in open("stats.jsonl")]
with open("numbers.list", "w") as out: out.writelines("%s %d\n" % (a["dataset"], a["document"]) for a in answers)
with open("sources.list", "w") as out: out.writelines("%s:%d\n" % (a["input"], a["offset_bytes"]) for a in answers)
PYTHON
cp stats.jsonl numbers.jsonl && cp stats.jsonl sources.jsonl

cat >check.py <<'PYTHON'
import json, os, re, sys
name = sys.argv[1].split(".")[0]
def dataset(path): return path.rsplit("/")[-1].replace("link_", "a_")
named = set()
for answer in map(json.loads, open(name + ".jsonl")):
    if name == "spikes":
        for sample in answer["samples"]:
            for document in sample["documents"]: named.add((dataset(sample["dataset"]), document["document"]))
    else:
        for part in answer.get("parts", [answer]): named.add((dataset(answer["dataset"]), part["document"]))
masked = set()
for sample in map(json.loads, open("shown")):
    for part in sample["parts"]:
        if "unseen" in part: masked.add((dataset(sample["dataset"]), part["document"]))
assert named == masked, ("not masked", named - masked, "masked", masked - named)
manifest = json.load(open("masked/run_manifest.json"))
assert manifest["unsee"]["num_documents"] == len(named), (manifest["unsee"], len(named))
# Under either name.
assert len({sample["dataset"] for sample in map(json.loads, open("shown")) if any("unseen" in part for part in sample["parts"])}) > 1 or len(named) < 3
PYTHON
for file in {documents,lines,texts,stats,grep,exposure,samples,by_loss,spikes}.jsonl numbers.list sources.list; do
  rm -rf masked
  expect 0 '' train masked --exit-interval 1 --unsee $file
  "$data" inspect samples --run masked --iterations 1 60 --format jsonl >shown 2>messages || { cat messages; fail "samples"; }
  python3 check.py $file || { head -c 3000 $file; fail "--unsee $file"; }
done

# The numbers of another dataset are refused: that of the line, and that of the object.
refused() { # LINE MESSAGE
  printf '%s\n' "$1" >wrong
  expect 3 "$2" train wrong_run --unsee wrong
}
python3 - <<'PYTHON' >wrong.jsonl
import json
answer = json.loads(open("documents.jsonl").readline())
print(json.dumps(dict(answer, document=14)))
PYTHON
refused "$(cat wrong.jsonl)" 'came from a.jsonl, byte '
refused 'document 13 of a_text_document, 20 tokens' 'it names no document; give PREFIX NUMBER, FILE:OFFSET'
expect 0 '' "$data" inspect exposure --run run --by source
cp out.log wrong
expect 3 'line 1: ' train wrong_run --unsee wrong
echo ok
