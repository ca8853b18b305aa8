#!/usr/bin/env bash
# The manifest of jobs/kubernetes (kubernetes_test.py).
set -euo pipefail
command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
exec python3 "${WEFT_SOURCE_DIR:?}/tests/jobs/kubernetes_test.py"
