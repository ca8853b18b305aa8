#!/usr/bin/env bash
# --partitions against the steps of Megatron-LM's own script with Megatron-Core's builder from PyPI. Needs the network at the first run
# (30 MB), so it runs only where WEFT_PEER_TESTS=1 asks for it.
[ "${WEFT_PEER_TESTS:-0}" = 1 ] || { echo "skipped: set WEFT_PEER_TESTS=1 to compare with megatron-core from PyPI"; exit 77; }
venv=${XDG_CACHE_HOME:-$HOME/.cache}/weft/test-venv-megatron
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if ! "$venv/bin/pip" show -q megatron-core 2>/dev/null; then
  mkdir -p "$(dirname "$venv")"
  { python3 -m venv "$venv" && "$venv/bin/pip" install -q numpy && "$venv/bin/pip" install -q --no-deps megatron-core==0.16.1; } ||
    skip "numpy and megatron-core could not be installed from PyPI"
fi
echo '{"text":"x"}' >one.jsonl
expect 0 '257 entries' "$data" train-vocab --input one.jsonl --vocab-size 257 --output bytes

# Of 700, 1 and 93 lines, with lists, empty texts, line ends of both kinds, compressed and not.
"$venv/bin/python" - <<'PYTHON'
import gzip, json, random
random.seed(11)
words = ["fox", "dog ", "\u00e9", "\U0001F98A", "\n", "\u2028"]
def text(): return "".join(random.choices(words, k=random.choice([0, 1, 5, 20, 400])))
for name, count in (("a.jsonl", 700), ("b.jsonl.gz", 1), ("c.jsonl", 93)):
    lines = [json.dumps({"text": text() if i % 3 else [text() for _ in range(random.randrange(4))], "n": i}, ensure_ascii=i % 2 == 0) for i in range(count)]
    body = "".join(line + ("\r\n" if name == "c.jsonl" else "\n") for line in lines).encode()
    open(name, "wb").write(gzip.compress(body) if name.endswith("gz") else body)
PYTHON
inputs=(a.jsonl b.jsonl.gz c.jsonl)
for partitions in 2 3 8 797; do
  "$venv/bin/python" "$WEFT_SOURCE_DIR/tests/preprocess/partitions_peer.py" bytes/vocab.json peer $partitions text "${inputs[@]}" ||
    fail "the peer with $partitions partitions"
  expect 0 '794 documents' "$data" preprocess --input "${inputs[@]}" --output-prefix "p$partitions" --append-eod --workers 2 \
    --vocab-file bytes/vocab.json --merge-file bytes/merges.txt --partitions $partitions
  cmp peer.bin "p${partitions}_text_document.bin" && cmp peer.idx "p${partitions}_text_document.idx" || fail "$partitions partitions"
done
echo "2, 3, 8 and 797 partitions: equal"
