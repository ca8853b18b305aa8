#!/usr/bin/env bash
# weft-data inspect --megatron-args shows what the index caches of such a run say: those of exactly the names that follow from its
# arguments, in --data-cache-path.
. "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit
command -v python3 >/dev/null || skip "needs python3"
make_vocabulary
make_corpus 60 >a.jsonl
make_corpus 40 >b.jsonl
for name in a b; do expect 0 '' "$data" preprocess --input $name.jsonl --output-prefix $name --append-eod; done

# Megatron's files are those of weft-data without its stamps: the same bytes under the same names.
as_megatron() { rm -f "$1"/*weft.json "$1"/*.lock; }
# Turns the order of the samples in every shuffle index of a folder round.
turn_round() {
  python3 - "$1" <<'PYTHON'
import os, sys
for name in os.listdir(sys.argv[1]):
    if not name.endswith("shuffle_index.npy") and not name.endswith("shuffle_idx.npy"): continue
    path = os.path.join(sys.argv[1], name)
    data = bytearray(open(path, "rb").read())
    entries = [data[i:i + 4] for i in range(128, len(data), 4)]
    data[128:] = b"".join(reversed(entries))
    open(path, "wb").write(data)
PYTHON
}
show() { expect 0 "$1" "$data" inspect samples --megatron-args "$2" --sample-order "$order" --sample-range 0 40 --format jsonl "${@:3}"; grep '^{' out.log; }

for order in core core-0.10 legacy bigscience; do
  for blend in "a_text_document" "0.3 a_text_document 0.7 b_text_document"; do
    args="--seq-length 16 --train-samples 200 --global-batch-size 4 --eval-iters 0 --split 90,5,5 --seed 7"
    echo "--data-path $blend $args" >plain.args
    echo "--data-path $blend --data-cache-path cache $args" >cached.args
    show 'no index cache was found: the indexes are built from the arguments' plain.args >built
    rm -rf cache
    expect 0 '' "$data" index --data-path $blend --sample-order $order --data-cache-path cache ${args/--global-batch-size 4/}
    show "the indexes are mapped from caches" cached.args >with_stamps
    cmp built with_stamps || fail "$order: our own caches"
    # Where only some of our own are there, the others are built from the same arguments.
    if [[ $order = core && $blend = 0.3* ]]; then
      cp -r cache cache.whole
      rm $(grep -l '"dataset_path": "b_text' cache/*-GPTDataset-*-description.txt | sed 's/description.txt$/*/') cache/*BlendedDataset*
      show "some indexes are mapped from caches that weft-data has built" cached.args >some
      cmp built some || fail "some of our own caches"
      rm -r cache; mv cache.whole cache
    fi
    as_megatron cache
    show "the indexes are mapped from caches" cached.args >mapped
    cmp built mapped || fail "$order: Megatron's caches"
    find cache -name '*weft*' | grep . && fail "the run's folder was written to"
    # The run has read what the cache says.
    turn_round cache
    show "the indexes are mapped from caches" cached.args >turned
    cmp -s built turned && fail "$order: the cache was not read"
    # So are numbers of datasets that a blend does not have.
    if [[ $order = core && $blend = 0.3* ]]; then
      cp -r cache cache.whole
      python3 - <<'PYTHON'
import glob
[path] = glob.glob("cache/*-dataset_index.npy")
data = bytearray(open(path, "rb").read())
data[128:130] = b"\xff\xff"
open(path, "wb").write(data)
PYTHON
      expect 3 'it has samples of a dataset -1' "$data" inspect samples --megatron-args cached.args --sample-order $order --sample-range 0 4
      rm -r cache; mv cache.whole cache
    fi
    # Caches of other data are refused, not used.
    for suffix in bin idx; do mv a_text_document.$suffix kept.$suffix; cp b_text_document.$suffix a_text_document.$suffix; done
    expect 3 'does not fit a_text_document' "$data" inspect samples --megatron-args cached.args --sample-order $order --sample-range 0 4
    for suffix in bin idx; do mv kept.$suffix a_text_document.$suffix; done
  done
done

# Caches of Megatron that are there for some of the indexes only are not those of the run: a blend of Megatron-Core 0.10 in the order of
# later versions (31 samples of a and 72 of b against 32 and 72).
blend="0.3 a_text_document 0.7 b_text_document"
args="--seq-length 16 --train-samples 101 --eval-iters 0 --split 90,5,5 --seed 7"
echo "--data-path $blend --data-cache-path cache10 $args --global-batch-size 4" >mixed.args
expect 0 '' "$data" index --data-path $blend --sample-order core-0.10 --data-cache-path cache10 $args
as_megatron cache10
order=core-0.10 show "the indexes are mapped from caches" mixed.args >/dev/null
expect 3 'index caches of Megatron, but none of a_text_document for 32 samples' "$data" inspect samples --megatron-args mixed.args --sample-order core --sample-range 0 4
# Those for another number of samples are of another run.
echo "--data-path a_text_document --data-cache-path cache10 $args --global-batch-size 4" >single.args
order=core show "no index cache was found" single.args >/dev/null
rm -r cache10

# What a weft-data left that was killed while it replaced Megatron's files is not shown: the document index comes last.
order=core
echo "--data-path $blend --data-cache-path begun $args --global-batch-size 4" >begun.args
expect 0 '' "$data" index --data-path $blend --data-cache-path begun $args
as_megatron begun
rm begun/*GPTDataset-train-document_index.npy begun/*BlendedDataset-train-dataset_index.npy
show "no index cache was found" begun.args >/dev/null
# A writer that is still at it has its lock there.
expect 0 '' "$data" index --data-path $blend --data-cache-path begun $args
for stamp in begun/*weft.json; do mv "$stamp" "$stamp.lock"; done
show "no index cache was found" begun.args >/dev/null
grep -q 'with a lock, as begun/.*weft\.json\.lock, are not shown' out.log || { cat out.log; fail "the lock is not named"; }
# A lock beside caches that are shown hides nothing.
rm begun/*.lock
touch begun/another-weft.json.lock
show "the indexes are mapped from caches" begun.args >/dev/null
grep -q 'with a lock' out.log && fail "a lock of another index is named"
rm -r begun

# A shuffle index of Megatron's that has a sample twice is refused.
expect 0 '' "$data" index --data-path $blend --data-cache-path begun $args
as_megatron begun
python3 - <<'PYTHON'
import glob
path = sorted(glob.glob("begun/*train-shuffle_index.npy"))[0]
data = bytearray(open(path, "rb").read())
data[128:132] = data[132:136]
open(path, "wb").write(data)
PYTHON
expect 3 'shuffle_index.npy, has a sample twice and another one never' "$data" inspect samples --megatron-args begun.args --sample-order core --sample-range 0 4
rm -r begun

# Descriptions of Megatron's name its tokenizer: files built with one have the names of Megatron's.
# Newer versions describe it otherwise than by two files.
expect 0 '' "$data" index --data-path $blend --data-cache-path theirs $args
as_megatron theirs
python3 - theirs <<'PYTHON'
import hashlib, json, os, sys
folder = sys.argv[1]
def rename(value):
    for dataset in value.get("datasets", []): rename(dataset)
    if "tokenizer" in value: value["tokenizer"] = {"class": "megatron.core.tokenizers.text.libraries.Other", "tokenizer_path": "/v"}
for name in [name for name in os.listdir(folder) if name.endswith("-description.txt")]:
    path = os.path.join(folder, name)
    description = json.load(open(path))
    rename(description)
    text = json.dumps(description, indent=4)
    open(path, "w").write(text)
    for file in os.listdir(folder):
        if file.startswith(name[:32]): os.rename(os.path.join(folder, file), os.path.join(folder, hashlib.md5(text.encode()).hexdigest() + file[32:]))
PYTHON
cp "$(ls theirs/*-GPTDataset-train-description.txt | head -n 1)" description.txt
described() { "$data" index --data-path $blend --data-cache-path ours $args --dataset-description "$@"; }
expect 0 '' described description.txt
diff <(ls theirs) <(ls ours | grep -v weft) || fail "names by --dataset-description"
expect 0 '' described "$(ls theirs/*-BlendedDataset-train-description.txt)"
# So are those of a run found by one of its descriptions, and not without it.
echo "--data-path $blend --data-cache-path theirs $args --global-batch-size 4" >theirs.args
show "no index cache was found" theirs.args >built
show "the indexes are mapped from caches" theirs.args --dataset-description description.txt >mapped
cmp built mapped || fail "caches of another tokenizer"
rm -r theirs ours
refused() {
  printf '%s' "$2" >wrong.txt
  expect 2 'wrong.txt: it is no description of a dataset with a tokenizer' described wrong.txt
  grep -q "$1" out.log || { cat out.log; fail "'$1' is not told"; }
}
refused 'it has no .class' '[]'
refused 'it has no .class' '{"tokenizer": {"class": "x"}}'
whole='"class": "GPTDataset", "dataset_path": "a", "index_split": "train", "sequence_length": 16'
refused 'it has no object .tokenizer' "{$whole}"
refused 'it has no object .tokenizer' "{$whole, \"tokenizer\": \"x\"}"
refused 'the integer 18446744073709551616 in it does not fit 64 bits' "{$whole, \"tokenizer\": {\"n\": 18446744073709551616}}"
refused 'nested too deeply' "$(printf '[%.0s' $(seq 100))"
refused 'parse error' '{'
mkfifo pipe
expect 4 "pipe', which is no regular file" timeout --signal=KILL 20 "$data" index --data-path $blend --data-cache-path ours $args --dataset-description pipe
rm pipe
expect 2 'of --sample-order legacy do not tell the tokenizer, leave it out' described description.txt --sample-order legacy
[ ! -e ours ] || fail "an index was built with a wrong description"

# Without --split the caches have the names that follow from Megatron's default.
expect 0 '' "$data" index --data-path a_text_document --data-cache-path default --seq-length 16 --train-samples 50
grep -q '"split": "969, 30, 1"' default/*-GPTDataset-train-description.txt || fail "the default of --split"
[ "$(md5sum <"$(ls default/*description.txt)" | cut -c1-32)" = "$(ls default | grep description | cut -c1-32)" ] || fail "the name of the default"
# A look by hand maps what is there and writes nothing: the folder may be another user's.
by_hand=(inspect samples --data-path a_text_document --seq-length 16 --global-batch-size 4 --sample-range 0 4)
ls -l --time-style=full-iso default >before
expect 0 '' "$data" "${by_hand[@]}" --train-samples 60 --data-cache-path default
expect 0 '' "$data" "${by_hand[@]}" --train-samples 50 --data-cache-path default
ls -l --time-style=full-iso default | diff before - || fail "a look wrote to the folder of caches"
expect 0 '' "$data" "${by_hand[@]}" --train-samples 50 --data-cache-path absent
[ ! -e absent ] || fail "a look made a folder of caches"
rm -r default

echo "--data-path a_text_document --data-cache-path cache --seq-length 16 --train-samples 200 --global-batch-size 4 --eval-iters 0 --split 90,5,5 --seed 7" >plain.args
rm -rf cache
expect 0 '' "$data" index --data-path a_text_document --data-cache-path cache --seq-length 16 --train-samples 200 --split 90,5,5 --seed 7
as_megatron cache

# The same numbers of documents and tokens in another order have caches of the same sizes, and are found where samples are read.
python3 - <<'PYTHON'
import shutil, struct
index = bytearray(open("a_text_document.idx", "rb").read())
count = int.from_bytes(index[18:26], "little")
lengths = struct.unpack_from(f"<{count}i", index, 34)
lengths = lengths[:40][::-1] + lengths[40:]  # all of them are for training
pointers = [2 * sum(lengths[:i]) for i in range(count)]
shutil.copy("a_text_document.idx", "a.idx.kept")
struct.pack_into(f"<{count}i", index, 34, *lengths)
struct.pack_into(f"<{count}q", index, 34 + 4 * count, *pointers)
open("a_text_document.idx", "wb").write(index)
PYTHON
expect 3 'its sample index does not fit its documents' "$data" inspect samples --megatron-args plain.args --sample-order core --sample-range 0 200
mv a.idx.kept a_text_document.idx

# Numbers that point out of bounds are an error, not a crash.
python3 - <<'PYTHON'
import glob
[path] = glob.glob("cache/*document_index.npy")
data = bytearray(open(path, "rb").read())
data[128:] = b"\xff\xff\xff\x7f" * ((len(data) - 128) // 4)
open(path, "wb").write(data)
PYTHON
expect 3 'its sample index does not fit its documents' "$data" inspect samples --megatron-args plain.args --sample-order core --sample-range 0 4
echo ok
