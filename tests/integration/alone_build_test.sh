#!/usr/bin/env bash
# Each source compiles alone, with all warnings: tests/run.sh compiles those of a room together (WEFT_UNITY), where one may lean on what
# another includes, and -Wshadow is off.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
cmake --preset dev -B build/alone -DWEFT_UNITY=OFF >build/alone.log 2>&1 || { cat build/alone.log; exit 1; }
cmake --build build/alone -j "$(nproc)"
