#!/usr/bin/env bash
# From nothing to a trained model: installs, builds, makes a dataset, trains, resumes, and shows one sample's text.
#
# usage: jobs/quickstart.sh [CORPUS]
#   CORPUS  .jsonl, .gz, .xz, .zst or .bz2 file, or an https URL; default: a small corpus of this repository's own text
#
# Everything it makes lies in build/quickstart (WEFT_QUICKSTART_DIR). WEFT_NO_INSTALL=1 skips installing packages;
# WEFT_BIN_DIR names the folder of programs that are built already.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=${WEFT_QUICKSTART_DIR:-$root/build/quickstart}
bin=${WEFT_BIN_DIR:-$root/build/release/bin}
corpus=${1:-}
started=$SECONDS

step() { printf '\n=== %s\n' "$*"; }
fail() { echo "error: $1" >&2; exit "${2:-1}"; }
download_vocabulary() {  # FOLDER: GPT-2's published files, checked by their SHA-256
  local from=https://s3.amazonaws.com/models.huggingface.co/bert
  mkdir -p "$1" &&
    "$bin/weft-data" download "$from/gpt2-vocab.json" --output "$1/vocab.json" \
      --sha256 196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783 &&
    "$bin/weft-data" download "$from/gpt2-merges.txt" --output "$1/merges.txt" \
      --sha256 1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5
}

