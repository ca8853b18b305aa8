#!/usr/bin/env bash
# What jobs/container/Dockerfile names exists: files that it copies, the preset, CMake's options and the package's programs. The job scripts
# start their programs in an image, by pyxis's options or by apptainer.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
recipe=jobs/container/Dockerfile
while read -r copied; do
  [ -e "$copied" ] || fail "$recipe copies $copied, which is not there"
done < <(sed -nE 's/^COPY ([^-][^ ]*) .*/\1/p' "$recipe")
grep -oE -- '--preset [a-z]+' "$recipe" | while read -r _ preset; do grep -q "\"name\": \"$preset\"" CMakePresets.json || fail "no preset $preset"; done
grep -oE 'WEFT_[A-Z_]+=' "$recipe" | sort -u | while read -r option; do
  grep -rqE "(option|set)\(${option%=}[ )]|${option%=}\b" CMakeLists.txt kernels/CMakeLists.txt || fail "CMake knows no ${option%=}"
done
# Shell of RUN lines, continuation lines joined, parses.
sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$recipe" | sed -n 's/^RUN //p' >"$work/runs.sh"
[ "$(wc -l <"$work/runs.sh")" -ge 4 ] && bash -n "$work/runs.sh" || fail "the commands of RUN do not parse"
grep -q 'build-arg EFA_INSTALLER' jobs/container/README.md && grep -q '^ARG EFA_INSTALLER=$' "$recipe" || fail "README and Dockerfile disagree on EFA_INSTALLER"

# srun and apptainer print what they would start.
mkdir "$work/fake" "$work/data"
touch "$work/data/my-gpt2_text_document.idx" "$work/data/oscar-1GB.jsonl"
printf '#!/bin/sh\necho "srun $*"\n' >"$work/fake/srun"; chmod +x "$work/fake/srun"
started() { # SCRIPT PATTERN SETTING...
  env PATH="$work/fake:/usr/bin:/bin" WEFT_HOME="$work" DATA_PATH="$work/data" DEVICE=cpu "${@:3}" bash "jobs/$1" >"$work/out" 2>&1 ||
    { cat "$work/out" >&2; fail "$1 with ${*:3}"; }
  grep -qE -- "$2" "$work/out" || { cat "$work/out" >&2; fail "$1 with ${*:3} does not start: $2"; }
}
started 1.data-preprocessing.sbatch '^srun .* --container-image=weft.sqsh /usr/bin/weft-data preprocess' CONTAINER=--container-image=weft.sqsh
started 1.data-preprocessing.sbatch '^srun .* apptainer exec --nv weft.sif /usr/bin/weft-data preprocess' APPTAINER=weft.sif
started 2.distributed-training.sbatch '^srun .* --container-image=weft.sqsh /usr/bin/weft-train --num-layers' CONTAINER=--container-image=weft.sqsh
started 2.distributed-training.sbatch '^srun .* apptainer exec --nv weft.sif /usr/bin/weft-train --num-layers' APPTAINER=weft.sif
echo passed
