#!/usr/bin/env bash
# The layout is that of clang-format 14 (Debian 12's) with .clang-format. Other versions lay out differently, so the test is skipped there.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
clang-format --version 2>/dev/null | grep -q 'version 14\.' || { echo "skipped: clang-format 14 is not installed"; exit 77; }
mapfile -d '' files < <(find tokenizer indexed_dataset preprocess kernels trainer tests -type f -regex '.*\.\(cpp\|h\|cu\|cuh\)' -print0)
[ "${#files[@]}" -gt 400 ] || { echo "FAILED: only ${#files[@]} files were found"; exit 1; }
printf '%s\0' "${files[@]}" | xargs -0 -n 50 -P 2 clang-format --dry-run -Werror --ferror-limit=1 ||
  { echo "FAILED: run clang-format -i on the files above"; exit 1; }
# clang-format leaves comments alone. Tables and drawings, which have runs of blanks, may be wider.
if LC_ALL=C.UTF-8 grep -nE '^.{101,}$' "${files[@]}" | grep -E '^[^:]*:[0-9]+: *//|  // ' | grep -vE '//.*[^ ]  +[^ ]'; then
  echo "FAILED: prose of the comments above passes 100 columns"
  exit 1
fi
