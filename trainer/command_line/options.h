// The one table of weft-train's options. A visitor is called with (flag, value, effect of a change
// on resume, help) for each, so that parsing, help, the banner, the run manifest and the warnings
// of a resumed run cannot disagree. Flags that only other Megatrons have are listed in
// megatron_flags.h.
#pragma once

#include "trainer/config/config.h"

namespace weft {

// What a resumed run does where it has another value of an option than its checkpoint. The first
// six are warnings (resume/argument_changes.h).
enum class ChangeEffect {
  kMovesSamples,
  kMovesEvaluations,
  kGoesOn,           // with the new value, and other numbers
  kBegins,           // it counts only at the beginning of a run
  kBeginsHistories,  // of all fp8 scales
  kConvertsMoments,
  kCompared,  // by a check of its own: as part of the architecture, the schedule or the data
  kNothing    // no number of the run depends on it but by rounding, or it has had its effect
};

// Of datasets and their shares compare_blends() says what was changed.
template <typename Field>
ChangeEffect effect_of(const Field& field) {
  if (field.compared_by == ComparedBy::kBlends && field.name() != "split")
    return ChangeEffect::kCompared;
  // A cyclic order keeps its micro-batches, and a file of --unsee is compared by its bytes.
  if (field.name() == "micro_batch_size" || field.moves == Moves::kNothing)
    return ChangeEffect::kCompared;
  return field.moves == Moves::kSamples       ? ChangeEffect::kMovesSamples
         : field.moves == Moves::kEvaluations ? ChangeEffect::kMovesEvaluations
                                              : ChangeEffect::kGoesOn;
}

// C is Config or const Config. The visitor has group(name) and operator()(flag, value, effect,
// help).
template <typename C, typename Visitor>
void visit_options(C& c, Visitor& v) {
  using enum ChangeEffect;
  // Those that decide the samples of a run are declared in the list that its readers use, too.
  const auto declare = [&v](const auto& field, auto& value) {
    v(field.flag, value, effect_of(field), field.help);
  };
  const auto sample = [&c, &declare](auto member) {
    with_field(member, [&](const auto& field) { declare(field, c.*(field.member)); });
  };
  v.group("Model shape");
  v("num-layers", c.num_layers, kCompared, "transformer blocks");
  v("hidden-size", c.hidden_size, kCompared, "width of the residual stream");
  v("ffn-hidden-size", c.ffn_hidden_size, kCompared,
    "width of the feed-forward layer (default: 4 * hidden-size; with --swiglu two thirds of it)");
  v("num-attention-heads", c.num_attention_heads, kCompared, "attention heads");
  v("kv-channels", c.kv_channels, kCompared,
    "head size (default: hidden-size / num-attention-heads)");
  sample(&SampleArguments::seq_length);
  v("max-position-embeddings", c.max_position_embeddings, kCompared,
    "rows of the position table, >= seq-length; not needed with rope, alibi or none");
  v("make-vocab-size-divisible-by", c.make_vocab_size_divisible_by, kNothing,
    "the vocabulary is padded to a multiple of this");
  v("pad-vocab-size-to", c.pad_vocab_size_to, kNothing, "exact padded vocabulary size");
  v("train-padded-vocabulary", c.train_padded_vocabulary, kCompared,
    "as Megatron: the padding is part of the softmax, trained and stored");
  v("normalization", c.normalization, kCompared, "LayerNorm or RMSNorm");
  v("layernorm-epsilon", c.layernorm_epsilon, kCompared, "epsilon of every norm");
  v("embed-layernorm", c.embed_layernorm, kCompared,
    "a LayerNorm of the word embedding, before positions are added, as BLOOM has");
  v("qk-layernorm", c.qk_layernorm, kCompared,
    "a norm of each query and key over its head, before positions, as Qwen3 has with RMSNorm");
  v("apply-layernorm-1p", c.apply_layernorm_1p, kCompared,
    "the weights of all norms are stored less 1, as in Nemotron");
  v("swiglu", c.swiglu, kCompared, "gated feed-forward layer: silu(gate) * up in place of GELU");
  v("glu-activation", c.glu_activation, kCompared,
    "the same by another activation, and with the default width: swiglu, geglu, reglu or liglu");
  v("position-embedding-type", c.position_embedding_type, kCompared,
    "learned_absolute (absolute), rope (rotary), alibi or none");
  v("use-rotary-position-embeddings", c.use_rotary_position_embeddings, kCompared,
    "as --position-embedding-type rope");
  v("rotary-base", c.rotary_base, kCompared, "base of the rotary frequencies");
  v("rotary-percent", c.rotary_percent, kCompared, "share of a head that rotary positions turn");
  v("rotary-interleaved", c.rotary_interleaved, kCompared,
    "rotary positions turn pairs of neighbours, not of the two halves");
  v("use-rope-scaling", c.use_rope_scaling, kCompared,
    "Llama-3.1's longer context: low rotary frequencies are divided by --rope-scaling-factor");
  v("rope-scaling-factor", c.rope_scaling_factor, kCompared,
    "with --use-rope-scaling: 8 in Llama-3.1, 32 in the small models of Llama-3.2");
  v("group-query-attention", c.group_query_attention, kCompared,
    "heads share keys and values in --num-query-groups groups");
  v("num-query-groups", c.num_query_groups, kCompared,
    "with --group-query-attention: the number of groups");
  v("no-bias-gelu-fusion", c.no_bias_gelu_fusion, kCompared,
    "GELU by erf instead of tanh, as Megatron's unfused path");
  v("squared-relu", c.squared_relu, kCompared,
    "the square of max(x, 0) in place of GELU, as in Nemotron");
  v("relu", c.relu, kCompared, "max(x, 0) in place of GELU, as in OPT");
  v("untie-embeddings-and-output-weights", c.untie_embeddings_and_output_weights, kCompared,
    "the head has weights of its own, not those of the word embedding");
  v("disable-bias-linear", c.disable_bias_linear, kCompared,
    "no bias in the products of attention and MLP");
  v("add-qkv-bias", c.add_qkv_bias, kCompared,
    "with --disable-bias-linear: queries, keys and values have one");
  v("attention-dropout", c.attention_dropout, kGoesOn, "on attention probabilities");
  v("hidden-dropout", c.hidden_dropout, kGoesOn, "on the embedding and both residual branches");

  v.group("Batch and duration");
  sample(&SampleArguments::micro_batch_size);
  sample(&SampleArguments::global_batch_size);
  sample(&SampleArguments::rampup_batch_size);
  sample(&SampleArguments::step_batch_size_schedule);
  sample(&SampleArguments::train_iters);
  sample(&SampleArguments::train_samples);
  v("train-epochs", c.train_epochs, kNothing,
    "in place of both: train so many epochs of the training set, less an incomplete last step");
  v("train-tokens", c.train_tokens, kGoesOn,
    "stop with the step that reaches so many tokens, if it comes before the last iteration or sample");
  v("exit-interval", c.exit_interval, kNothing,
    "save and exit when the iteration is a multiple of this");
  v("exit-duration-in-mins", c.exit_duration_in_mins, kNothing,
    "save and exit after this many minutes");
  v("exit-on-missing-checkpoint", c.exit_on_missing_checkpoint, kNothing,
    "with --load: no checkpoint is an error");
  sample(&SampleArguments::eval_iters);
  sample(&SampleArguments::eval_interval);
  sample(&SampleArguments::full_validation);
  v("skip-train", c.skip_train, kNothing, "only evaluate");
  v("iterations-to-skip", c.iterations_to_skip, kGoesOn,
    "numbers of iterations, as in the log, that consume their samples and train nothing");
  v("skip-train-iteration-range", c.skip_train_iteration_range, kGoesOn,
    "FIRST-LAST ...: the same in ranges");
  v("eval-global-batch-size", c.eval_global_batch_size, kNothing,
    "evaluations take the last size of --global-batch-size; no other one is accepted here");

  v.group("Sequence-length curriculum");
  v("curriculum-learning", c.curriculum_learning, kNothing,
    "the run has a curriculum: by --curriculum-schedule-type, or in --deepspeed_config");
  visit_fields(kCurriculumFields, declare, c.curriculum);
  v("deepspeed_config", c.deepspeed_config, kNothing,
    "DeepSpeed's JSON file: batch sizes, gradient clipping, bf16, fp16, ZeRO stage, curriculum_learning "
    "and data_efficiency are read from it");

  v.group("Curriculum by difficulty");
  sample(&SampleArguments::curriculum_metrics);
  sample(&SampleArguments::curriculum_metrics_seed);
  v("data-efficiency-curriculum-learning", c.data_efficiency_curriculum_learning, kNothing,
    "the run has such a curriculum: by --curriculum-metrics, or in --deepspeed_config");

  v.group("Memory of activations");
  v("recompute-granularity", c.recompute_granularity, kNothing,
    "full: backward computes whole layers again, from their inputs; selective: the parts of "
    "--recompute-modules (default: all is kept)");
  v("recompute-method", c.recompute_method, kNothing,
    "of full: uniform keeps the input of each --recompute-num-layers layers, block recomputes only so "
    "many layers of a pipeline stage, one by one");
  v("recompute-num-layers", c.recompute_num_layers, kNothing, "layers of the method (default: 1)");
  v("recompute-modules", c.recompute_modules, kNothing,
    "of selective: layernorm, activation, mlp (a product more), core_attn (which is never kept: the "
    "default)");
  v("checkpoint-activations", c.checkpoint_activations, kNothing,
    "as --recompute-granularity full --recompute-method uniform");
  v("recompute-activations", c.recompute_activations, kNothing,
    "as --recompute-granularity selective");
  v("logits-chunk", c.logits_chunk, kNothing,
    "tokens whose logits are in memory at a time, for large vocabularies (default: those of a "
    "micro-batch)");

  v.group("Optimizer and learning rate");
  v("optimizer", c.optimizer, kCompared,
    "adam (AdamW) or muon: the matrices of layers by Muon, and all else by AdamW; dist_muon is muon with "
    "--use-distributed-optimizer");
  v("muon-momentum", c.muon_momentum, kGoesOn, "the momentum's decay");
  v("muon-nesterov", c.muon_nesterov, kGoesOn, "Nesterov's momentum");
  v("muon-no-split-qkv", c.muon_no_split_qkv, kGoesOn,
    "queries, keys and values are one matrix to Muon (default: three)");
  v("muon-scale-mode", c.muon_scale_mode, kGoesOn,
    "the size of an update by the matrix: spectral, unit_rms_norm or shape_scaling");
  v("muon-extra-scale-factor", c.muon_extra_scale_factor, kGoesOn,
    "a factor beside that; 0.2 with spectral gives updates of AdamW's size, for its learning rate");
  v("muon-num-ns-steps", c.muon_num_ns_steps, kGoesOn, "Newton-Schulz iterations");
  v("muon-coefficient-type", c.muon_coefficient_type, kGoesOn,
    "their coefficients: quintic, simple, polar_express or aol");
  v("muon-fp32-matmul-prec", c.muon_fp32_matmul_prec, kGoesOn,
    "their products: medium, in bfloat16; or high, in fp32");
  v("muon-tp-mode", c.muon_tp_mode, kGoesOn,
    "of a matrix that tensor-parallel ranks share: blockwise, each updates its part by itself; or "
    "duplicated, they gather it, and the update is that of one rank");
  v("muon-scalar-optimizer", c.muon_scalar_optimizer, kNothing,
    "what updates all else: adam, the only one here");
  v("adam-beta1", c.adam_beta1, kGoesOn, "first moment's decay");
  v("adam-beta2", c.adam_beta2, kGoesOn, "second moment's decay");
  v("adam-eps", c.adam_eps, kGoesOn, "added to the root of the second moment");
  v("weight-decay", c.weight_decay, kGoesOn, "decoupled, on matrices only");
  v("start-weight-decay", c.start_weight_decay, kGoesOn,
    "with --weight-decay-incr-style linear or cosine: the first one");
  v("end-weight-decay", c.end_weight_decay, kGoesOn, "the last one, at the end of the run");
  v("weight-decay-incr-style", c.weight_decay_incr_style, kGoesOn, "constant, linear or cosine");
  v("calculate-per-token-loss", c.calculate_per_token_loss, kGoesOn,
    "the loss is the mean over all tokens of a step that have a loss (default: over the means of its "
    "micro-batches); the same where no token is masked");
  v("clip-grad", c.clip_grad, kGoesOn, "limit of the global gradient norm; 0: none");
  v("bf16-optimizer-state", c.bf16_optimizer_state, kConvertsMoments,
    "Adam's moments in bfloat16, rounded at random: 4 bytes a parameter less, and other results");
  v("optimizer-offload", c.optimizer_offload, kNothing,
    "Adam's moments and the masters lie in the host's memory, and the update reads and writes them there: "
    "slower, and the same bits");
  v("exp-avg-dtype", c.exp_avg_dtype, kNothing,
    "as in Megatron: fp32 or bf16; with bf16 for both moments as --bf16-optimizer-state");
  v("exp-avg-sq-dtype", c.exp_avg_sq_dtype, kNothing, "the same of the second moment");
  v("lr", c.lr, kCompared, "peak learning rate");
  v("min-lr", c.min_lr, kCompared, "the schedule ends here");
  v("lr-decay-style", c.lr_decay_style, kCompared,
    "constant, linear, cosine, inverse-square-root or WSD");
  v("lr-wsd-decay-style", c.lr_wsd_decay_style, kCompared,
    "of the last part of WSD: exponential, linear, cosine or minus_sqrt");
  v("lr-wsd-decay-iters", c.lr_wsd_decay_iters, kCompared, "steps of the last part of WSD");
  v("lr-wsd-decay-samples", c.lr_wsd_decay_samples, kCompared, "samples of the last part of WSD");
  v("lr-warmup-init", c.lr_warmup_init, kCompared, "the warm-up begins here");
  v("decoupled-lr", c.decoupled_lr, kCompared,
    "peak learning rate of the word embedding and the head, on the same schedule");
  v("decoupled-min-lr", c.decoupled_min_lr, kCompared, "where that ends (default: min-lr)");
  v("lr-decay-iters", c.lr_decay_iters, kCompared, "steps until min-lr (default: train-iters)");
  v("lr-decay-samples", c.lr_decay_samples, kCompared,
    "samples until min-lr (default: train-samples)");
  v("lr-warmup-iters", c.lr_warmup_iters, kCompared, "steps of linear warm-up");
  v("lr-warmup-samples", c.lr_warmup_samples, kCompared, "samples of linear warm-up");
  v("lr-warmup-fraction", c.lr_warmup_fraction, kCompared,
    "warm-up as a share of the decay length");
  v("lr-decay-tokens", c.lr_decay_tokens, kCompared,
    "tokens until min-lr, in place of steps or samples");
  v("lr-warmup-tokens", c.lr_warmup_tokens, kCompared,
    "tokens of linear warm-up; with --lr-decay-tokens");
  v("lr-tokens-as-deepspeed", c.lr_tokens_as_deepspeed, kCompared,
    "count the tokens of the schedule as Megatron-DeepSpeed does, for its numbers: a step late, and "
    "decay from token 0 unless a step ends exactly with the warm-up");
  v("override-lr-scheduler", c.override_lr_scheduler, kCompared,
    "on resume this command line's schedule wins");
  v("use-checkpoint-lr-scheduler", c.use_checkpoint_lr_scheduler, kCompared,
    "on resume the checkpoint's schedule wins");
  v("init-method-std", c.init_method_std, kNothing, "standard deviation of the initial weights");
  sample(&SampleArguments::seed);

  v.group("Precision, device, parallelism");
  v("bf16", c.bf16, kGoesOn,
    "bfloat16 weights and activations, fp32 master weights and gradients (default: fp32)");
  v("fp16", c.fp16, kGoesOn,
    "the same with float16, whose loss is scaled so that small gradients do not vanish");
  v("fp32-residual-connection", c.fp32_residual_connection, kGoesOn,
    "with --bf16 or --fp16: the residual stream, and the gradients along it, stay fp32");
  v("loss-scale", c.loss_scale, kGoesOn,
    "of fp16: a constant factor of the loss (default: a dynamic one)");
  v("initial-loss-scale", c.initial_loss_scale, kBegins, "the first dynamic factor");
  v("min-loss-scale", c.min_loss_scale, kGoesOn, "the smallest dynamic factor");
  v("loss-scale-window", c.loss_scale_window, kGoesOn,
    "steps in a row without an overflow, after which the dynamic factor doubles");
  v("hysteresis", c.hysteresis, kGoesOn,
    "overflows after which it halves, and again with each one until it has doubled");
  v("fp8-format", c.fp8_format, kGoesOn,
    "products of the layers in fp8, with --bf16: hybrid (gradients e5m2, all else e4m3) or e4m3");
  v("fp8", c.fp8_plain, kNothing, "the same as --fp8-format hybrid");
  v("fp8-hybrid", c.fp8_hybrid, kNothing, "an older spelling of --fp8-format hybrid");
  v("fp8-e4m3", c.fp8_e4m3, kNothing, "an older spelling of --fp8-format e4m3");
  v("fp8-recipe", c.fp8_recipe, kGoesOn,
    "the scale of an fp8 tensor: delayed, from the steps before; or tensorwise, from the tensor itself");
  v("fp8-margin", c.fp8_margin, kGoesOn,
    "delayed: scales leave room for numbers that are 2^margin times as large as those before");
  v("fp8-amax-history-len", c.fp8_amax_history_len, kBeginsHistories,
    "delayed: steps whose largest numbers are kept for each tensor");
  v("fp8-amax-compute-algo", c.fp8_amax_compute_algo, kGoesOn,
    "delayed: the scale follows from the most_recent of them, or from the max");
  v("no-fp8-wgrad", c.no_fp8_wgrad, kGoesOn, "gradients of weights by bf16 products");
  v("fp8-shadow-interval", c.fp8_shadow_interval, kNothing,
    "steps between those whose forward products are made in bf16, too, to log how far fp8 is off (default: none)");
  v("skip-bad-steps", c.skip_bad_steps, kNothing,
    "leave out the updates of so many steps in a row whose loss or gradient norm is not finite, before "
    "the run ends with code 11 (default: it ends with the first)");
  v("device", c.device, kNothing, "auto, cuda or cpu");
  v("device-profile", c.device_profile, kNothing,
    "with --dry-run: plan for this kind of GPU (h200) or this profile file, without a GPU");
  v("world-size", c.planned_world_size, kNothing,
    "with --dry-run: plan for so many ranks without starting them (default: those that hold one model)");
  v("tensor-model-parallel-size", c.tensor_model_parallel_size, kNothing,
    "ranks that share each layer: its heads, its feed-forward columns, the vocabulary");
  v("pipeline-model-parallel-size", c.pipeline_model_parallel_size, kNothing,
    "pipeline stages, each of which holds some of the layers");
  v("pp-partition-method", c.pp_partition_method, kNothing,
    "layers of the stages, virtual ones too: uniform, type:transformer, type:transformer|embedding, parameters, cost, or "
    "their numbers, such as 5,6,6,5");
  v("num-layers-per-virtual-pipeline-stage", c.num_layers_per_virtual_pipeline_stage, kNothing,
    "interleave: each pipeline rank holds several runs of so many layers, its virtual stages");
  v("num-virtual-stages-per-pipeline-rank", c.num_virtual_stages_per_pipeline_rank, kNothing,
    "the same by the number of virtual stages; --pp-partition-method shares out the layers to all");
  v("microbatch-group-size-per-virtual-pipeline-stage",
    c.microbatch_group_size_per_virtual_pipeline_stage, kNothing,
    "micro-batches that pass a virtual stage together (default: pipeline-model-parallel-size)");
  v("decoder-first-pipeline-num-layers", c.decoder_first_pipeline_num_layers, kNothing,
    "layers of the first pipeline rank; the others share the rest alike");
  v("decoder-last-pipeline-num-layers", c.decoder_last_pipeline_num_layers, kNothing,
    "the same of the last one");
  v("account-for-embedding-in-pipeline-split", c.account_for_embedding_in_pipeline_split, kNothing,
    "the embedding counts as a layer when stages share them");
  v("account-for-loss-in-pipeline-split", c.account_for_loss_in_pipeline_split, kNothing,
    "the head counts as a layer when stages share them");
  v("sequence-parallel", c.sequence_parallel, kNothing,
    "tensor-parallel ranks also share LayerNorms, residuals and hidden dropout, by tokens");
  v("no-scatter-gather-tensors-in-pipeline", c.no_scatter_gather_tensors_in_pipeline, kNothing,
    "each tensor-parallel rank sends the next stage whole tensors (default: a part, which the stage gathers)");
  v("use-tp-pp-dp-mapping", c.use_tp_pp_dp_mapping, kNothing,
    "number ranks in the order tensor, pipeline, data (default: tensor, data, pipeline)");
  v("use-distributed-optimizer", c.use_distributed_optimizer, kNothing,
    "each data-parallel rank holds a part of the optimizer's state (ZeRO-1)");
  v("zero-stage", c.zero_stage, kNothing,
    "0: replicated optimizer; 1: as --use-distributed-optimizer");
  v("ddp-bucket-size", c.ddp_bucket_size, kNothing,
    "gradients that are reduced together (default: 40M, or 1M per data-parallel rank)");
  v("check-weights-interval", c.check_weights_interval, kNothing,
    "steps between checks that ranks hold equal weights, and masters equal to theirs (default: none)");
  v("distributed-backend", c.distributed_backend, kNothing,
    "how GPUs exchange tensors: nccl; or mpi (gloo), through host memory, where ranks may share a GPU");
  v("distributed-timeout-minutes", c.distributed_timeout_minutes, kNothing,
    "ranks that wait longer for others end the run and name them");
  v("gemm-algorithm-cache", c.gemm_algorithm_cache, kNothing,
    "file of timed GEMM algorithms (default: ~/.cache/weft/gemm-algorithms)");

  v.group("Data");
  visit_fields(kDataPathFields, declare, c.paths);
  sample(&SampleArguments::split);
  sample(&SampleArguments::sample_order);
  sample(&SampleArguments::dataloader_type);
  sample(&SampleArguments::no_data_sharding);
  sample(&SampleArguments::mid_level_dataset_surplus);
  v("data-cache-path", c.data_cache_path, kNothing,
    "folder of index caches, read and written under Megatron's names (default: in memory)");
  v("vocab-file", c.vocab_file, kCompared, "GPT-2 vocab.json; only counted here");
  v("merge-file", c.merge_file, kCompared, "GPT-2 merges.txt; kept for the run manifest");
  v("tokenizer-type", c.tokenizer_type, kCompared,
    "Megatron's name of the tokenizer; a dataset is tokenized already, so it means nothing here, but "
    "NullTokenizer has --vocab-size tokens and one that ends documents");
  v("vocab-size", c.vocab_size, kCompared,
    "tokenizer vocabulary (default: counted in --vocab-file, else from PREFIX.manifest.json)");
  v("eod-token-id", c.eod_token_id, kCompared,
    "the token that ends documents (default: that of PREFIX.manifest.json, else <|endoftext|> of "
    "--vocab-file, else the tokenizer's last)");
  v("eod-mask-loss", c.eod_mask_loss, kGoesOn,
    "no loss where the input is the end-of-document token");
  v("reset-position-ids", c.reset_position_ids, kGoesOn,
    "positions restart after each end-of-document token");
  v("reset-attention-mask", c.reset_attention_mask, kGoesOn,
    "tokens attend to those of their own document only, which ends with the end-of-document token");
  v("dataloader-inter-document-masking", c.dataloader_inter_document_masking, kGoesOn,
    "as both flags above, but documents are those of the dataset, whatever they end with");
  sample(&SampleArguments::unsee);
  v("num-workers", c.num_workers, kNothing, "data loading threads");

  v.group("Checkpoints");
  v("save", c.save, kNothing, "folder of checkpoints; needs --save-interval");
  v("save-interval", c.save_interval, kNothing, "steps between checkpoints");
  v("async-save", c.async_save, kNothing,
    "copy the state to host memory and write it while the next steps run");
  v("keep-last", c.keep_last, kNothing,
    "after a save remove all checkpoints but the newest so many");
  v("keep-every", c.keep_every, kNothing,
    "with --keep-last: keep those of iterations that are multiples");
  v("save-retain-interval", c.save_retain_interval, kNothing,
    "as in Megatron: a save removes the checkpoint before it, unless its iteration is a multiple of this");
  v("load", c.load, kNothing, "folder to resume from");
  v("use-checkpoint-args", c.use_checkpoint_args, kNothing,
    "with --load: the shape of the model is that of the checkpoint, whatever the command line says");
  v("overwrite", c.overwrite, kNothing, "start anew even if --save holds checkpoints");
  v("ckpt-step", c.ckpt_step, kNothing, "with --load: this iteration instead of the latest");
  v("no-save-optim", c.no_save_optim, kNothing, "weights only");
  v("no-load-optim", c.no_load_optim, kNothing, "start with a fresh optimizer");
  v("finetune", c.finetune, kNothing, "load weights only and start at iteration 0");

  v.group("Logs");
  v("log-interval", c.log_interval, kNothing, "steps between log lines");
  v("log-format", c.log_format, kNothing, "megatron-2021, megatron-ds or megatron-2024");
  v("log-params-norm", c.log_params_norm, kNothing, "norm of all parameters in log lines");
  v("log-throughput", c.log_throughput, kNothing, "TFLOP/s in megatron-2024 lines");
  v("timing-log-level", c.timing_log_level, kNothing, "0 to 2: detail of the timer line");
  v("log-memory-to-tensorboard", c.log_memory_to_tensorboard, kNothing,
    "memory of the first rank in the event files");
  v("tensorboard-dir", c.tensorboard_dir, kNothing, "folder of TensorBoard event files");
  v("tensorboard-log-interval", c.tensorboard_log_interval, kNothing,
    "steps between TensorBoard points");
  v("no-log-learning-rate-to-tensorboard", c.no_log_learning_rate_to_tensorboard, kNothing,
    "leave it out of the event files");
  v("no-log-loss-scale-to-tensorboard", c.no_log_loss_scale_to_tensorboard, kNothing,
    "leave it out of the event files");
  v("run-dir", c.run_dir, kNothing,
    "run_manifest.json, metrics.jsonl and sample_losses.bin (default: --save)");
  v("no-sample-losses", c.no_sample_losses, kNothing,
    "do not keep the loss of every sample, which weft-data inspect spikes reads");
  v("eval-tasks", c.eval_tasks, kNothing,
    "benchmarks: files of `weft-model evaluate --tasks`, whose accuracies are logged while training");
  v("eval-tasks-interval", c.eval_tasks_interval, kNothing, "steps between them");
  v("sample-prompt", c.sample_prompt, kNothing,
    "texts that the model continues while it trains, for the log");
  v("sample-interval", c.sample_interval, kNothing, "steps between them");
  v("dry-run", c.dry_run, kNothing, "print what the run would be, allocate nothing, exit");
  v("verbose", c.verbose, kNothing,
    "print all arguments where a terminal shows those that are not the defaults; with --dry-run the "
    "whole plan");

  v.group("Profiling");
  v("profile-steps", c.profile_steps, kNothing,
    "A:B: where the time of the iterations A to B goes, operation by operation, beside what the device "
    "could do; printed, and written to profile_A_B.json in --run-dir");
  v("measure-device", c.measure_device, kNothing,
    "measure what the device can do (products, memory, launches), keep it for --profile-steps beside "
    "--gemm-algorithm-cache, and exit; needs no other option");
  v("measure-device-seconds", c.measure_device_seconds, kNothing,
    "seconds that the bf16 products run, until power and clock are steady; where the device has fp8, the "
    "second half is for fp8 products (default: 30, on a CPU 3)");
}

}  // namespace weft
