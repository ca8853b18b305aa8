#include <utility>

#include "trainer/command_line/megatron_flags.h"

namespace weft {

std::span<const KnownFlag> flags_not_supported() {
  static constexpr std::string_view kShared =
      "give --sequence-parallel, with which ranks share what is kept of a layer";
  static constexpr std::string_view kAllLayers =
      "all layers have fp8 products, or none: leave the flag out";
  static constexpr std::string_view kShape =
      "residuals are those before the norm: leave the flag out";
  static constexpr std::string_view kRotary =
      "rotary positions are scaled as Llama-3.1's alone: give --use-rope-scaling and "
      "--rope-scaling-factor, or leave the flag out";
  static constexpr std::string_view kProfile =
      "give --profile-steps FIRST:LAST, which profiles every rank";
  static constexpr std::string_view kForcedIndex =
      "indexes follow from the data, --split, --seq-length and --seed, for weft-data analyze as well: "
      "leave the flag out";
  static constexpr std::string_view kStages =
      "give the layers of each stage to --pp-partition-method, as \"5,7,7,5\"";
  static constexpr std::string_view kEmptyEnd =
      "give the first stage no layer by --pp-partition-method, as in \"0,8,8,8\"";
  static constexpr KnownFlag kFlags[] = {
      {"--no-check-for-nan-in-loss-and-grad", 0,
       "weights that have become NaN stay NaN; give --skip-bad-steps N, which leaves out such updates"},
      {"--tp-only-amax-red", 0,
       "all ranks that share a tensor share its scale, also with copies of the model: leave the flag out"},
      {"--first-last-layers-bf16", 0, kAllLayers},
      {"--num-layers-at-start-in-bf16", 1, kAllLayers},
      {"--num-layers-at-end-in-bf16", 1, kAllLayers},
      {"--profile", 0, kProfile},
      {"--profile-step-start", 1, kProfile},
      {"--profile-step-end", 1, kProfile},
      {"--profile-ranks", -1, kProfile},
      {"--use-pytorch-profiler", 0, kProfile},
      {"--pipeline-model-parallel-layout", 1, kStages},
      {"--distribute-checkpointed-activations", 0, kShared},
      {"--distribute-saved-activations", 0, kShared},
      {"--partition-activations", 0, kShared},
      {"--checkpoint-in-cpu", 0, "what is kept stays on the device: leave the flag out"},
      {"--geglu", 0, "give --glu-activation geglu"},
      {"--init-method-xavier", 0, "use --init-method-std"},
      {"--standalone-embedding-stage", 0, kEmptyEnd},
      {"--virtual-pipeline-model-parallel-size", 1, "give --num-virtual-stages-per-pipeline-rank"},
      {"--apply-residual-connection-post-layernorm", 0, kShape},
      {"--openai-gelu", 0, "its formula is the default tanh GELU: leave the flag out"},
      {"--onnx-safe", 0, "use --no-bias-gelu-fusion for the erf GELU"},
      {"--no-position-embedding", 0, "give --position-embedding-type none"},
      {"--rotary-seq-len-interpolation-factor", 1, kRotary},
      {"--rotary-scaling-factor", 1, kRotary},
      {"--init-method-xavier-uniform", 0, "use --init-method-std"},
      {"--window-size", -1, "tokens attend to all before them: leave the flag out"},
      {"--embedding-dropout", 1, "the embedding has the dropout of --hidden-dropout"},
      {"--sgd-momentum", 1, "the optimizer is adam"},
      {"--use-bnb-optimizer", 0, "the optimizer is adam"},
      {"--kill-switch-path", 1, "send SIGTERM: the step ends, a checkpoint is saved, exit code 10"},
      {"--train-idx-path", 1, kForcedIndex},
      {"--train-desc-path", 1, kForcedIndex},
      {"--train-doc-idx-path", 1, kForcedIndex},
      {"--train-sample-idx-path", 1, kForcedIndex},
      {"--train-shuffle-idx-path", 1, kForcedIndex},
      {"--universal-checkpoint", 0, "every checkpoint loads on every topology: leave the flag out"},
      {"--inference", 0, "weft-train only trains"},
  };
  return kFlags;
}

std::string_view missing_subject_of(std::string_view flag) {
  static constexpr std::string_view kExperts = "mixtures of experts are",
                                    kLatent = "multi-latent attention is",
                                    kLinear = "linear, sparse and gated attention are",
                                    kContext = "context parallelism is",
                                    kReinforcement = "reinforcement learning is",
                                    kInference = "inference servers inside training are",
                                    kFsdp = "sharded weights and gradients (FSDP) are",
                                    kKd = "distillation and ModelOpt's export are";
  // A name that ends with a dash stands for all that begin so.
  static constexpr std::pair<std::string_view, std::string_view> kSubjects[] = {
      {"--moe-", kExperts},
      {"--num-experts", kExperts},
      {"--expert-", kExperts},
      {"--multi-latent-attention", kLatent},
      {"--q-lora-rank", kLatent},
      {"--kv-lora-rank", kLatent},
      {"--qk-head-dim", kLatent},
      {"--qk-pos-emb-head-dim", kLatent},
      {"--v-head-dim", kLatent},
      {"--mla-", kLatent},
      {"--experimental-attention-variant", kLinear},
      {"--linear-", kLinear},
      {"--dsa-", kLinear},
      {"--attention-output-gate", kLinear},
      {"--cp-comm-type", kContext},
      {"--hierarchical-context-parallel-sizes", kContext},
      {"--hybrid-context-parallel", kContext},
      {"--rl-", kReinforcement},
      {"--grpo-", kReinforcement},
      {"--langrl-", kReinforcement},
      {"--perform-rl-step", kReinforcement},
      {"--refit-method", kReinforcement},
      {"--inference-", kInference},
      {"--max-tokens-to-oom", kInference},
      {"--use-torch-fsdp2", kFsdp},
      {"--use-megatron-fsdp", kFsdp},
      {"--use-custom-fsdp", kFsdp},
      {"--megatron-fsdp-", kFsdp},
      {"--data-parallel-sharding-strategy", kFsdp},
      {"--export-", kKd},
      {"--kd-", kKd},
      {"--modelopt-", kKd},
      {"--apply-wd-to-qk-layernorm", "weight decay of norms is"},
      {"--mtp-", "multi-token prediction is"},
      {"--fim-", "fill-in-the-middle data is"},
      {"--fp4-", "fp4 is"},
      {"--use-mup", "maximal update parametrization is"},
      {"--mup-", "maximal update parametrization is"},
      {"--error-injection-", "injecting errors into results is"},
      {"--heterogeneous-", "layers of different shapes are"},
      {"--hybrid-", "hybrids with state space layers are"},
      {"--mamba-", "hybrids with state space layers are"},
      {"--retro-", "retrieval (RETRO) is"},
      {"--vision-", "vision models are"},
      {"--s3-cache-path", "datasets in object stores are"},
      {"--object-storage-cache-path", "datasets in object stores are"},
      {"--yaml-cfg", "Megatron's YAML configuration is"},
  };
  for (const auto& [name, subject] : kSubjects) {
    if (name.ends_with("-") ? flag.starts_with(name) : flag == name) return subject;
  }
  return {};
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
      {"--epochs", "--train-epochs"},
      {"--num-epochs", "--train-epochs"},
      {"--num-train-epochs", "--train-epochs"},
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
