// The values of all options of weft-train, in Megatron's words. command_line/ holds the table of
// their names and help texts (options.h), parses and prints them; problems/ checks them.
// [Megatron-LM megatron/training/arguments.py, core_r0.7 and v2.x]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/order/batches/batch_size_plan.h"
#include "indexed_dataset/order/batches/length_curriculum.h"
#include "indexed_dataset/order/blends/sample_arguments.h"
#include "indexed_dataset/order/curriculum/metric_curriculum.h"
#include "kernels/backend.h"
#include "trainer/config/fp8_options.h"
#include "trainer/config/muon_options.h"

namespace weft {

enum class LrDecayStyle { kConstant, kLinear, kCosine, kInverseSquareRoot, kWsd };
enum class WsdDecayStyle { kExponential, kLinear, kCosine, kMinusSqrt };
enum class WeightDecayStyle { kConstant, kLinear, kCosine };
enum class LogFormat { kMegatron2021, kMegatronDeepSpeed, kMegatron2024 };

// Steps of a run, both included; the first step of training is 1.
struct StepRange {
  int64_t first = 0, last = 0;
};

// What decides the samples of a run, seq_length and seed among it, is in SampleArguments.
struct Config : SampleArguments {
  // model shape
  int64_t num_layers = 0, hidden_size = 0, num_attention_heads = 0;
  std::optional<int64_t> ffn_hidden_size, kv_channels, max_position_embeddings;
  int64_t make_vocab_size_divisible_by = 128;
  std::optional<int64_t> pad_vocab_size_to;
  bool train_padded_vocabulary = false;
  std::string normalization = "LayerNorm";  // or RMSNorm
  float layernorm_epsilon = 1e-5F;
  bool embed_layernorm = false;
  bool qk_layernorm = false;        // norms of queries and keys, of the kind of `normalization`
  bool apply_layernorm_1p = false;  // norms' weights are stored less 1
  bool swiglu = false;
  bool squared_relu = false, relu = false;  // in place of GELU
  std::string glu_activation;  // Megatron-DeepSpeed's word: swiglu, geglu, reglu or liglu
  // learned_absolute (absolute), rope (rotary), alibi or none
  std::string position_embedding_type = "learned_absolute";
  bool use_rotary_position_embeddings = false;
  double rotary_base = 10000, rotary_percent = 1;
  bool rotary_interleaved = false;
  bool use_rope_scaling = false;
  double rope_scaling_factor = 8;
  bool group_query_attention = false;
  int64_t num_query_groups = 1;
  bool no_bias_gelu_fusion = false;  // Megatron's unfused GELU is by erf, the fused one by tanh
  bool untie_embeddings_and_output_weights = false;
  bool disable_bias_linear = false, add_qkv_bias = false;
  float attention_dropout = 0.1F, hidden_dropout = 0.1F;
  // duration
  std::optional<int64_t> train_tokens, exit_interval;
  std::optional<double> exit_duration_in_mins;
  bool exit_on_missing_checkpoint = false, skip_train = false;
  std::vector<int64_t> iterations_to_skip;              // as the log counts them, from 1 on
  std::vector<std::string> skip_train_iteration_range;  // "FIRST-LAST" ...
  std::optional<int64_t> train_epochs;  // of the training set; train_samples follows from it
  std::optional<int64_t> eval_global_batch_size;     // Megatron's; it is the global batch size here
  bool curriculum_learning = false;                  // says that there must be a curriculum
  bool data_efficiency_curriculum_learning = false;  // says that there must be metrics
  std::string deepspeed_config;  // a JSON file (command_line/deepspeed_config.h)
  // activations that backward computes again (model/recompute.h)
  std::string recompute_granularity;  // full, selective; or empty: none
  std::string recompute_method;       // of full: uniform or block
  std::optional<int64_t> recompute_num_layers;
  std::vector<std::string>
      recompute_modules;                // of selective: core_attn, layernorm, activation, mlp
  bool checkpoint_activations = false;  // an older name: full and uniform
  bool recompute_activations = false;   // another name: selective
  std::optional<int64_t> logits_chunk;
  // optimizer and schedule
  std::string optimizer = "adam";  // or muon, and with its state sharded dist_muon
  double muon_momentum = 0.95, muon_extra_scale_factor = 1;
  bool muon_nesterov = false, muon_no_split_qkv = false;
  std::string muon_scale_mode = "spectral", muon_coefficient_type = "quintic";
  int64_t muon_num_ns_steps = 5;
  std::string muon_fp32_matmul_prec = "medium";  // or high
  std::string muon_tp_mode = "blockwise";        // or duplicated
  std::string muon_scalar_optimizer = "adam";
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_eps = 1e-8, weight_decay = 0.01;
  // Weight decay that grows, or falls, from the first to the last step (lr_schedule.h).
  std::optional<double> start_weight_decay, end_weight_decay;
  WeightDecayStyle weight_decay_incr_style = WeightDecayStyle::kConstant;
  bool calculate_per_token_loss = false;
  float clip_grad = 1.0F;
  bool bf16_optimizer_state = false, optimizer_offload = false;
  std::string exp_avg_dtype = "fp32", exp_avg_sq_dtype = "fp32";  // Megatron's way to ask for it
  double lr = 0, min_lr = 0, lr_warmup_init = 0;
  std::optional<double> decoupled_lr, decoupled_min_lr;  // of the word embedding and the head
  LrDecayStyle lr_decay_style = LrDecayStyle::kLinear;
  std::optional<int64_t> lr_decay_iters, lr_decay_samples, lr_warmup_iters, lr_warmup_samples;
  WsdDecayStyle lr_wsd_decay_style = WsdDecayStyle::kExponential;
  std::optional<int64_t> lr_wsd_decay_iters, lr_wsd_decay_samples;
  std::optional<double> lr_warmup_fraction;
  std::optional<int64_t> lr_decay_tokens, lr_warmup_tokens;
  bool lr_tokens_as_deepspeed = false;
  bool override_lr_scheduler = false, use_checkpoint_lr_scheduler = false;
  double init_method_std = 0.02;
  // precision and device
  bool bf16 = false, fp16 = false;
  bool fp32_residual_connection = false;  // with either of them the residual stream stays fp32
  // The factor of an fp16 run's loss (step/loss_scale.h): constant, or if that is not given,
  // dynamic.
  std::optional<double> loss_scale;
  double initial_loss_scale = 4294967296.0, min_loss_scale = 1.0;
  int64_t loss_scale_window = 1000, hysteresis = 2;
  // The products of the layers in fp8 (fp8_options.h): e4m3, hybrid; or empty: none.
  std::string fp8_format;
  bool fp8_plain = false, fp8_e4m3 = false, fp8_hybrid = false;  // --fp8, and older spellings
  std::string fp8_recipe = "delayed";                            // or tensorwise
  int64_t fp8_margin = 0, fp8_amax_history_len = 1;
  std::string fp8_amax_compute_algo = "most_recent";  // or max
  bool no_fp8_wgrad = false;
  std::optional<int64_t> fp8_shadow_interval;
  int64_t skip_bad_steps = 0;   // in a row, whose loss or gradient norm is not finite
  std::string device = "auto";  // auto, cuda, cpu
  std::string device_profile;   // with --dry-run: the kind of GPU to plan for (device_profile.h)
  // parallelism
  int64_t tensor_model_parallel_size = 1, pipeline_model_parallel_size = 1;
  std::string pp_partition_method = "uniform";  // pipeline_partition.h
  // Each of the first two makes interleaved stages, and at most one of them is given. The third is
  // the number of micro-batches that pass a virtual stage together.
  std::optional<int64_t> num_layers_per_virtual_pipeline_stage,
      num_virtual_stages_per_pipeline_rank, microbatch_group_size_per_virtual_pipeline_stage;
  // Megatron's ways to give pipeline ends fewer layers; they become a pp_partition_method.
  std::optional<int64_t> decoder_first_pipeline_num_layers, decoder_last_pipeline_num_layers;
  bool account_for_embedding_in_pipeline_split = false, account_for_loss_in_pipeline_split = false;
  bool sequence_parallel = false;
  bool no_scatter_gather_tensors_in_pipeline = false;
  bool use_tp_pp_dp_mapping = false;
  bool use_distributed_optimizer = false;
  std::optional<int64_t> zero_stage, ddp_bucket_size;
  std::optional<int64_t> check_weights_interval;
  std::string distributed_backend = "nccl";  // of ranks on GPUs
  double distributed_timeout_minutes = 10;
  int64_t world_size = 1;                     // the number of ranks: the launcher decides
  std::optional<int64_t> planned_world_size;  // with --dry-run: ranks that are not started
  // data
  std::string data_cache_path;  // empty: indexes are built in memory
  std::string vocab_file, merge_file, tokenizer_type;
  std::optional<int64_t> vocab_size;    // the tokenizer's; run_vocabulary.h finds it if not given
  std::optional<int64_t> eod_token_id;  // the token that ends documents; found likewise
  bool eod_mask_loss = false, reset_position_ids = false, reset_attention_mask = false;
  bool dataloader_inter_document_masking = false;
  int64_t num_workers = 2;
  // checkpoint
  std::string save, load;
  std::optional<int64_t> save_interval;
  // Which checkpoints a run removes after a save: all but the newest keep_last, and those of
  // iterations that are multiples of keep_every. Without keep_last none is removed.
  std::optional<int64_t> keep_last, keep_every, save_retain_interval;
  bool use_checkpoint_args = false;
  bool async_save = false;
  bool overwrite = false;  // a run may start anew over the checkpoints in --save
  bool no_save_optim = false, no_load_optim = false, finetune = false;
  std::optional<int64_t> ckpt_step;
  // logging
  int64_t log_interval = 100, timing_log_level = 0, tensorboard_log_interval = 1;
  LogFormat log_format = LogFormat::kMegatronDeepSpeed;
  bool log_params_norm = false, log_throughput = false, log_memory_to_tensorboard = false;
  std::string tensorboard_dir;
  bool no_log_learning_rate_to_tensorboard = false, no_log_loss_scale_to_tensorboard = false;
  std::string run_dir;  // run manifest, metrics, losses of samples; default: --save, else none
  bool no_sample_losses = false;
  // benchmarks and texts of the model while it trains (loop/live_model.h)
  std::vector<std::string> eval_tasks, sample_prompt;
  std::optional<int64_t> eval_tasks_interval, sample_interval;
  // profiling
  std::string profile_steps;  // "A:B", or empty
  bool measure_device = false;
  std::optional<double> measure_device_seconds;
  std::string gemm_algorithm_cache;  // default: ~/.cache/weft/gemm-algorithms
  bool dry_run = false, verbose = false;

