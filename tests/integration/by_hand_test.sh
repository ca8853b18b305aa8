#!/usr/bin/env bash
# The commands of README's "By hand", "Preparing data" and "From easy to hard", taken from the README itself and run on a small corpus: only sizes are made smaller,
# addresses and folders are those of this test, and one process does what srun starts on many nodes.
set -euo pipefail
source_dir=${WEFT_SOURCE_DIR:?} bin=${WEFT_BIN_DIR:?}
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-by-hand.XXXXXX"); server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
cd "$work"
find "$source_dir/trainer" "$source_dir/kernels" -name '*.h' -print0 | sort -z | xargs -0 -I{} jq -Rsc '{text: .}' {} >corpus.jsonl
head -n 20 corpus.jsonl >shard-00.jsonl && tail -n +21 corpus.jsonl >shard-01.jsonl
zstd -q --rm corpus.jsonl shard-00.jsonl shard-01.jsonl
mkdir -p gpt2 build/release fsx/pile fsx/data served
cp shard-0?.jsonl.zst fsx/pile/
if command -v python3 >/dev/null; then
  mv shard-0?.jsonl.zst served/ && (cd served && sha256sum shard-0?.jsonl.zst) >SHA256SUMS
  python3 -u -m http.server --bind 127.0.0.1 --directory served 0 >port.log 2>&1 & # a port from the kernel
  server=$!
  for _ in $(seq 1200); do grep -q ' port [0-9]' port.log && break; sleep 0.05; done
  port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' port.log)
fi
ln -s "$bin" build/release/bin
build/release/bin/weft-data train-vocab --input corpus.jsonl.zst --vocab-size 500 --output gpt2 >/dev/null
export WEFT_GPT2_DIR=$work/gpt2

# The indented blocks under a heading, continuation lines joined.
commands_of() {
  sed -n "/^## $1/,/^## /p" "$source_dir/README.md" | sed -n 's/^    //p' | sed -e ':a' -e '/\\$/N; s/\\\n//; ta'
}
commands=$(commands_of 'By hand' && commands_of 'Preparing data' && commands_of 'From easy to hard')
[ "$(grep -c 'weft-' <<<"$commands")" -ge 12 ] || { echo "FAILED: README has no commands under 'By hand' or 'Preparing data'" >&2; exit 1; }
while IFS= read -r command; do
  case $command in
    cmake*) continue ;;           # tests/run.sh does that
    *hf://* | *s3://*) continue ;;  # preprocess_hub and preprocess_s3 run such beside servers of their own
    *' download '*)
      [ -n "$server" ] || continue
      command="${command//https:\/\/host/http://127.0.0.1:$port} --allow-http"
      ;;
    srun*) command=$(sed -E "s|^srun .*(build/release/bin/)|\\1|; s|/fsx/|$work/fsx/|g; s|--workers [0-9]+|--workers 2|" <<<"$command") ;;
  esac
  small=$(sed -E 's/--num-layers [0-9]+/--num-layers 2/; s/--hidden-size [0-9]+/--hidden-size 64/; s/--num-attention-heads [0-9]+/--num-attention-heads 2/
    s/--seq-length [0-9]+/--seq-length 64/; s/--max-position-embeddings [0-9]+/--max-position-embeddings 64/
    s/--micro-batch-size [0-9]+/--micro-batch-size 2/; s/--global-batch-size [0-9]+/--global-batch-size 4/
    s/--train-iters [0-9]+/--train-iters 12 --split 90,10,0 --eval-iters 1 --device cpu/; s/--lr-warmup-iters [0-9]+/--lr-warmup-iters 2/
    s/--save-interval [0-9]+/--save-interval 10/; s/--iteration [0-9]+/--iteration 7/' <<<"$command")
  case $small in *' analyze '*) small=${small/ --device cpu/} ;; esac  # it has no model
  echo "+ $small"
  eval "$small" >out.log 2>&1 || { cat out.log >&2; echo "FAILED: $small" >&2; exit 1; }
done <<<"$commands"
[ -f fsx/data/pile_text_document.idx ] || { echo "FAILED: no dataset of many nodes" >&2; exit 1; }
[ -f both.idx ] || { ls; echo "FAILED: no merged dataset" >&2; exit 1; }
[ -f my-gpt2_text_document.idx ] && [ -f pile.html ] && [ -f report.json ] && [ -f checkpoints/latest_checkpointed_iteration.txt ] && [ -f my-gpt2-hf/model.safetensors ] ||
  { echo "FAILED: the commands left no dataset, checkpoint or export" >&2; exit 1; }
echo passed
