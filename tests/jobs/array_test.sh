#!/usr/bin/env bash
# jobs/1.data-preprocessing-array.sbatch without Slurm: parts under two keys, a merge that is killed between the keys and while it removes the
# parts, and again after its end.
source "$WEFT_SOURCE_DIR/tests/preprocess/lib.sh" || exit 1
for name in $(env | grep -oE '^(SLURM|OMPI|PMI|PMIX)_[A-Z0-9_]+' || true); do unset "$name"; done
make_vocabulary
seq 1 400 | sed 's/.*/{"text": "line & of the corpus", "title": "the title of &"}/' >a.jsonl
sed 's/of/from/' a.jsonl >b.jsonl
expect 0 'wrote' "$data" preprocess --ranks off --input a.jsonl b.jsonl --json-keys text title --output-prefix one --append-eod

# srun runs the program itself, and fails or kills the job at the call whose number is in `fail_at`.
mkdir bin
cat >bin/srun <<'SRUN'
#!/usr/bin/env bash
count=$(($(cat "$SRUN_COUNT" 2>/dev/null || echo 0) + 1)); echo $count >"$SRUN_COUNT"
while [[ $1 == -* ]]; do shift; done
[ "$count" != "${FAIL_AT:-0}" ] || { kill -9 $PPID; exit 137; }
exec "$@"
SRUN
# rm stops the job at the first file of the part that is named in STOP_AT_RM.
cat >bin/rm <<'RM'
#!/usr/bin/env bash
if [ -n "${STOP_AT_RM:-}" ] && [[ "$*" == *$STOP_AT_RM* ]]; then kill -9 $PPID; exit 137; fi
exec /bin/rm "$@"
RM
chmod +x bin/*
export PATH=$work/bin:$PATH SRUN_COUNT=$work/count WEFT_BIN=$WEFT_BIN_DIR DATA_PATH=$work INPUT="a.jsonl b.jsonl" JSON_KEYS="text title" WORKERS=1
export OUTPUT_PREFIX=$work/array
job() { # CODE TEXT [NAME=VALUE...]
  /bin/rm -f count
  expect "$1" "$2" env "${@:3}" SLURM_JOB_ID=1 bash "$WEFT_SOURCE_DIR/jobs/1.data-preprocessing-array.sbatch"
}
make_parts() {
  for index in 0 1 2; do
    job 0 "part $index of 3" SLURM_ARRAY_TASK_ID=$index SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=0
  done
}
whole() {
  for key in text title; do
    for suffix in bin idx sources; do cmp "one_${key}_document.$suffix" "array_${key}_document.$suffix" || fail "$key.$suffix"; done
  done
  [ -z "$(find . -name 'array.part*')" ] || fail "left: $(find . -name 'array.part*')"
}
merge() { job "$@" PARTS=3; }

make_parts
merge 137 '' FAIL_AT=2
[ -f array_text_document.idx ] && [ ! -e array_title_document.idx ] || fail "it was not killed between the keys"
merge 0 'is there already' && whole
merge 0 'is merged already'
job 3 '--array=0,1,2,3 ' PARTS=4

/bin/rm -f array_*
make_parts
merge 137 '' STOP_AT_RM=part-00001-of-00003_text
[ ! -e array.part-00000-of-00003_text_document.bin ] && [ -e array.part-00002-of-00003_text_document.bin ] || fail "it was not killed while it removed"
merge 0 'dataset: ' && whole

# One part is lost before the merge: it is named, and nothing is merged.
/bin/rm -f array_*
make_parts
/bin/rm array.part-00001-of-00003_title_document.idx
merge 3 'PARTS=3 sbatch --array=1 '
[ ! -e array_text_document.idx ] || fail "merged without all parts"
