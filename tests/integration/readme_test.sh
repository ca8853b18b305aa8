#!/usr/bin/env bash
# Files and programs that a README, FROM_MEGATRON.md or the tutorial names exist, and every sub-command and flag it shows is one the program knows.
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
  # flags of commands in indented blocks, continuation lines joined
  while IFS= read -r command; do
    words=$(sed -E 's/.*(weft-train|weft-(data|model) (inspect )?[a-z][a-z-]*).*/\1/' <<<"$command")
    every=--help
    [ "$words" != weft-train ] || every=--help-all
    help=$("${WEFT_BIN_DIR}/"$words $every 2>/dev/null || true)
    while IFS= read -r flag; do
      grep -qE -- "(^|[ ,])$flag( |,|$)" <<<"$help" || say "$readme shows '$words $flag', which the program does not know"
    done < <(grep -oE -- ' --[a-z][a-z0-9-]*' <<<"${command#*weft-}" | tr -d ' ' | sort -u)
  done < <(sed -n 's/^    //p' "$readme" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' | sed 's/ #.*//' | grep -E '(^|[/ ])weft-(data|train|model) ' || true)
done < <(find . \( -name README.md -o -name FROM_MEGATRON.md -o -name tutorial.md \) -not -path './build/*')
# variables that the root README gives to a job are variables of that job
while read -r script command; do
  while IFS= read -r variable; do
    grep -qw "$variable" "$script" || say "README.md gives $variable to $script, which does not know it"
  done < <(grep -oE '\b[A-Z][A-Z_]+=' <<<"$command" | tr -d '=')
done < <(sed -nE 's|^    ([A-Z].*(jobs/[a-z0-9.-]+\.(sbatch\|sh)).*)$|\2 \1|p' README.md)
for variable in $(sed -n '/^Training:/,/^## /p' README.md | grep -oE '\b[A-Z][A-Z]+(_[A-Z]+)+\b' | sort -u); do
  grep -qw "$variable" jobs/2.distributed-training.sbatch || say "README.md names $variable, which jobs/2.distributed-training.sbatch does not know"
done
exit $bad
