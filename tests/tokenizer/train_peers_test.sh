#!/usr/bin/env bash
# Compares learned vocabularies with Hugging Face's trainer (train_peers_test.py). Skipped (77) where it cannot be installed.
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
here=$WEFT_SOURCE_DIR/tests/tokenizer
if ! python=$("$here/test_venv.sh"); then
  echo "skipped: no python3 with tokenizers, and it could not be installed"
  exit 77
fi
work_dir=$(mktemp -d)
trap 'rm -rf "$work_dir"' EXIT
"$python" "$here/train_peers_test.py" "$WEFT_BIN_DIR/weft-data" "$work_dir" ${WEFT_CORPUS_DIR:+"$WEFT_CORPUS_DIR"}
