#include "trainer/command_line/megatron_flags.h"

namespace weft {

std::span<const KnownFlag> flags_without_effect() {
  static constexpr std::string_view kFused = "there is one path here, and it is fused";
  static constexpr std::string_view kFp32 = "always so here";
  static constexpr std::string_view kScaledInit =
      "proj and fc2 always begin smaller, by sqrt(2 * num-layers)";
  static constexpr std::string_view kAlways = "always on here";
  static constexpr std::string_view kTokenized =
      "the dataset is tokenized already; its manifest, --vocab-file or --vocab-size says how many "
      "tokens there are";
  static constexpr std::string_view kOneFormat =
      "checkpoints are safetensors in pieces, which every topology reads; all ranks write and read "
      "their own pieces";
  static constexpr std::string_view kManifest =
      "a checkpoint that lacks a tensor, or has another shape, is refused, and its manifest has "
      "checksums";
  static constexpr std::string_view kExperts = "there are no experts";
  static constexpr std::string_view kGraphs =
      "kernels are enqueued one by one, ahead of the device; the results are the same";
  static constexpr std::string_view kLogging = "metrics.jsonl and event files can be uploaded";
  static constexpr std::string_view kTimes =
      "metrics.jsonl has the times of every step, and a rank that hangs is named";
  static constexpr std::string_view kSpeedAlone =
      "it changes the order of work, and no number: leave it to Weft";
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
      {"--tokenizer-model", 1, kTokenized},
      {"--tokenizer-name-or-path", 1, kTokenized},
      {"--tiktoken-pattern", 1, kTokenized},
      {"--tiktoken-num-special-tokens", 1, kTokenized},
      {"--no-use-tokenizer-model-from-checkpoint-args", 0, kTokenized},
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
      {"--ckpt-format", 1,
       "what is written is Weft's: iter_ folders of safetensors with a manifest, which Megatron does not "
       "read; weft-model export makes a Hugging Face folder of one"},
      {"--use-dist-ckpt", 0, kOneFormat},
      {"--auto-detect-ckpt-format", 0, kOneFormat},
      {"--dist-ckpt-format", 1, kOneFormat},
      {"--ckpt-fully-parallel-save", 0, kOneFormat},
      {"--ckpt-fully-parallel-load", 0, kOneFormat},
      {"--no-ckpt-fully-parallel-save", 0, kOneFormat},
      {"--ckpt-assume-constant-structure", 0, kOneFormat},
      {"--dist-ckpt-optim-fully-reshardable", 0, kOneFormat},
      {"--distrib-optim-fully-reshardable-mem-efficient", 0, kOneFormat},
      {"--dist-ckpt-strictness", 1, kManifest},
      {"--verify-integrity", 0, kManifest},
      {"--use-persistent-ckpt-worker", 0,
       "--async-save writes from a thread, there is no worker process"},
      {"--async-strategy", 1, "--async-save writes from a thread, there is no worker process"},
      {"--async-ckpt-use-cpu-shm", 0,
       "--async-save writes from a thread, there is no worker process"},
      {"--tensorboard-queue-size", 1, "events are written at once"},
      {"--timing-log-option", 1, "times are those of the last rank"},
      {"--log-progress", 0, kAlways},
      {"--log-timers-to-tensorboard", 0, kAlways},
      {"--log-batch-size-to-tensorboard", 0, kAlways},
      {"--log-validation-ppl-to-tensorboard", 0, kAlways},
      {"--log-world-size-to-tensorboard", 0, kAlways},
      {"--log-level", 1, "all of the log is printed"},
      {"--log-level-replica", 1, "all of the log is printed"},
      {"--codecarbon-dir", 1, "energy is not measured"},
      {"--wandb-project", 1, kLogging},
      {"--wandb-exp-name", 1, kLogging},
      {"--wandb-entity", 1, kLogging},
      {"--wandb-save-dir", 1, kLogging},
      {"--log-num-zeros-in-grad", 0,
       "zeros in gradients are not counted; the gradient norm is logged"},
      {"--test-mode", 0, "Megatron's own tests are no part of a run"},
      {"--log-straggler", 0, kTimes},
      {"--disable-straggler-on-startup", 0, kTimes},
      {"--straggler-ctrlr-port", 1, kTimes},
      {"--straggler-minmax-count", 1, kTimes},
      {"--logging-level", 1, "all of the log is printed"},
      {"--deterministic-mode", 0,
       "always so here: two runs of one topology are equal to the bit, with every kernel"},
      {"--rerun-mode", 1,
       "a step is not taken twice to tell a fault of the machine from one of the data; a loss that is "
       "not finite ends the run, or --skip-bad-steps N leaves its update out",
       "disabled|validate_results"},
      {"--empty-unused-memory-level", 1, "all memory is allocated once, before the first step"},
      {"--no-mmap-bin-files", 0, "datasets are always memory maps, which changes no token"},
      {"--valid-num-workers", 1, "--num-workers serves all sets"},
      {"--context-parallel-size", 1, "a rank has whole sequences", "1"},
      {"--expert-model-parallel-size", 1, kExperts, "1"},
      {"--expert-tensor-parallel-size", 1, kExperts},
      {"--enable-cuda-graph", 0, kGraphs},
      {"--external-cuda-graph", 0, kGraphs},
      {"--cuda-graph-impl", 1, kGraphs},
      {"--cuda-graph-scope", -1, kGraphs},
      {"--cuda-graph-warmup-steps", 1, kGraphs},
      {"--te-rng-tracker", 0, "random numbers are counters, there is no state to track"},
      {"--inference-rng-tracker", 0, "random numbers are counters, there is no state to track"},
      {"--cross-entropy-loss-fusion", 0, kFused},
      {"--cross-entropy-fusion-impl", 1, kFused},
      {"--apply-rope-fusion", 0, kFused},
      {"--bias-swiglu-fusion", 0, kFused},
      {"--grad-reduce-in-bf16", 0,
       "gradients are summed and exchanged in fp32: more exact, and twice the bytes"},
      {"--fp8-param-gather", 0,
       "ranks gather bf16 weights and quantize them themselves: twice the bytes, the same products"},
      {"--tp-comm-overlap", 0,
       "sums over tensor-parallel ranks are not cut into parts; the results are the same"},
      {"--tp-comm-overlap-cfg", 1, "sums over tensor-parallel ranks are not cut into parts"},
      {"--overlap-p2p-communication", 0,
       "stages exchange tensors between micro-batches; the results are the same"},
      {"--overlap-p2p-communication-warmup-flush", 0,
       "stages exchange tensors between micro-batches; the results are the same"},
      {"--overlap-param-gather-with-optimizer-step", 0, kSpeedAlone},
      {"--defer-embedding-wgrad-compute", 0, kSpeedAlone},
      {"--wgrad-deferral-limit", 1, kSpeedAlone},
      {"--delay-wgrad-compute", 0, kSpeedAlone},
      {"--ddp-average-in-collective", 0,
       "gradients are summed in fp32, with the loss divided before; in the mean both are one"},
      {"--num-distributed-optimizer-instances", 1,
       "all data-parallel ranks share one state: less memory each, and the same bits"},
      {"--disable-gloo-process-groups", 0, "there are no Gloo groups"},
      {"--enable-gloo-process-groups", 0, "there are no Gloo groups"},
      {"--no-create-attention-mask-in-dataloader", 0, "attention masks are never made"},
      {"--manual-gc", 0, "there is no garbage collector"},
      {"--manual-gc-interval", 1, "there is no garbage collector"},
      {"--no-align-grad-reduce", 0, "each bucket is reduced when all of its gradients are there"},
      {"--no-align-param-gather", 0, "each bucket is gathered when its weights are updated"},
      {"--no-overlap-p2p-communication", 0, "stages never compute while they exchange"},
  };
  return kFlags;
}

}  // namespace weft
