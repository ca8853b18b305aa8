#!/usr/bin/env bash
# The commands of README's "By hand" and "Preparing data", taken from the README itself and run on a small corpus: only sizes are made smaller.
set -euo pipefail
source_dir=${WEFT_SOURCE_DIR:?} bin=${WEFT_BIN_DIR:?}
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-by-hand.XXXXXX"); trap 'rm -rf "$work"' EXIT
cd "$work"
find "$source_dir/trainer" "$source_dir/kernels" -name '*.h' -print0 | sort -z | xargs -0 -I{} jq -Rsc '{text: .}' {} >corpus.jsonl
head -n 20 corpus.jsonl >shard-00.jsonl && tail -n +21 corpus.jsonl >shard-01.jsonl
zstd -q --rm corpus.jsonl shard-00.jsonl shard-01.jsonl
mkdir -p gpt2 build/release
ln -s "$bin" build/release/bin
build/release/bin/weft-data train-vocab --input corpus.jsonl.zst --vocab-size 500 --output gpt2 >/dev/null
export WEFT_GPT2_DIR=$work/gpt2

# The indented blocks under a heading, continuation lines joined.
commands_of() {
  sed -n "/^## $1/,/^## /p" "$source_dir/README.md" | sed -n 's/^    //p' | sed -e ':a' -e '/\\$/N; s/\\\n//; ta'
}
commands=$(commands_of 'By hand' && commands_of 'Preparing data')
[ "$(grep -c 'weft-' <<<"$commands")" -ge 12 ] || { echo "FAILED: README has no commands under 'By hand' or 'Preparing data'" >&2; exit 1; }
while IFS= read -r command; do
  case $command in
    cmake*) continue ;;           # tests/run.sh does that
    *' download '*) continue ;;   # tests/preprocess/download_test.sh
    srun*) continue ;;            # tests/slurm
  esac
  small=$(sed -E 's/--num-layers [0-9]+/--num-layers 2/; s/--hidden-size [0-9]+/--hidden-size 64/; s/--num-attention-heads [0-9]+/--num-attention-heads 2/
    s/--seq-length [0-9]+/--seq-length 64/; s/--max-position-embeddings [0-9]+/--max-position-embeddings 64/
    s/--micro-batch-size [0-9]+/--micro-batch-size 2/; s/--global-batch-size [0-9]+/--global-batch-size 4/
    s/--train-iters [0-9]+/--train-iters 12 --split 90,10,0 --eval-iters 1 --device cpu/; s/--lr-warmup-iters [0-9]+/--lr-warmup-iters 2/
    s/--save-interval [0-9]+/--save-interval 10/; s/--iteration [0-9]+/--iteration 7/' <<<"$command")
  echo "+ $small"
  eval "$small" >out.log 2>&1 || { cat out.log >&2; echo "FAILED: $small" >&2; exit 1; }
done <<<"$commands"
[ -f both.idx ] || { ls; echo "FAILED: no merged dataset" >&2; exit 1; }
[ -f my-gpt2_text_document.idx ] && [ -f pile.html ] && [ -f report.json ] && [ -f checkpoints/latest_checkpointed_iteration.txt ] && [ -f my-gpt2-hf/model.safetensors ] ||
  { echo "FAILED: the commands left no dataset, checkpoint or export" >&2; exit 1; }
echo passed
