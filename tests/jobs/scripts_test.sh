#!/usr/bin/env bash
# The job scripts outside Slurm: help, wrong use, missing packages, missing programs and datasets.
set -euo pipefail
cd "${WEFT_SOURCE_DIR:?}"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
expect() { # CODE PATTERN COMMAND...: exit code and a line of the output
  local code=$1 pattern=$2 status=0; shift 2
  "$@" >"$work/out" 2>&1 </dev/null || status=$?
  [ "$status" = "$code" ] || { cat "$work/out" >&2; fail "$* ended with $status, not $code"; }
  grep -qE -- "$pattern" "$work/out" || { cat "$work/out" >&2; fail "$* did not say: $pattern"; }
}
for script in jobs/*.sh jobs/*.sbatch tests/run.sh; do bash -n "$script" || fail "$script does not parse"; done

expect 0 'usage: jobs/install-deps.sh' jobs/install-deps.sh --help
expect 2 'unknown option --wrong' jobs/install-deps.sh --wrong
expect 0 'install-deps: (missing|all)' jobs/install-deps.sh --tests --dry-run
mkdir "$work/bin"   # a machine without apt-get
for tool in bash sed printf id grep ls head cat; do ln -s "$(command -v $tool)" "$work/bin/$tool" 2>/dev/null || true; done
expect 0 'not Debian or Ubuntu' env PATH="$work/bin" bash jobs/install-deps.sh

expect 0 'usage: jobs/quickstart.sh' jobs/quickstart.sh --help
expect 2 'no such corpus' jobs/quickstart.sh "$work/none.jsonl"
expect 2 'one CORPUS' jobs/quickstart.sh a b

expect 2 'weft-data is not there' env WEFT_BIN="$work" bash jobs/1.data-preprocessing.sbatch
expect 2 'weft-data is not there' env WEFT_BIN="$work" bash jobs/1.data-preprocessing-array.sbatch
expect 1 'PARTS' env WEFT_BIN="${WEFT_BIN_DIR:?}" DATA_PATH="$work" bash jobs/1.data-preprocessing-array.sbatch
expect 3 'sbatch --array=0,1 ' env WEFT_BIN="${WEFT_BIN_DIR:?}" DATA_PATH="$work" PARTS=2 bash jobs/1.data-preprocessing-array.sbatch
expect 0 'jobs/pile.sh \[--nodes N\]' jobs/pile.sh --help
expect 2 'unknown option --wrong' jobs/pile.sh --wrong
expect 2 'no number of machines' jobs/pile.sh --nodes 0
mkdir "$work/pile" "$work/fake"; touch "$work/pile/00.jsonl.zst"
printf '#!/bin/sh\necho "sbatch $*" >&2\necho 17\n' >"$work/fake/sbatch"; chmod +x "$work/fake/sbatch"
pile() { env PATH="$work/fake:$PATH" DATA_PATH="$work/pile" SHARDS="00 01" "$@"; }
expect 1 '01.jsonl.zst is not there: give PILE_URL' pile jobs/pile.sh
expect 0 'afterok:17 --nodes=3 ' pile PILE_URL=https://host/train jobs/pile.sh --nodes 3
expect 0 'download .*https://host/train/01.jsonl.zst' pile PILE_URL=https://host/train jobs/pile.sh --nodes 3
touch "$work/pile/01.jsonl.zst"
expect 0 'jobs 17_0 to 17_1 tokenize, job 17 merges' pile jobs/pile.sh --array
expect 2 'weft-train is not there' env WEFT_BIN="$work" bash jobs/2.distributed-training.sbatch
expect 3 'no dataset .*my-gpt2_text_document' env WEFT_BIN="${WEFT_BIN_DIR:?}" DATA_PATH="$work" bash jobs/2.distributed-training.sbatch

# The training job prints what it would start. A run that goes on keeps its global batch when the number of ranks is another one.
data=$work/data save=$work/data/checkpoints
mkdir -p "$save"; touch "$data/my-gpt2_text_document.idx"
printf '#!/bin/sh\necho "srun $*"\n' >"$work/fake/srun"; chmod +x "$work/fake/srun"
train() { env PATH="$work/fake:$PATH" WEFT_BIN="$WEFT_BIN_DIR" DATA_PATH="$data" SLURM_GPUS_ON_NODE=4 "$@" bash jobs/2.distributed-training.sbatch; }
expect 0 '--ntasks=4 .*--global-batch-size 64 ' train
cat >"$save/run_manifest.json" <<END
{
  "arguments": {
    "micro_batch_size": 16,
    "global_batch_size": 16,
    "seed": 1
  },
  "earlier": [
    {
      "arguments": {
        "global_batch_size": 8
      }
    }
  ]
}
END
expect 0 '--global-batch-size 64 ' train   # nothing was saved, so nothing goes on
echo 20 >"$save/latest_checkpointed_iteration.txt"
expect 2 'has a global batch of 16 samples, which 4 ranks cannot share' train
expect 0 '--ntasks=4 .*--global-batch-size 16 ' train MICRO_BATCH_SIZE=4
expect 0 '--ntasks=4 .*--global-batch-size 16 ' train MICRO_BATCH_SIZE=8 TENSOR_PARALLEL=2
expect 0 '--tensor-model-parallel-size 1 --pipeline-model-parallel-size 2 ' train MICRO_BATCH_SIZE=8 PIPELINE_PARALLEL=2
expect 0 '--ntasks=1 .*--global-batch-size 16 ' train RANKS_PER_NODE=1
expect 0 '--global-batch-size 128 ' train GLOBAL_BATCH_SIZE=128
echo passed
