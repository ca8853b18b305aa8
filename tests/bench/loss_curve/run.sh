#!/usr/bin/env bash
# Loss on real data: GPT-2 124M, bf16, 300 steps of 64 x 1024 tokens, beside PyTorch with the same initial weights, data order
# and schedule. Needs a GPU, PyTorch and transformers.
#
# usage: tests/bench/loss_curve/run.sh DATASET_PREFIX OUTPUT_DIR [STEPS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${WEFT_BIN_DIR:-$here/../../../build/release/bin}
dataset=$1 out=$2 steps=${3:-300}
mkdir -p "$out"
python3 "$here/torch_curve.py" init "$out/hf-initial"
"$bin/weft-model" import --input "$out/hf-initial" --save "$out/initial"
"$bin/weft-train" --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 \
  --micro-batch-size 64 --global-batch-size 64 --train-iters "$steps" --lr-decay-iters 300 --lr-warmup-iters 60 \
  --lr 3e-4 --min-lr 3e-5 --lr-decay-style cosine --weight-decay 0.1 --clip-grad 1.0 --adam-beta1 0.9 --adam-beta2 0.95 \
  --attention-dropout 0 --hidden-dropout 0 --bf16 --device cuda --seed 1234 --split 99,1,0 --eval-iters 0 \
  --data-path "$dataset" --vocab-size 50257 --load "$out/initial" --finetune --save "$out/run" --save-interval 100000 --log-interval 10
python3 "$here/torch_curve.py" train "$out/hf-initial" "$dataset" "$steps" "$out/torch.jsonl"
python3 "$here/torch_curve.py" compare "$out/run/metrics.jsonl" "$out/torch.jsonl"