  // The values of options with their defaults resolved.
  int64_t head_size() const { return kv_channels.value_or(hidden_size / num_attention_heads); }
  // Under --swiglu Megatron takes two thirds of 4 * hidden_size, down to a multiple of 64, so that
  // three matrices have the parameters of two.
  int64_t default_ffn_size() const { return swiglu ? hidden_size / 24 * 64 : 4 * hidden_size; }
  int64_t ffn_size() const { return ffn_hidden_size.value_or(default_ffn_size()); }
  Glu glu() const;
  bool has_rotary_positions() const {
    return use_rotary_position_embeddings || position_embedding_type == "rope" ||
           position_embedding_type == "rotary";
  }
  bool has_alibi() const { return !has_rotary_positions() && position_embedding_type == "alibi"; }
  bool has_position_table() const {
    return !has_rotary_positions() && !has_alibi() && position_embedding_type != "none";
  }
  // The elements of a head that rotary positions turn; 0: there are none.
  int64_t rotary_size() const {
    return has_rotary_positions()
               ? static_cast<int64_t>(rotary_percent * static_cast<double>(head_size()))
               : 0;
  }
  int64_t positions() const { return max_position_embeddings.value_or(seq_length); }
  int64_t data_parallel_size() const;  // at least 1
  // Returns how many virtual stages, chunks of the layers, each pipeline rank holds; 1 unless
  // stages are interleaved.
  int64_t num_virtual_stages() const;
  // The global batch size of evaluations and of the end of the run.
  int64_t global_batch() const;
  // The sizes of all batches. Throws UsageError for a step schedule that is none.
  BatchSizePlan batch_size_plan() const;
  bool has_curriculum() const { return !curriculum.schedule_type.empty(); }
  // Returns what decides the order of samples by difficulty; nothing if there is no such
  // curriculum.
  std::optional<MetricCurriculum> metric_curriculum() const;
  // The lengths of the sequences of all batches. Throws UsageError for a curriculum that
  // is none.
  LengthCurriculum length_curriculum() const;
  // Positions without loss: those of --eod-mask-loss and --unsee, those that a reshaping curriculum
  // repeats, and rows that fill up the last batch of --full-validation.
  bool has_loss_mask() const {
    return eod_mask_loss || full_validation || !unsee.empty() ||
           (has_curriculum() && curriculum.mode == "reshape");
  }
  // Returns the steps whose samples are consumed without training, in order and apart from each
  // other. Throws UsageError for a text that is no range.
  std::vector<StepRange> untrained_steps() const;
  // Returns the steps of --profile-steps, if it is given. Throws UsageError for a text
  // that is no range of steps.
  std::optional<StepRange> profiled_steps() const;
  double first_weight_decay() const { return start_weight_decay.value_or(weight_decay); }
  double last_weight_decay() const { return end_weight_decay.value_or(weight_decay); }
  bool has_null_tokenizer() const { return tokenizer_type == "NullTokenizer"; }
  // Some options need the token that ends documents.
  bool looks_for_document_ends() const {
    return eod_mask_loss || reset_position_ids || reset_attention_mask;
  }
  // In Megatron-Core inter-document masking restarts the positions, too.
  bool restarts_positions() const {
    return reset_position_ids || dataloader_inter_document_masking;
  }
  bool masks_other_documents() const {
    return reset_attention_mask || dataloader_inter_document_masking;
  }
  // Without tensor parallelism Megatron turns the flag off.
  bool shares_sequence() const { return sequence_parallel && tensor_model_parallel_size > 1; }
  bool shards_optimizer() const {
    return use_distributed_optimizer || zero_stage.value_or(0) == 1 || optimizer == "dist_muon";
  }
  bool uses_muon() const { return optimizer == "muon" || optimizer == "dist_muon"; }
  // Throws UsageError for words that are none.
  std::optional<MuonOptions> muon() const;
  bool has_bf16_moments() const {
    return bf16_optimizer_state || (exp_avg_dtype == "bf16" && exp_avg_sq_dtype == "bf16");
  }
  DType dtype() const {
    if (fp16) return DType::kFloat16;
    return bf16 ? DType::kBFloat16 : DType::kFloat32;
  }
  bool has_fp8() const { return !fp8_format.empty() || fp8_plain || fp8_e4m3 || fp8_hybrid; }
  std::optional<Fp8Options> fp8() const;
  bool recomputes_layers() const {
    return checkpoint_activations || recompute_granularity == "full";
  }
  bool recomputes_parts() const {
    return recompute_activations || recompute_granularity == "selective";
  }
  bool uses_rms_norm() const { return normalization == "RMSNorm"; }
  bool has_qkv_bias() const { return add_qkv_bias || !disable_bias_linear; }
  Activation activation() const {
    if (relu) return Activation::kRelu;
    if (squared_relu) return Activation::kSquaredRelu;
    return no_bias_gelu_fusion ? Activation::kGeluErf : Activation::kGeluTanh;
  }
  // Returns whether this is a --dry-run that names no dataset.
  bool plans_without_data() const;
  std::string run_folder() const { return run_dir.empty() ? save : run_dir; }
  // Returns pad_vocab_size_to, or the next multiple of make_vocab_size_divisible_by * tp.
  int64_t padded_vocab_size(int64_t tokenizer_vocab_size) const;

