#!/usr/bin/env bash
# Compares Weft with Hugging Face's tokenizers and tiktoken for every family of $WEFT_TOKENIZERS_DIR (families_peers_test.py).
# Skipped (77) without that folder, python3, or a way to install the peers.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
skip() { echo "skipped: $*"; exit 77; }

here=$WEFT_SOURCE_DIR/tests/tokenizer
[[ -n "${WEFT_TOKENIZERS_DIR:-}" ]] || skip "WEFT_TOKENIZERS_DIR is not set"
python=$("$here/test_venv.sh") || skip "no python3 with tiktoken and tokenizers, and they could not be installed"
"$python" "$here/families_peers_test.py" "$WEFT_BIN_DIR/../tests/tokenizer_encode_records" "$WEFT_TOKENIZERS_DIR" "$@"