case ${1:-} in -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
[ $# -le 1 ] || fail "one CORPUS at most; see jobs/quickstart.sh --help" 2
if [ -n "$corpus" ] && [[ $corpus != https://* ]]; then
  [ -f "$corpus" ] || fail "no such corpus: $corpus (a .jsonl, .gz, .xz, .zst or .bz2 file, or an https URL)" 2
  corpus=$(realpath "$corpus")
fi

step "1/6 build"
mkdir -p "$out"
if [ -n "${WEFT_BIN_DIR:-}" ]; then
  echo "using the programs in $bin"
else
  [ -n "${WEFT_NO_INSTALL:-}" ] || jobs/install-deps.sh
  # Compiling for GPUs takes most of the time, so it is done for those of this machine alone.
  architectures=$(jobs/gpu-architectures.sh)
  if [ -n "$architectures" ]; then
    device=(-DWEFT_CUDA=ON "-DWEFT_CUDA_ARCHITECTURES=$architectures")
    echo "building for the GPU of this machine (compute capability $architectures)"
  else
    device=(-DWEFT_CUDA=OFF)
    echo "no GPU found (nvidia-smi): building for the CPU. To build for GPUs of other machines, where the CUDA toolkit is:"
    echo "    cmake --preset release -DWEFT_UNITY=ON && cmake --build --preset release"
  fi
  cmake --preset release "${device[@]}" -DWEFT_UNITY=ON >"$out/configure.log" 2>&1 || { cat "$out/configure.log" >&2; fail "cmake could not configure"; }
  grep 'CUDA backend:' "$out/configure.log" || true
  cmake --build --preset release -j "$(nproc)" --target weft-data weft-train weft-model
fi

step "2/6 corpus"
if [ -z "$corpus" ]; then
  corpus=$out/repository.jsonl
  # One document for each text file that ships with the repository.
  find README.md jobs tests tokenizer indexed_dataset preprocess kernels trainer -type f \
    \( -name '*.md' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.py' -o -name '*.sbatch' \) \
    -print0 | sort -z | xargs -0 -I{} jq -Rsc --arg source {} '{text: ., source: $source}' {} >"$corpus.part"
  mv "$corpus.part" "$corpus"
  echo "no CORPUS given: using the text of this repository, $(wc -l <"$corpus") documents, $(stat -c %s "$corpus") bytes"
elif [[ $corpus == https://* ]]; then
  url=$corpus
  corpus=$out/$(basename "${url%%\?*}")
  "$bin/weft-data" download "$url" --output "$corpus"
fi

step "3/6 vocabulary and dataset"
vocab=()
dir=${WEFT_GPT2_DIR:-$HOME/.cache/weft/gpt2}
if [ -f "$dir/vocab.json" ] && [ -f "$dir/merges.txt" ]; then
  vocab=(--vocab-file "$dir/vocab.json" --merge-file "$dir/merges.txt")
elif download_vocabulary "$HOME/.cache/weft/gpt2" 2>"$out/download-vocabulary.log"; then
  dir=$HOME/.cache/weft/gpt2
  vocab=(--vocab-file "$dir/vocab.json" --merge-file "$dir/merges.txt")
else
  echo "GPT-2's vocabulary could not be had ($(tail -n 1 "$out/download-vocabulary.log")); learning a small one from the corpus"
  "$bin/weft-data" train-vocab --input "$corpus" --vocab-size 4096 --output "$out/vocabulary" --overwrite
  vocab=(--vocab-file "$out/vocabulary/vocab.json" --merge-file "$out/vocabulary/merges.txt")
fi
# The second time the corpus is another one, or written anew.
"$bin/weft-data" preprocess --input "$corpus" --output-prefix "$out/corpus" --overwrite --append-eod --on-bad-line skip \
  --workers "$(nproc)" "${vocab[@]}"
"$bin/weft-data" verify "$out/corpus_text_document" "${vocab[@]}"

step "4/6 train"
if "$bin/weft-train" --version | grep -q '^CUDA devices: [1-9]'; then
  model=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 8 --bf16
    --train-iters 200 --save-interval 150 --log-interval 10 --device cuda)
  last=200 middle=150
else
  model=(--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 4
    --train-iters 60 --save-interval 40 --log-interval 10 --device cpu)
  last=60 middle=40
fi
schedule=(--lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 10 --weight-decay 0.1 --adam-beta2 0.95
  --hidden-dropout 0.1 --attention-dropout 0.1 --split 90,10,0 --eval-interval 20 --eval-iters 2 --seed 1234)
data=(--data-path "$out/corpus_text_document" "${vocab[@]}")
rm -rf "$out/run" "$out/run-resumed"
"$bin/weft-train" "${model[@]}" "${schedule[@]}" "${data[@]}" --save "$out/run" --tensorboard-dir "$out/run/tensorboard" |
  tee "$out/run.log" | grep -E 'iteration |validation loss|parameters|backend|device'

step "5/6 resume from iteration $middle and compare with the undisturbed run"
"$bin/weft-train" "${model[@]}" "${schedule[@]}" "${data[@]}" --load "$out/run" --ckpt-step "$middle" --save "$out/run-resumed" \
  >"$out/run-resumed.log"
losses() { jq -r --argjson from "$2" 'select(.iteration > $from and .lm_loss != null) | "\(.iteration) \(.lm_loss) \(.grad_norm)"' "$1/metrics.jsonl"; }
if [ "$(losses "$out/run" "$middle" | wc -l)" != "$((last - middle))" ]; then fail "the run did not log iterations $((middle + 1)) to $last"; fi
if diff <(losses "$out/run" "$middle") <(losses "$out/run-resumed" "$middle") >"$out/resume.diff"; then
  echo "losses and gradient norms of iterations $((middle + 1)) to $last are equal to the last bit"
else
  head "$out/resume.diff" >&2
  fail "the resumed run differs from the undisturbed one; see $out/resume.diff"
fi

step "6/6 the text of a sample: what iteration 50 was trained on"
"$bin/weft-data" inspect samples --run "$out/run" --split-name train --iteration 50 --format text >"$out/iteration-50.txt"
sed -n '1,8s/^\(.\{0,300\}\).*/\1/p' "$out/iteration-50.txt"

first_loss=$(losses "$out/run" 0 | awk 'NR == 1 { print $2 }')
last_loss=$(losses "$out/run" 0 | awk 'END { print $2 }')
"$bin/weft-model" export --load "$out/run" --output "$out/hf" --overwrite "${vocab[@]}"
text=$("$bin/weft-model" generate --load "$out/run" --prompt "The model" --tokens 20 "${vocab[@]}" 2>"$out/generate.log" | tr '\n' ' ') ||
  fail "the model wrote no text; see $out/generate.log"
cat <<SUMMARY

=== done in $((SECONDS - started)) s
loss       $first_loss -> $last_loss in $last iterations; the resumed run is bit-equal
text       $text
dataset    $out/corpus_text_document.bin .idx
run        $out/run: checkpoints, metrics.jsonl, run_manifest.json, tensorboard/
log        $out/run.log
HF model   $out/hf (transformers: GPT2LMHeadModel.from_pretrained)
next       build/release/bin/weft-train --help
           DATA_PATH=\$PWD/dataset sbatch jobs/1.data-preprocessing.sbatch
           tests/run.sh
SUMMARY
awk -v a="$first_loss" -v b="$last_loss" 'BEGIN { exit !(b < a) }' || fail "the loss did not fall"
