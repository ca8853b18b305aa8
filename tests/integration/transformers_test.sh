#!/usr/bin/env bash
# Logits of imported and exported models, generated text and scores equal those of Hugging Face's transformers. Needs python3 with torch and transformers.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
python3 -c 'import torch, transformers, safetensors' 2>/dev/null || { echo "skipped: python3 has no torch and transformers"; exit 77; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 tests/integration/transformers_test.py "${WEFT_BIN_DIR:?}/../tests/dump_logits" "$WEFT_BIN_DIR/weft-model" "$work" "$@"
python3 tests/integration/transformers_text_test.py "$WEFT_BIN_DIR/weft-model" "$work" "$@"
