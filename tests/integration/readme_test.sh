#!/usr/bin/env bash
# Files and programs that a README names exist, and every sub-command and flag it shows is one the program knows.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
bad=0
say() { echo "$1" >&2; bad=1; }
while IFS= read -r readme; do
  dir=$(dirname "$readme")
  # [text](path) links inside the repository
  while IFS= read -r link; do
    [ -e "$dir/$link" ] || [ -e "$link" ] || say "$readme links to $link, which does not exist"
  done < <(grep -oE '\]\([^)#:]+\)' "$readme" | sed -E 's/^\]\(//; s/\)$//')
  # programs with their sub-commands and flags, in fenced or indented blocks
  while IFS= read -r program; do
    [ -x "${WEFT_BIN_DIR:?}/$program" ] || say "$readme names $program, which is not built"
  done < <(grep -oE '\bweft-(data|train|model)\b' "$readme" | sort -u)
  while read -r program command; do
    "${WEFT_BIN_DIR}/$program" "$command" --help >/dev/null 2>&1 || say "$readme shows '$program $command', which the program does not know"
  done < <(grep -oE 'bin/weft-(data|model) [a-z][a-z-]+' "$readme" | sed 's|bin/||' | sort -u)
done < <(find . -name README.md -not -path './build/*')
exit $bad
