# Sourced by the script tests: a scratch folder, the program, checks, and a small vocabulary.
set -euo pipefail
data=$WEFT_BIN_DIR/weft-data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# A vocabulary of its own, so that no test depends on files that are not in the repository, or on the network.
unset WEFT_GPT2_DIR
export HOME=$work/home
mkdir -p "$HOME"

fail() { echo "FAILED: $*" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 77; }

# expect CODE TEXT COMMAND...: runs it, wants that exit code, and TEXT (a fixed string; "" for none) in what it prints.
expect() {
  local want=$1 text=$2 got=0
  shift 2
  "$@" >out.log 2>&1 </dev/null || got=$?
  [ "$got" = "$want" ] || { cat out.log >&2; fail "exit code $got instead of $want: $*"; }
  [ -z "$text" ] || grep -qF -- "$text" out.log || { cat out.log >&2; fail "'$text' was not printed by: $*"; }
}

# A corpus of COUNT lines whose text depends on the line.
make_corpus() {
  seq 1 "$1" | sed 's/.*/{"text": "line & of the corpus: the quick brown fox, caf\\u00e9 & times", "n": &}/'
}

make_vocabulary() {
  make_corpus 50 >vocabulary.jsonl
  expect 0 'entries learned' "$data" train-vocab --input vocabulary.jsonl --vocab-size 300 --output gpt2
  export WEFT_GPT2_DIR=$work/gpt2
}

# Variables of a launcher that this test may run under.
forget_launchers() {
  local name
  for name in $(env | grep -oE '^(SLURM|OMPI|PMI|PMIX)_[A-Z0-9_]+' || true); do unset "$name"; done
}
