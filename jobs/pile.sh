#!/usr/bin/env bash
# The Pile: 30 shards of zstd, 426 GB, to one Megatron dataset, as Slurm jobs that wait for each other: download, tokenize.
#
#   DATA_PATH=/fsx/pile PILE_URL=https://HOST/pile/train jobs/pile.sh [--nodes N] [--array]
#
#   --nodes N   machines that tokenize together (default: 8)
#   --array     as an array of 30 single machines, and a job that merges
#
# PILE_URL is where 00.jsonl.zst to 29.jsonl.zst lie (the first host, the-eye.eu, no longer has them: name a mirror that you may use);
# shards that are in $DATA_PATH already are not fetched, and with all 30 there PILE_URL is not needed. PILE_SHA256SUMS, a file or
# URL as sha256sum prints it, checks them. SHARDS="00 01" takes fewer. Prints the jobs' numbers and ends; run it again after trouble:
# what is done stays done.
#
# What to expect: a shard is one zstd frame, which one thread decompresses at 0.7 GB/s of text. So up to 30 machines have something to
# do, and nothing ends before the 45 s that the longest of 28 GB takes; two machines of 96 cores need about 90 s, and as long as
# their file system needs to give 426 GB and take 400 GB of tokens twice (spill files), which are then read back once
# (simulated: tests/bench/results/2026-11-22-last-passes.md).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

nodes=8 as_array=0
while [ $# -gt 0 ]; do
  case $1 in
    --nodes) nodes=${2:?--nodes N}; shift 2 ;;
    --array) as_array=1; shift ;;
    -h | --help) sed -n '2,19s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "error: unknown option $1; see jobs/pile.sh --help" >&2; exit 2 ;;
  esac
done
if [[ ! $nodes =~ ^[1-9][0-9]*$ ]]; then echo "error: --nodes $nodes is no number of machines" >&2; exit 2; fi

: "${DATA_PATH:?give DATA_PATH, a folder that all machines see, with room for 1.3 TB}"
export DATA_PATH WEFT_HOME=${WEFT_HOME:-$(dirname "$here")}
export WEFT_BIN=${WEFT_BIN:-$WEFT_HOME/build/release/bin} OUTPUT_PREFIX=${OUTPUT_PREFIX:-$DATA_PATH/pile}
: "${SHARDS:=$(seq -f %02g -s ' ' 0 29)}"
command -v sbatch >/dev/null || { echo "error: sbatch is not there; this recipe is for a Slurm cluster" >&2; exit 2; }
mkdir -p "$DATA_PATH"

inputs=() urls=()
for shard in $SHARDS; do
  inputs+=("$DATA_PATH/$shard.jsonl.zst")
  [ -f "$DATA_PATH/$shard.jsonl.zst" ] || urls+=("${PILE_URL:?$DATA_PATH/$shard.jsonl.zst is not there: give PILE_URL}/$shard.jsonl.zst")
done

after=()
if [ ${#urls[@]} -gt 0 ]; then
  checked=()
  if [ -n "${PILE_SHA256SUMS:-}" ]; then checked=(--sha256sums "$PILE_SHA256SUMS"); fi
  command=$(printf '%q ' "$WEFT_BIN/weft-data" download --output-folder "$DATA_PATH" "${checked[@]}" "${urls[@]}")
  id=$(sbatch --parsable --job-name=pile-download --requeue --open-mode=append --output="$DATA_PATH/%x_%j.out" --wrap "$command")
  echo "job $id fetches ${#urls[@]} shards; log: $DATA_PATH/pile-download_$id.out"
  after=(--dependency="afterok:$id")
fi

export INPUT="${inputs[*]}"
log="$DATA_PATH/%x_%j.out"
if [ $as_array = 0 ]; then
  id=$(sbatch --parsable "${after[@]}" --nodes="$nodes" --output="$log" "$here/1.data-preprocessing.sbatch")
  echo "job $id tokenizes on $nodes machines; log: $DATA_PATH/weft-preprocess_$id.out"
else
  last=$((${#inputs[@]} - 1))
  id=$(sbatch --parsable "${after[@]}" --array="0-$last" --output="$DATA_PATH/%x_%A_%a.out" "$here/1.data-preprocessing-array.sbatch")
  merge=$(PARTS=${#inputs[@]} sbatch --parsable --dependency="afterok:$id" --output="$log" "$here/1.data-preprocessing-array.sbatch")
  echo "jobs ${id}_0 to ${id}_$last tokenize, job $merge merges; log: $DATA_PATH/weft-preprocess_$merge.out"
fi
echo "the dataset will be ${OUTPUT_PREFIX}_text_document.bin and .idx"
