#!/usr/bin/env bash
# Weft beside its peers from PyPI, in one run: usage: data.sh [--parts texts,encoder,...]   (default: all)
#
#   texts    makes what the others read: the corpora of WEFT_CORPUS_DIR, hard texts, 1 GB of distinct text out of Debian packages
#   encoder  English, code and many languages, one thread, cold and warm, beside gigatoken, tiktoken and tokenizers
#   big      the 1 GB of distinct text, cold and warm, beside gigatoken
#   hard     single words of 1 and 100 MB: speed and memory
#   threads  two threads against one
#   decode   ids to text
#   pipeline, formats, memory, megatron   from .jsonl to .bin/.idx on disk (data_pipeline.py); they read what texts made
#
# The environment, packages, texts and bench.log (every measurement) stay in WEFT_BENCH_CACHE (default ~/.cache/weft/bench); what is there is not
# made again. Needs WEFT_GPT2_DIR (vocab.json, merges.txt) and WEFT_CORPUS_DIR (english, multilingual, code .jsonl.zst); WEFT_BUILD_DIR is
# the build folder (default: build/release), WEFT_ROUNDS how often Weft and gigatoken take turns (3). Speeds are MB (10^6 bytes of text) a
# second of processor time, for the machine may be shared; of the pipeline by the clock as well, by which its goal is judged (data_pipeline.py).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
parts=texts,encoder,big,hard,threads,decode,pipeline,formats,memory,megatron
while (($#)); do
  case $1 in
    --parts) parts=${2:?--parts needs a list} && shift 2 ;;
    *) sed -n '2,17s/^# \{0,1\}//p' "$0" && exit 2 ;;
  esac
done
build=$(realpath "${WEFT_BUILD_DIR:-$here/../../build/release}")
folder=$(realpath -m "${WEFT_BENCH_CACHE:-$HOME/.cache/weft/bench}")
vocabulary=("${WEFT_GPT2_DIR:?}/vocab.json" "$WEFT_GPT2_DIR/merges.txt")
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$folder/texts" "$folder/debs"
cd "$folder"
python=$folder/venv/bin/python

# One line a text in bench.log: PART PROGRAM TEXT ... | cold N warm N MB/s
weft() { "$build/tests/weft_tokenizer_bench" "${vocabulary[@]}" "${@:2}" | sed -n "/pieces/s/^/$1 weft /p" | tee -a bench.log; }
peer() { "$python" "$here/encoder_peers.py" "$2" "$3" "${vocabulary[@]}" "${@:4}" | sed "s/^/$1 $2 /" | tee -a bench.log; }
# Best of the repetitions of weft-data encode, in a form like that.
weft_data() {
  "$build/bin/weft-data" encode --vocab-file "${vocabulary[0]}" --merge-file "${vocabulary[1]}" --quiet "${@:2}" |
    sed -E "s/.* ([0-9.]+) MB a second of processor time.*/\1/" | sort -n | tail -1 | sed "s/^/$1 weft /; s/$/ MB\/s/" | tee -a bench.log
}

install_peers() {
  "$python" -c 'import gigatoken, tiktoken, tokenizers, zstandard' 2>/dev/null && return
  python3 -m venv venv
  venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: \
    gigatoken==0.10.0 tiktoken==0.14.0 tokenizers==0.23.3 zstandard
}

# Documentation first; the kernel's sources fill up what is missing.
packages=(linux-doc-6.1 rust-doc openjdk-17-doc cppreference-doc-en-html libstdc++-12-doc libboost1.74-doc python3.11-doc postgresql-doc-15
  sqlite3-doc cmake-doc manpages-dev manpages-de manpages-fr git-doc perl-doc dict-gcide dict-foldoc dict-wn bible-kjv-text octave-doc
  nodejs-doc emacs-common golang-1.19-src linux-source-6.1)

part_texts() {
  [[ -f texts/hard_base64_100.txt && -f texts/english.txt ]] ||
    "$python" "$here/encoder_texts.py" texts 100 "${WEFT_CORPUS_DIR:?}"/{english,multilingual,code}.jsonl.zst
  [[ -f texts/sources.jsonl ]] && return
  local debs=() package
  for package in "${packages[@]}"; do
    compgen -G "debs/${package}_*.deb" >/dev/null || (cd debs && apt-get download -qq "$package")
    debs+=("$(compgen -G "debs/${package}_*.deb" | tail -1)")
  done
  python3 "$here/package_texts.py" texts/prose.jsonl texts/sources.part 1050 "${debs[@]}"
  mv texts/sources.part texts/sources.jsonl
}

part_encoder() {
  local texts=(texts/{english,code,multilingual}.jsonl) round
  for ((round = 0; round < ${WEFT_ROUNDS:-3}; ++round)); do
    weft encoder "${texts[@]}"
    peer encoder gigatoken 5 "${texts[@]}"
  done
  peer encoder tiktoken 1 "${texts[@]}"
  peer encoder tokenizers 0 "${texts[@]}"
}

part_big() {
  local text
  for text in texts/{prose,sources}.jsonl; do
    weft big "$text"
    peer big gigatoken 1 "$text"
  done
}

# Memory: what the program holds at its peak, text and ids included, as a multiple of the text's size.
part_hard() {
  local text
  weft hard texts/hard_*_{1,100}.txt
  for text in texts/hard_*_100.txt; do
    "$python" - "$text" "$build/bin/weft-data" encode --vocab-file "${vocabulary[0]}" --merge-file "${vocabulary[1]}" --quiet --input "$text" <<'END' | tee -a bench.log
import os, resource, subprocess, sys
subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, check=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(f"memory weft {os.path.basename(sys.argv[1])} {peak / 1e6:.0f} MB, {peak / os.path.getsize(sys.argv[1]):.2f} x the text")
END
  done
}

part_threads() {
  local name round
  for round in 1 2 3; do for name in english code multilingual; do
    weft_data "threads_1 $name" --input "texts/$name.txt" --repeat 12 --threads 1
    weft_data "threads_2 $name" --input "texts/$name.txt" --repeat 12 --threads 2
  done; done
}

part_decode() {
  local name
  for name in english code multilingual; do
    "$build/bin/weft-data" encode --vocab-file "${vocabulary[0]}" --merge-file "${vocabulary[1]}" --input "texts/$name.txt" >texts/ids
    weft_data "decode $name" --decode --input texts/ids --repeat 8
  done
}

part_pipeline() { WEFT_BUILD_DIR=$build python3 "$here/data_pipeline.py" "$folder" pipeline; }
part_formats() { WEFT_BUILD_DIR=$build python3 "$here/data_pipeline.py" "$folder" formats; }
part_memory() { WEFT_BUILD_DIR=$build python3 "$here/data_pipeline.py" "$folder" memory; }
part_megatron() { WEFT_BUILD_DIR=$build python3 "$here/data_pipeline.py" "$folder" megatron; }

: >bench.log
install_peers
for part in ${parts//,/ }; do
  declare -F "part_$part" >/dev/null || { echo "data.sh: no part '$part'" >&2 && exit 2; }
  "part_$part"
done
echo
"$python" "$here/data_table.py" bench.log
