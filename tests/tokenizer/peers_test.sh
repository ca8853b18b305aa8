#!/usr/bin/env bash
# Compares Weft with tiktoken and Hugging Face's tokenizers (peers_test.py), which are installed from PyPI into a cached
# virtual environment. Skipped (77) without GPT-2's vocabulary, python3 or a way to install them.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
skip() { echo "skipped: $*"; exit 77; }

here=$WEFT_SOURCE_DIR/tests/tokenizer
[[ -n "${WEFT_GPT2_DIR:-}" && -f "$WEFT_GPT2_DIR/vocab.json" ]] || skip "WEFT_GPT2_DIR is not set"
python=$("$here/test_venv.sh") || skip "no python3 with tiktoken and tokenizers, and they could not be installed"
"$python" "$here/peers_test.py" "$WEFT_BIN_DIR/../tests/tokenizer_encode_records" "$WEFT_GPT2_DIR" \
  ${WEFT_CORPUS_DIR:+"$WEFT_CORPUS_DIR"}
