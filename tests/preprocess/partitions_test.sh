#!/usr/bin/env bash
# --partitions deals documents as Megatron-LM deals lines, --dtype chooses the type of ids: byte for byte as the Python
# reference does both, from several inputs, with lists of strings, several keys, bad lines, and after a kill.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
python=$(command -v python3) || skip "no python3"
reference() { "$python" "$WEFT_SOURCE_DIR/tests/preprocess/reference_preprocess.py" bytes/vocab.json "$@"; }
echo '{"text":"x"}' >one.jsonl
expect 0 '257 entries' "$data" train-vocab --input one.jsonl --vocab-size 257 --output bytes
ours() { # CODE TEXT PREFIX OPTION...
  expect "$1" "$2" "$data" preprocess --output-prefix "$3" --append-eod --vocab-file bytes/vocab.json --merge-file bytes/merges.txt "${@:4}"
}
same() { # REFERENCE OURS
  for suffix in bin idx sources; do cmp "$1.$suffix" "$2.$suffix" || fail "$2.$suffix"; done
  expect 0 'sound' "$data" verify "$2"
}

# Of 1000, 1 and 77 lines: no number of partitions divides any of them. Documents of 0 to 3 sequences, up to 3000 tokens.
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
for partitions in 2 3 7 1000; do
  reference ref a b c --partitions $partitions >num_bad
  reference ref_title a b c --keys title --partitions $partitions >num_bad
  ours 0 '1078 documents' "p$partitions" --input a b c --json-keys text title --partitions $partitions --workers 2
  same ref "p${partitions}_text_document"
  same ref_title "p${partitions}_title_document"
done
cmp -s p2_text_document.bin p3_text_document.bin && fail "2 and 3 partitions gave the same order"
reference whole a b c >num_bad
ours 0 '' sequential --input a b c --partitions 3 --keep-sequential-samples && same whole sequential_text_document
ours 0 '' one --input a b c --partitions 1 && same whole one_text_document
ours 0 '' none --input /dev/null --partitions 5 && expect 0 'documents: 0' "$data" info none_text_document

# A line that is no document is left out before the dealing: what Megatron makes of the corpus without it.
{ head -n 10 a; echo nonsense; sed -n '11,$p' a; } >bad
reference without a --partitions 3 >num_bad
reference ref bad --partitions 3 >num_bad && [ "$(cat num_bad)" = 1 ] && cmp ref.bin without.bin
ours 0 '1 bad line' bad --input bad --partitions 3 --on-bad-line skip && same ref bad_text_document

# A run that is finished, or not, is one of its number of partitions.
ours 0 'is there already' p3 --input a b c --json-keys text title --partitions 3
ours 2 'is a finished dataset' p3 --input a b c --json-keys text title --partitions 4
ours 2 'needs --empty-docs record' x --input a --partitions 2 --empty-docs skip
ours 2 '--shard' x --input a --partitions 2 --shard 0/2
ours 0 '' x --input a --partitions 2 --keep-sequential-samples --empty-docs skip --shard 0/2

# Killed when one of two datasets is dealt: nothing has its name, and the next run deals again.
reference ref a b c --partitions 3 >num_bad
reference ref_title a b c --keys title --partitions 3 >num_bad
expect 137 '' env WEFT_CRASH_AT=documents_dealt bash -c "'$data' preprocess --output-prefix killed --append-eod --input a b c --partitions 3 \
  --vocab-file bytes/vocab.json --merge-file bytes/merges.txt; exit \$?"
[ "$(echo killed*)" = "killed.lock killed.work" ] || fail "a killed run left $(echo killed*)"
ours 2 '--partitions: was 3, is 2' killed --input a b c --partitions 2
ours 0 'going on with the work' killed --input a b c --partitions 3 && same ref killed_text_document

# Two ranks, each with work: the same bytes. One killed in the middle, then rank 0 in the dealing; the same command goes on.
for name in $(env | grep -oE '^(SLURM|OMPI|PMI|PMIX)_[A-Z0-9_]+' || true); do unset "$name"; done
pids=()
trap 'for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
rank() { # RANK PLACES PREFIX [PEER_TIMEOUT]: in the background
  RANK=$1 WORLD_SIZE=2 WEFT_CRASH_AT=$2 "$data" preprocess --output-prefix "$3" --append-eod --input a b c --json-keys text title --partitions 3 \
    --vocab-file bytes/vocab.json --merge-file bytes/merges.txt --workers 2 --peer-timeout "${4:-60}" >"rank$1.log" 2>&1 </dev/null &
  pids[$1]=$!
}
ends() { # RANK CODE TEXT
  local got=0
  wait "${pids[$1]}" || got=$?
  [ $got = "$2" ] || { cat rank*.log >&2; fail "rank $1 ended with $got instead of $2"; }
  [ -z "$3" ] || grep -qF -- "$3" "rank$1.log" || { cat rank*.log >&2; fail "rank $1 did not say '$3'"; }
}
begin() { # PREFIX PLACE_OF_RANK_1 PLACE_OF_RANK_0 [PEER_TIMEOUT]: both have a task before either goes on
  rm -f go.*
  rank 0 "task_given:1:go.0$3" "$1" "${4:-60}"
  rank 1 "task_given:1:go.1$2" "$1" "${4:-60}"
  for _ in $(seq 1200); do [ ! -e go.0.waiting ] || [ ! -e go.1.waiting ] || break; sleep 0.05; done
  touch go.0 go.1
}
begin ranks '' ''
ends 0 0 'rank 1 ' && ends 1 0 ''
same ref ranks_text_document && same ref_title ranks_title_document
begin dying ';piece_written' ';documents_dealt' 4
ends 0 137 'is lost' && ends 1 137 ''
[ "$(echo dying*)" = "dying.lock dying.work" ] || fail "killed ranks left $(echo dying*)"
rank 0 '' dying && rank 1 '' dying
ends 0 0 'going on with the work' && ends 1 0 ''
same ref dying_text_document && same ref_title dying_title_document

# --dtype: forced, and by Megatron's rule.
reference wide a b c --partitions 3 --dtype int32 >num_bad
ours 0 '' wide --input a b c --partitions 3 --dtype int32 && same wide wide_text_document
expect 0 'tokens are int32' "$data" info wide_text_document
ours 0 'is there already' p3 --input a b c --json-keys text title --partitions 3 --dtype uint16
ours 2 'is a finished dataset' p3 --input a b c --json-keys text title --partitions 3 --dtype int32
expect 0 '' "$data" merge wide_text_document wide_text_document --output-prefix twice && expect 0 'sound' "$data" verify twice
expect 3 'token' "$data" merge wide_text_document p3_text_document --output-prefix mixed
