#!/usr/bin/env bash
# The output for the corpora with GPT-2's vocabulary equals, by digest, that of a re-implementation of Megatron-LM's algorithm.
gpt2=${WEFT_GPT2_DIR:-}
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
[ -n "$gpt2" ] && [ -n "${WEFT_CORPUS_DIR:-}" ] || skip "WEFT_GPT2_DIR or WEFT_CORPUS_DIR is not set"
export WEFT_GPT2_DIR=$gpt2
# SHA-256 of .bin and .idx made by a re-implementation of Megatron-LM's algorithm (as reference_preprocess.py, with
# tiktoken 0.14.0 encode_ordinary and --append-eod) on 2026-11-20; ids equal to Hugging Face tokenizers 0.23.3.
while read -r name bin idx; do
  for workers in 1 3; do
    expect 0 '0 bad lines' "$data" preprocess --input "$WEFT_CORPUS_DIR/$name.jsonl.zst" --output-prefix $name --overwrite --append-eod --workers $workers
    [ "$(sha256sum <${name}_text_document.bin | cut -c 1-64)" = $bin ] || fail "$name.bin"
    [ "$(sha256sum <${name}_text_document.idx | cut -c 1-64)" = $idx ] || fail "$name.idx"
  done
done <<DIGESTS
english 87643d8925ff0c72000fb7dd0e64c5425f5236e65fdf51e7d0f188d76b8da09f 8d539a0742890b97edb1eece62251d5f25e7483a19c6c4056ae617629bbc4fc4
multilingual 0e63ec1787e3a8a4dfad71deb89017fe0c1463305a1bdff8e998e456391c397b 55f188c6b146deffff360a5625ba405af0f0f662050e169753704c8413f3de31
code e8977ef5057c01e831d67808f9541e6bb9cf6528473c32efb4059d5f8b57cf72 2c39a5362ad3fdd7d993aa7cf06e7365a3b084de82f5106177e1a660f8c156c9
nasty 542cd41044f06617f0c973918c6c4334361916510e97437ee4aad316d0517c08 e5881f5c20d8d9c20e3f7369f553eb433bc19dfb938d488d3829df2ea659c97b
DIGESTS