  // Sets the options that were not given and follow from others (global_batch_size,
  // ffn_hidden_size, ...). There must be no problems().
  void fill_defaults();
};

// The words of options that name one of several ways.
inline constexpr std::pair<const char*, LrDecayStyle> kLrDecayStyles[] = {
    {"constant", LrDecayStyle::kConstant},
    {"linear", LrDecayStyle::kLinear},
    {"cosine", LrDecayStyle::kCosine},
    {"inverse-square-root", LrDecayStyle::kInverseSquareRoot},
    {"WSD", LrDecayStyle::kWsd},
};
inline constexpr std::pair<const char*, WsdDecayStyle> kWsdDecayStyles[] = {
    {"exponential", WsdDecayStyle::kExponential},
    {"linear", WsdDecayStyle::kLinear},
    {"cosine", WsdDecayStyle::kCosine},
    {"minus_sqrt", WsdDecayStyle::kMinusSqrt},
};
inline constexpr std::pair<const char*, WeightDecayStyle> kWeightDecayStyles[] = {
    {"constant", WeightDecayStyle::kConstant},
    {"linear", WeightDecayStyle::kLinear},
    {"cosine", WeightDecayStyle::kCosine},
};
inline constexpr std::pair<const char*, LogFormat> kLogFormats[] = {
    {"megatron-2021", LogFormat::kMegatron2021},
    {"megatron-ds", LogFormat::kMegatronDeepSpeed},
    {"megatron-2024", LogFormat::kMegatron2024},
};
const char* name_of(LrDecayStyle style);
const char* name_of(WsdDecayStyle style);
const char* name_of(WeightDecayStyle style);
const char* name_of(LogFormat format);

}  // namespace weft
