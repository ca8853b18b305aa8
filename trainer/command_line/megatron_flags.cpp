#include "trainer/command_line/megatron_flags.h"

#include <utility>

namespace weft {

std::span<const KnownFlag> flags_without_effect() {
  static constexpr std::string_view kFused = "there is one path here, and it is fused";
  static constexpr std::string_view kFp32 = "always so here";
  static constexpr std::string_view kScaledInit =
      "proj and fc2 always begin smaller, by sqrt(2 * num-layers)";
  static constexpr std::string_view kAlways = "always on here";
  static constexpr KnownFlag kFlags[] = {
      {"--use-mcore-models", 0, "there is one model here"},
      {"--use-legacy-models", 0, "there is one model here"},
      {"--transformer-impl", 1, "there is one model here"},
      {"--use-flash-attn", 0, "the head size chooses attention's kernels"},
      {"--attention-backend", 1, "the head size chooses attention's kernels"},
      {"--no-masked-softmax-fusion", 0, kFused},
      {"--no-bias-dropout-fusion", 0, kFused},
      {"--no-gradient-accumulation-fusion", 0, kFused},
      {"--no-persist-layer-norm", 0, kFused},
      {"--no-rope-fusion", 0, kFused},
      {"--no-bias-swiglu-fusion", 0, kFused},
      {"--abort-on-unmet-fused-kernel-constraints", 0, kFused},
      {"--attention-softmax-in-fp32", 0, kFp32},
      {"--accumulate-allreduce-grads-in-fp32", 0, kFp32},
      {"--fp16-lm-cross-entropy", 0,
       "logits keep the type of the weights, and the loss is computed of them in fp32 without a copy"},
      {"--fp8-interval", 1, "scales follow every step"},
      {"--no-query-key-layer-scaling", 0,
       "attention scores are fp32, scaling them changes nothing"},
      {"--apply-query-key-layer-scaling", 0,
       "attention scores are fp32, scaling them changes nothing"},
      {"--use-scaled-init-method", 0, kScaledInit},
      {"--use-scaled-init", 0, kScaledInit},
      {"--use-cpu-initialization", 0, "initial weights never depend on the device"},
      {"--no-save-rng", 0, "random numbers are counters, there is no state to save"},
      {"--no-load-rng", 0, "random numbers are counters, there is no state to load"},
      {"--deepspeed-activation-checkpointing", 0, "--checkpoint-activations needs no DeepSpeed"},
      {"--exit-signal-handler", 0, kAlways},
      {"--tokenizer-type", 1, "the dataset is tokenized already; the vocabulary is only counted",
       "GPT2BPETokenizer"},
      {"--data-impl", 1, "datasets are always memory maps", "mmap|infer"},
      {"--mmap-warmup", 0, "datasets are always memory maps"},
      {"--dataloader-fast-cache-load", 0,
       "each process maps the index caches that are there by itself, and none waits for rank 0"},
      {"--dataloader-defer-npy-index-mmap", 0,
       "an index is mapped by each process itself, and read once, so that damage is noticed"},
      {"--per-dataset-sequences-path", 1,
       "a dataset is opened in constant time, whatever it holds: nothing need be counted before"},
      {"--DDP-impl", 1, "gradients are reduced in buckets", "local|torch"},
      {"--deepspeed", 0, "only the file of --deepspeed_config matters"},
      {"--local_rank", 1, "MPI numbers the ranks"},
      {"--local-rank", 1, "MPI numbers the ranks"},
      {"--optimizer", 1, "adam", "adam"},
      {"--use-precision-aware-optimizer", 0,
       "bf16 weights always have 17 bits of their fp32 masters beside them, and --exp-avg-dtype counts "
       "without it"},
      {"--optimizer-offload-fraction", 1, "--optimizer-offload moves the whole state", "1.0|1"},
      {"--use-torch-optimizer-for-cpu-offload", 0, "the device makes every update"},
      {"--overlap-cpu-optimizer-d2h-h2d", 0, kAlways},
      {"--main-params-dtype", 1, kFp32, "fp32"},
      {"--main-grads-dtype", 1, kFp32, "fp32"},
      {"--sync-tp-duplicated-parameters", 0, "tensor-parallel copies cannot drift here"},
      {"--overlap-grad-reduce", 0, "gradients are always reduced in buckets while backward runs"},
      {"--overlap-param-gather", 0, "parameters are always gathered while the next forward begins"},
      {"--ckpt-format", 1, "checkpoints are safetensors"},
      {"--tensorboard-queue-size", 1, "events are written at once"},
      {"--timing-log-option", 1, "times are those of the last rank"},
      {"--log-progress", 0, kAlways},
      {"--log-timers-to-tensorboard", 0, kAlways},
      {"--log-batch-size-to-tensorboard", 0, kAlways},
      {"--log-validation-ppl-to-tensorboard", 0, kAlways},
      {"--log-memory-to-tensorboard", 0, kAlways},
      {"--log-world-size-to-tensorboard", 0, kAlways},
      {"--log-level", 1, "all of the log is printed"},
      {"--log-level-replica", 1, "all of the log is printed"},
      {"--codecarbon-dir", 1, "energy is not measured"},
      {"--wandb-project", 1, "metrics.jsonl and event files can be uploaded"},
      {"--wandb-exp-name", 1, "metrics.jsonl and event files can be uploaded"},
      {"--valid-num-workers", 1, "--num-workers serves all sets"},
      {"--context-parallel-size", 1, "a rank has whole sequences", "1"},
      {"--expert-model-parallel-size", 1, "there are no experts", "1"},
      {"--no-create-attention-mask-in-dataloader", 0, "attention masks are never made"},
      {"--manual-gc", 0, "there is no garbage collector"},
      {"--manual-gc-interval", 1, "there is no garbage collector"},
      {"--no-align-grad-reduce", 0, "each bucket is reduced when all of its gradients are there"},
      {"--no-align-param-gather", 0, "each bucket is gathered when its weights are updated"},
      {"--no-overlap-p2p-communication", 0, "stages never compute while they exchange"},
  };
  return kFlags;
}

std::span<const KnownFlag> flags_not_supported() {
  static constexpr std::string_view kShared =
      "give --sequence-parallel, with which ranks share what is kept of a layer";
  static constexpr std::string_view kAllLayers =
      "all layers have fp8 products, or none: leave the flag out";
  static constexpr std::string_view kShape =
      "residuals are those before the norm: leave the flag out";
  static constexpr std::string_view kRotary = "rotary positions are not scaled: leave the flag out";
  static constexpr std::string_view kProfile =
      "give --profile-steps FIRST:LAST, which profiles every rank";
  static constexpr std::string_view kForcedIndex =
      "indexes follow from the data, --split, --seq-length and --seed, for weft-data analyze as well: "
      "leave the flag out";
  static constexpr std::string_view kStages =
      "give the layers of each stage to --pp-partition-method, as \"5,7,7,5\"";
  static constexpr std::string_view kEmptyEnd =
      "give the first stage no layer by --pp-partition-method, as in \"0,8,8,8\"";
  static constexpr std::string_view kEnds =
      "the embedding and the head count for no layer; give the layers of each stage to "
      "--pp-partition-method, as \"5,7,7,5\"";
  static constexpr KnownFlag kFlags[] = {
      {"--no-check-for-nan-in-loss-and-grad", 0,
       "weights that have become NaN stay NaN; give --skip-bad-steps N, which leaves out such updates"},
      {"--fp8-param-gather", 0, "ranks gather bf16 weights: leave the flag out"},
      {"--tp-only-amax-red", 0,
       "all ranks that share a tensor share its scale, also with copies of the model: leave the flag out"},
      {"--first-last-layers-bf16", 0, kAllLayers},
      {"--num-layers-at-start-in-bf16", 1, kAllLayers},
      {"--num-layers-at-end-in-bf16", 1, kAllLayers},
      {"--check-weight-hash-across-dp-replicas-interval", 1,
       "give --check-weights-interval, which compares more"},
      {"--profile", 0, kProfile},
      {"--profile-step-start", 1, kProfile},
      {"--profile-step-end", 1, kProfile},
      {"--profile-ranks", -1, kProfile},
      {"--use-pytorch-profiler", 0, kProfile},
      {"--decoder-first-pipeline-num-layers", 1, kStages},
      {"--decoder-last-pipeline-num-layers", 1, kStages},
      {"--pipeline-model-parallel-layout", 1, kStages},
      {"--account-for-embedding-in-pipeline-split", 0, kEnds},
      {"--account-for-loss-in-pipeline-split", 0, kEnds},
      {"--distribute-checkpointed-activations", 0, kShared},
      {"--distribute-saved-activations", 0, kShared},
      {"--partition-activations", 0, kShared},
      {"--checkpoint-in-cpu", 0, "what is kept stays on the device: leave the flag out"},
      {"--geglu", 0, "give --glu-activation geglu"},
      {"--init-method-xavier", 0, "use --init-method-std"},
      {"--standalone-embedding-stage", 0, kEmptyEnd},
      {"--virtual-pipeline-model-parallel-size", 1, "give --num-virtual-stages-per-pipeline-rank"},
      {"--overlap-p2p-communication", 0,
       "stages exchange tensors between micro-batches: leave it out"},
      {"--tp-comm-overlap", 0,
       "sums over tensor-parallel ranks are not cut into parts: leave it out"},
      {"--apply-residual-connection-post-layernorm", 0, kShape},
      {"--openai-gelu", 0, "its formula is the default tanh GELU: leave the flag out"},
      {"--onnx-safe", 0, "use --no-bias-gelu-fusion for the erf GELU"},
      {"--no-position-embedding", 0, "give --position-embedding-type none"},
      {"--rotary-seq-len-interpolation-factor", 1, kRotary},
      {"--use-rope-scaling", 0, kRotary},
      {"--init-method-xavier-uniform", 0, "use --init-method-std"},
      {"--start-weight-decay", 1, "weight decay is constant: give --weight-decay alone"},
      {"--end-weight-decay", 1, "weight decay is constant: give --weight-decay alone"},
      {"--window-size", -1, "tokens attend to all before them: leave the flag out"},
      {"--num-experts", 1, "there are no mixtures of experts: leave the flag out"},
      {"--save-retain-interval", 1, "give --keep-last, with --keep-every for the intervals"},
      {"--embedding-dropout", 1, "the embedding has the dropout of --hidden-dropout"},
      {"--sgd-momentum", 1, "the optimizer is adam"},
      {"--use-bnb-optimizer", 0, "the optimizer is adam"},
      {"--kill-switch-path", 1, "send SIGTERM: the step ends, a checkpoint is saved, exit code 10"},
      {"--skip-train-iteration-range", -1, "no ranges can be skipped in this version"},
      {"--iterations-to-skip", -1, "no ranges can be skipped in this version"},
      {"--mock-data", 0, "give --data-path"},
      {"--null-tokenizer-eod-id", 1, "give --eod-token-id"},
      {"--train-idx-path", 1, kForcedIndex},
      {"--train-desc-path", 1, kForcedIndex},
      {"--train-doc-idx-path", 1, kForcedIndex},
      {"--train-sample-idx-path", 1, kForcedIndex},
      {"--train-shuffle-idx-path", 1, kForcedIndex},
      {"--universal-checkpoint", 0, "every checkpoint loads on every topology: leave the flag out"},
      {"--use-checkpoint-args", 0, "give the arguments; they are compared with the checkpoint's"},
      {"--inference", 0, "weft-train only trains"},
      {"--log-num-zeros-in-grad", 0, "the gradient norm is logged"},
  };
  return kFlags;
}

std::string_view megatron_name_of(std::string_view flag) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"--learning-rate", "--lr"},
      {"--min-learning-rate", "--min-lr"},
      {"--batch-size", "--micro-batch-size"},
      {"--train-batch-size", "--global-batch-size"},
      {"--per-device-train-batch-size", "--micro-batch-size"},
      {"--gradient-accumulation-steps", "--global-batch-size, in samples of a whole step"},
      {"--max-steps", "--train-iters"},
      {"--num-steps", "--train-iters"},
      {"--epochs", "--train-iters or --train-samples"},
      {"--num-epochs", "--train-iters or --train-samples"},
      {"--num-train-epochs", "--train-iters or --train-samples"},
      {"--warmup", "--lr-warmup-fraction"},
      {"--warmup-steps", "--lr-warmup-iters"},
      {"--max-grad-norm", "--clip-grad"},
      {"--max-seq-length", "--seq-length"},
      {"--block-size", "--seq-length"},
      {"--model-parallel-size", "--tensor-model-parallel-size"},
      {"--output-dir", "--save"},
      {"--save-steps", "--save-interval"},
      {"--resume-from-checkpoint", "--load"},
  };
  for (const auto& [theirs, megatrons] : kNames) {
    if (flag == theirs) return megatrons;
  }
  return {};
}

}  // namespace weft
