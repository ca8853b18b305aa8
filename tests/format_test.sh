#!/usr/bin/env bash
# Layout is settled by clang-format 14 (Debian 12's) and .clang-format; other versions lay out differently and are not asked.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
clang-format --version 2>/dev/null | grep -q 'version 14\.' || { echo "skipped: clang-format 14 is not installed"; exit 77; }
find tokenizer indexed_dataset preprocess kernels trainer tests -type f \
  \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 | xargs -0 clang-format --dry-run -Werror 2>&1 |
  grep -E '^[^ ]+:[0-9]+:[0-9]+: error' | cut -d: -f1 | sort | uniq -c >"${TMPDIR:-/tmp}/weft-format.$$" || true
trap 'rm -f "${TMPDIR:-/tmp}/weft-format.$$"' EXIT
[ ! -s "${TMPDIR:-/tmp}/weft-format.$$" ] || { echo "clang-format -i these:"; cat "${TMPDIR:-/tmp}/weft-format.$$"; exit 1; }
