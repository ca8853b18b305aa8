#!/usr/bin/env bash
# Decompression beside zstd, xz, gzip and bzip2, on one text made of the corpus (53 MB). Prints a Markdown table; takes about a minute,
# most of it for compressing.
#
# usage: WEFT_CORPUS_DIR=FOLDER tests/bench/decompression.sh BUILD_FOLDER
set -euo pipefail
build=${1:?usage: tests/bench/decompression.sh BUILD_FOLDER}
bench=$(realpath "$build/bin/weft_decompress_bench")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for part in english code multilingual; do zstd -dcq "${WEFT_CORPUS_DIR:?}/$part.jsonl.zst"; done >"$work/text"
cd "$work"
zstd -q -3 text -o one-frame.zst
split -b 4M --filter='zstd -q -3' text >frames-of-4-MiB.zst
xz -1 -T1 -c text >one-block.xz
xz -1 -T2 --block-size=4MiB -c text >blocks-of-4-MiB.xz
gzip -6 -c text >one-member.gz
bzip2 -9 -c text >one-stream.bz2
"$bench" ./*.zst ./*.xz ./*.gz ./*.bz2
echo "with WEFT_GZIP=zlib:"
WEFT_GZIP=zlib "$bench" ./*.gz
