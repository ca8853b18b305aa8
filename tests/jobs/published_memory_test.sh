#!/usr/bin/env bash
# Plans, with what the other program allocates otherwise, are within 15 % of nearly all memory that bigscience published.
set -euo pipefail
python3 "${WEFT_SOURCE_DIR:?}/tests/jobs/published_memory.py" --weft-train "${WEFT_BIN_DIR:?}/weft-train" --least 58
echo passed
