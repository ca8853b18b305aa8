#!/usr/bin/env bash
# Includes must follow the map of libraries (README): preprocess -> {tokenizer, indexed_dataset},
# trainer -> {indexed_dataset, kernels}; the leaves include only themselves.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:-$(dirname "$0")/..}"
declare -A allowed=(
  [tokenizer]="tokenizer" [indexed_dataset]="indexed_dataset" [kernels]="kernels"
  [preprocess]="preprocess tokenizer indexed_dataset" [trainer]="trainer indexed_dataset kernels")
bad=0
for folder in "${!allowed[@]}"; do
  while IFS=: read -r file line text; do
    target=$(sed -E 's/.*"([^"/]+)\/.*/\1/' <<<"$text")
    if [[ "$text" != *'"'*/*'"'* ]]; then
      echo "$file:$line: include from the root of the project: $text"; bad=1
    elif ! grep -qw -- "$target" <<<"${allowed[$folder]}"; then
      echo "$file:$line: $folder must not include $target"; bad=1
    fi
  done < <(grep -rnE '^\s*#\s*include\s*"' --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' "$folder" || true)
done
exit $bad
