#!/usr/bin/env bash
# Weft's encoder beside its peers from PyPI, in one run on one thread, then the pipeline (data_pipeline.py): usage: data.sh FOLDER
# FOLDER gets the virtual environment, the texts, and encoder.log (every measurement). Needs WEFT_GPT2_DIR (vocab.json, merges.txt)
# and WEFT_CORPUS_DIR (english, multilingual, code .jsonl.zst); WEFT_BUILD_DIR is the build folder (default: build), WEFT_ROUNDS
# the number of rounds (3), WEFT_SYSTEM_MB the size of the text for the cold figure (1100). Weft and gigatoken take turns; the slow ones
# run once.
set -euo pipefail
folder=$(realpath -m "${1:?usage: data.sh FOLDER}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bench=$(realpath "${WEFT_BUILD_DIR:-$here/../../build}")/tests/weft_tokenizer_bench
vocabulary=("${WEFT_GPT2_DIR:?}/vocab.json" "$WEFT_GPT2_DIR/merges.txt")
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$folder"
cd "$folder"

python=$folder/venv/bin/python
if ! "$python" -c 'import gigatoken, tiktoken, tokenizers, zstandard' 2>/dev/null; then
  python3 -m venv venv
  venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: \
    gigatoken==0.10.0 tiktoken==0.14.0 tokenizers==0.23.3 zstandard
fi
[[ -f texts/hard_base64.jsonl ]] ||
  "$python" "$here/encoder_texts.py" texts "${WEFT_SYSTEM_MB:-1100}" "${WEFT_CORPUS_DIR:?}"/{english,multilingual,code}.jsonl.zst

texts=(texts/{english,multilingual,code}.jsonl)
peer() { "$python" "$here/encoder_peers.py" "$1" "$2" "${vocabulary[@]}" "${@:3}" | sed "s/^/$1 /" | tee -a encoder.log; }
weft() { "$bench" "${vocabulary[@]}" "$@" | sed -n '/pieces/s/^/weft /p' | tee -a encoder.log; }
: >encoder.log
for ((round = 0; round < ${WEFT_ROUNDS:-3}; ++round)); do
  weft "${texts[@]}" texts/system.jsonl
  peer gigatoken 5 "${texts[@]}"
  peer gigatoken 1 texts/system.jsonl
done
weft texts/hard_*.jsonl
peer gigatoken 1 texts/hard_*.jsonl
peer tiktoken 1 "${texts[@]}"
peer tokenizers 0 "${texts[@]}"

# The table: medians over the rounds.
"$python" - <<'END'
import collections
import re
import statistics

speeds = collections.defaultdict(list)
tokens = collections.defaultdict(set)
for line in open("encoder.log"):
    words = line.split()
    name = words[1].removesuffix(".jsonl")
    tokens[name].add(re.search(r"(\d+) tokens", line)[1])
    for kind in ("cold", "warm"):
        speeds[name, words[0], kind].append(float(re.search(kind + r"\s+([\d.]+)", line)[1]))
print("| text | MB/s | weft | gigatoken | tiktoken | tokenizers | weft / gigatoken |\n| --- | --- | --- | --- | --- | --- | --- |")
for name in tokens:
    for kind in ("cold", "warm"):
        row = [statistics.median(speeds[name, encoder, kind] or [0]) for encoder in ("weft", "gigatoken", "tiktoken", "tokenizers")]
        cells = " | ".join(f"{speed:.0f}" if speed >= 20 else f"{speed:.1f}" if speed else "-" for speed in row)
        print(f"| {name} | {kind} | {cells} | {row[0] / row[1]:.2f} |")
    if len(tokens[name]) > 1:
        print(f"the encoders disagree on {name}: {sorted(tokens[name])} tokens")
END
python3 "$here/data_pipeline.py" "$folder"
