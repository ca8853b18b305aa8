#!/usr/bin/env bash
# Options of Megatron-LM's scripts: --partitions is accepted and said to be without effect, --dtype chooses the type of ids. Byte
# for byte as the Python reference, from several inputs, with lists of strings, several keys and bad lines.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
python=$(command -v python3) || skip "no python3"
reference() { "$python" "$WEFT_SOURCE_DIR/tests/preprocess/run/reference_preprocess.py" bytes/vocab.json "$@"; }
echo '{"text":"x"}' >one.jsonl
expect 0 '257 entries' "$data" train-vocab --input one.jsonl --vocab-size 257 --output bytes
ours() { # CODE TEXT PREFIX OPTION...
  expect "$1" "$2" "$data" preprocess --output-prefix "$3" --append-eod --vocab-file bytes/vocab.json --merge-file bytes/merges.txt "${@:4}"
}
same() { # REFERENCE OURS
  for suffix in bin idx sources; do cmp "$1.$suffix" "$2.$suffix" || fail "$2.$suffix"; done
  expect 0 'sound' "$data" verify "$2"
}

# Three files of 1000, 1 and 77 lines: documents of 0 to 3 sequences, up to 3000 tokens.
"$python" - <<'PYTHON'
import json, random
random.seed(5)
words = ["fox", "dog ", "\u00e9", "\U0001F98A", "\n"]
def text(): return "".join(random.choices(words, k=random.choice([0, 1, 5, 20, 700])))
for name, count in (("a", 1000), ("b", 1), ("c", 77)):
    with open(name, "w", newline="\r\n" if name == "c" else "\n") as out:
        for i in range(count):
            value = text() if i % 3 else [text() for _ in range(random.randrange(4))]
            print(json.dumps({"text": value, "n": i, "title": text()}), file=out)
PYTHON
reference ref a b c >num_bad
reference ref_title a b c --keys title >num_bad
ours 0 '1078 documents' plain --input a b c --json-keys text title --workers 2
same ref plain_text_document && same ref_title plain_title_document
grep -q partitions out.log && fail "a note on --partitions, which was not given"

# --partitions: the same dataset, and a note; it is no other run.
ours 0 'note: --partitions has no effect' p3 --input a b c --json-keys text title --partitions 3 --workers 2
same ref p3_text_document && same ref_title p3_title_document
ours 0 'is there already' p3 --input a b c --json-keys text title --partitions 4
ours 0 '' sequential --input a b c --partitions 3 --keep-sequential-samples && same ref sequential_text_document
grep -q 'no effect' out.log && fail "--keep-sequential-samples asks for the order of the input"
ours 2 '--partitions' x --input a --partitions 0

# A line that is no document is left out: what Megatron makes of the corpus without it.
{ head -n 10 a; echo nonsense; sed -n '11,$p' a; } >bad
reference without a >num_bad
reference ref_bad bad >num_bad && [ "$(cat num_bad)" = 1 ] && cmp ref_bad.bin without.bin
ours 0 '1 bad line' bad --input bad --on-bad-line skip && same ref_bad bad_text_document

# --dtype: forced, and by Megatron's rule.
reference wide a b c --dtype int32 >num_bad
ours 0 '' wide --input a b c --dtype int32 && same wide wide_text_document
expect 0 'tokens are int32' "$data" info wide_text_document
ours 0 'is there already' p3 --input a b c --json-keys text title --dtype uint16
ours 2 'is a finished dataset' p3 --input a b c --json-keys text title --dtype int32
expect 0 '' "$data" merge wide_text_document wide_text_document --output-prefix twice && expect 0 'sound' "$data" verify twice
expect 3 'token' "$data" merge wide_text_document p3_text_document --output-prefix mixed
