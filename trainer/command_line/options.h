// The one table of weft-train's options. A visitor is called with (flag, value, help) for each, so
// that parsing, help, the banner and the run manifest cannot disagree. Flags that only other
// Megatrons have are listed in megatron_flags.h.
#pragma once

#include "trainer/config/config.h"

namespace weft {

// C is Config or const Config. The visitor has group(name) and operator()(flag, value, help).
template <typename C, typename Visitor>
void visit_options(C& c, Visitor& v) {
  // Those that decide the samples of a run are declared in the list that its readers use, too.
  const auto declare = [&v](const auto& field, auto& value) { v(field.flag, value, field.help); };
  const auto sample = [&c, &declare](auto member) {
    with_field(member, [&](const auto& field) { declare(field, c.*(field.member)); });
  };
  v.group("Model shape");
  v("num-layers", c.num_layers, "transformer blocks");
  v("hidden-size", c.hidden_size, "width of the residual stream");
  v("ffn-hidden-size", c.ffn_hidden_size,
    "width of the feed-forward layer (default: 4 * hidden-size; with --swiglu two thirds of it)");
  v("num-attention-heads", c.num_attention_heads, "attention heads");
  v("kv-channels", c.kv_channels, "head size (default: hidden-size / num-attention-heads)");
  sample(&SampleArguments::seq_length);
  v("max-position-embeddings", c.max_position_embeddings,
    "rows of the position table, >= seq-length; not needed with rope, alibi or none");
  v("make-vocab-size-divisible-by", c.make_vocab_size_divisible_by,
    "the vocabulary is padded to a multiple of this");
  v("pad-vocab-size-to", c.pad_vocab_size_to, "exact padded vocabulary size");
  v("train-padded-vocabulary", c.train_padded_vocabulary,
    "as Megatron: the padding is part of the softmax, trained and stored");
  v("normalization", c.normalization, "LayerNorm or RMSNorm");
  v("layernorm-epsilon", c.layernorm_epsilon, "epsilon of every norm");
  v("embed-layernorm", c.embed_layernorm,
    "a LayerNorm of the word embedding, before positions are added, as BLOOM has");
  v("swiglu", c.swiglu, "gated feed-forward layer: silu(gate) * up in place of GELU");
  v("glu-activation", c.glu_activation,
    "the same by another activation, and with the default width: swiglu, geglu, reglu or liglu");
  v("position-embedding-type", c.position_embedding_type,
    "learned_absolute (absolute), rope (rotary), alibi or none");
  v("use-rotary-position-embeddings", c.use_rotary_position_embeddings,
    "as --position-embedding-type rope");
  v("rotary-base", c.rotary_base, "base of the rotary frequencies");
  v("rotary-percent", c.rotary_percent, "share of a head that rotary positions turn");
  v("rotary-interleaved", c.rotary_interleaved,
    "rotary positions turn pairs of neighbours, not of the two halves");
  v("group-query-attention", c.group_query_attention,
    "heads share keys and values in --num-query-groups groups");
  v("num-query-groups", c.num_query_groups, "with --group-query-attention: the number of groups");
  v("no-bias-gelu-fusion", c.no_bias_gelu_fusion,
    "GELU by erf instead of tanh, as Megatron's unfused path");
  v("untie-embeddings-and-output-weights", c.untie_embeddings_and_output_weights,
    "the head has weights of its own, not those of the word embedding");
  v("disable-bias-linear", c.disable_bias_linear, "no bias in the products of attention and MLP");
  v("add-qkv-bias", c.add_qkv_bias,
    "with --disable-bias-linear: queries, keys and values have one");
  v("attention-dropout", c.attention_dropout, "on attention probabilities");
  v("hidden-dropout", c.hidden_dropout, "on the embedding and both residual branches");

  v.group("Batch and duration");
  sample(&SampleArguments::micro_batch_size);
  sample(&SampleArguments::global_batch_size);
  sample(&SampleArguments::rampup_batch_size);
  sample(&SampleArguments::step_batch_size_schedule);
  sample(&SampleArguments::train_iters);
  sample(&SampleArguments::train_samples);
  v("train-tokens", c.train_tokens,
    "stop with the step that reaches so many tokens, if it comes before the last iteration or sample");
  v("exit-interval", c.exit_interval, "save and exit when the iteration is a multiple of this");
  v("exit-duration-in-mins", c.exit_duration_in_mins, "save and exit after this many minutes");
  v("exit-on-missing-checkpoint", c.exit_on_missing_checkpoint,
    "with --load: no checkpoint is an error");
  sample(&SampleArguments::eval_iters);
  sample(&SampleArguments::eval_interval);
  sample(&SampleArguments::full_validation);
  v("skip-train", c.skip_train, "only evaluate");

  v.group("Sequence-length curriculum");
  v("curriculum-learning", c.curriculum_learning,
    "the run has a curriculum: by --curriculum-schedule-type, or in --deepspeed_config");
  visit_fields(kCurriculumFields, declare, c.curriculum);
  v("deepspeed_config", c.deepspeed_config,
    "DeepSpeed's JSON file: batch sizes, gradient clipping, bf16, fp16, ZeRO stage, curriculum_learning "
    "and data_efficiency are read from it");

  v.group("Curriculum by difficulty");
  sample(&SampleArguments::curriculum_metrics);
  sample(&SampleArguments::curriculum_metrics_seed);
  v("data-efficiency-curriculum-learning", c.data_efficiency_curriculum_learning,
    "the run has such a curriculum: by --curriculum-metrics, or in --deepspeed_config");

  v.group("Memory of activations");
  v("recompute-granularity", c.recompute_granularity,
    "full: backward computes whole layers again, from their inputs; selective: the parts of "
    "--recompute-modules (default: all is kept)");
  v("recompute-method", c.recompute_method,
    "of full: uniform keeps the input of each --recompute-num-layers layers, block recomputes only so "
    "many layers of a pipeline stage, one by one");
  v("recompute-num-layers", c.recompute_num_layers, "layers of the method (default: 1)");
  v("recompute-modules", c.recompute_modules,
    "of selective: layernorm, activation, mlp (a product more), core_attn (which is never kept: the "
    "default)");
  v("checkpoint-activations", c.checkpoint_activations,
    "as --recompute-granularity full --recompute-method uniform");
  v("recompute-activations", c.recompute_activations, "as --recompute-granularity selective");
  v("logits-chunk", c.logits_chunk,
    "tokens whose logits are in memory at a time, for large vocabularies (default: those of a "
    "micro-batch)");

  v.group("Optimizer and learning rate");
  v("adam-beta1", c.adam_beta1, "first moment's decay");
  v("adam-beta2", c.adam_beta2, "second moment's decay");
  v("adam-eps", c.adam_eps, "added to the root of the second moment");
  v("weight-decay", c.weight_decay, "decoupled, on matrices only");
  v("clip-grad", c.clip_grad, "limit of the global gradient norm; 0: none");
  v("bf16-optimizer-state", c.bf16_optimizer_state,
    "Adam's moments in bfloat16, rounded at random: 4 bytes a parameter less, and other results");
  v("optimizer-offload", c.optimizer_offload,
    "Adam's moments and the masters lie in the host's memory, and the update reads and writes them there: "
    "slower, and the same bits");
  v("exp-avg-dtype", c.exp_avg_dtype,
    "as in Megatron: fp32 or bf16; with bf16 for both moments as --bf16-optimizer-state");
  v("exp-avg-sq-dtype", c.exp_avg_sq_dtype, "the same of the second moment");
  v("lr", c.lr, "peak learning rate");
  v("min-lr", c.min_lr, "the schedule ends here");
  v("lr-decay-style", c.lr_decay_style, "constant, linear, cosine or inverse-square-root");
  v("lr-decay-iters", c.lr_decay_iters, "steps until min-lr (default: train-iters)");
  v("lr-decay-samples", c.lr_decay_samples, "samples until min-lr (default: train-samples)");
  v("lr-warmup-iters", c.lr_warmup_iters, "steps of linear warm-up");
  v("lr-warmup-samples", c.lr_warmup_samples, "samples of linear warm-up");
  v("lr-warmup-fraction", c.lr_warmup_fraction, "warm-up as a share of the decay length");
  v("lr-decay-tokens", c.lr_decay_tokens, "tokens until min-lr, in place of steps or samples");
  v("lr-warmup-tokens", c.lr_warmup_tokens, "tokens of linear warm-up; with --lr-decay-tokens");
  v("lr-tokens-as-deepspeed", c.lr_tokens_as_deepspeed,
    "count the tokens of the schedule as Megatron-DeepSpeed does, for its numbers: a step late, and "
    "decay from token 0 unless a step ends exactly with the warm-up");
  v("override-lr-scheduler", c.override_lr_scheduler,
    "on resume this command line's schedule wins");
  v("use-checkpoint-lr-scheduler", c.use_checkpoint_lr_scheduler,
    "on resume the checkpoint's schedule wins");
  v("init-method-std", c.init_method_std, "standard deviation of the initial weights");
  sample(&SampleArguments::seed);

  v.group("Precision, device, parallelism");
  v("bf16", c.bf16,
    "bfloat16 weights and activations, fp32 master weights and gradients (default: fp32)");
  v("fp16", c.fp16,
    "the same with float16, whose loss is scaled so that small gradients do not vanish");
  v("fp32-residual-connection", c.fp32_residual_connection,
    "with --bf16 or --fp16: the residual stream, and the gradients along it, stay fp32");
  v("loss-scale", c.loss_scale, "of fp16: a constant factor of the loss (default: a dynamic one)");
  v("initial-loss-scale", c.initial_loss_scale, "the first dynamic factor");
  v("min-loss-scale", c.min_loss_scale, "the smallest dynamic factor");
  v("loss-scale-window", c.loss_scale_window,
    "steps in a row without an overflow, after which the dynamic factor doubles");
  v("hysteresis", c.hysteresis,
    "overflows after which it halves, and again with each one until it has doubled");
  v("fp8-format", c.fp8_format,
    "products of the layers in fp8, with --bf16: hybrid (gradients e5m2, all else e4m3) or e4m3");
  v("fp8", c.fp8_plain, "the same as --fp8-format hybrid");
  v("fp8-hybrid", c.fp8_hybrid, "an older spelling of --fp8-format hybrid");
  v("fp8-e4m3", c.fp8_e4m3, "an older spelling of --fp8-format e4m3");
  v("fp8-recipe", c.fp8_recipe,
    "the scale of an fp8 tensor: delayed, from the steps before; or tensorwise, from the tensor itself");
  v("fp8-margin", c.fp8_margin,
    "delayed: scales leave room for numbers that are 2^margin times as large as those before");
  v("fp8-amax-history-len", c.fp8_amax_history_len,
    "delayed: steps whose largest numbers are kept for each tensor");
  v("fp8-amax-compute-algo", c.fp8_amax_compute_algo,
    "delayed: the scale follows from the most_recent of them, or from the max");
  v("no-fp8-wgrad", c.no_fp8_wgrad, "gradients of weights by bf16 products");
  v("fp8-shadow-interval", c.fp8_shadow_interval,
    "steps between those whose forward products are made in bf16, too, to log how far fp8 is off (default: none)");
  v("skip-bad-steps", c.skip_bad_steps,
    "leave out the updates of so many steps in a row whose loss or gradient norm is not finite, before "
    "the run ends with code 11 (default: it ends with the first)");
  v("device", c.device, "auto, cuda or cpu");
  v("device-profile", c.device_profile,
    "with --dry-run: plan for this kind of GPU (h200) or this profile file, without a GPU");
  v("world-size", c.planned_world_size,
    "with --dry-run: plan for so many ranks without starting them (default: those that hold one model)");
  v("tensor-model-parallel-size", c.tensor_model_parallel_size,
    "ranks that share each layer: its heads, its feed-forward columns, the vocabulary");
  v("pipeline-model-parallel-size", c.pipeline_model_parallel_size,
    "pipeline stages, each of which holds some of the layers");
  v("pp-partition-method", c.pp_partition_method,
    "layers of the stages, virtual ones too: uniform, type:transformer, type:transformer|embedding, parameters, cost, or "
    "their numbers, such as 5,6,6,5");
  v("num-layers-per-virtual-pipeline-stage", c.num_layers_per_virtual_pipeline_stage,
    "interleave: each pipeline rank holds several runs of so many layers, its virtual stages");
  v("num-virtual-stages-per-pipeline-rank", c.num_virtual_stages_per_pipeline_rank,
    "the same by the number of virtual stages; --pp-partition-method shares out the layers to all");
  v("microbatch-group-size-per-virtual-pipeline-stage",
    c.microbatch_group_size_per_virtual_pipeline_stage,
    "micro-batches that pass a virtual stage together (default: pipeline-model-parallel-size)");
  v("sequence-parallel", c.sequence_parallel,
    "tensor-parallel ranks also share LayerNorms, residuals and hidden dropout, by tokens");
  v("no-scatter-gather-tensors-in-pipeline", c.no_scatter_gather_tensors_in_pipeline,
    "each tensor-parallel rank sends the next stage whole tensors (default: a part, which the stage gathers)");
  v("use-tp-pp-dp-mapping", c.use_tp_pp_dp_mapping,
    "number ranks in the order tensor, pipeline, data (default: tensor, data, pipeline)");
  v("use-distributed-optimizer", c.use_distributed_optimizer,
    "each data-parallel rank holds a part of the optimizer's state (ZeRO-1)");
  v("zero-stage", c.zero_stage, "0: replicated optimizer; 1: as --use-distributed-optimizer");
  v("ddp-bucket-size", c.ddp_bucket_size,
    "gradients that are reduced together (default: 40M, or 1M per data-parallel rank)");
  v("check-weights-interval", c.check_weights_interval,
    "steps between checks that ranks hold equal weights, and masters equal to theirs (default: none)");
  v("distributed-backend", c.distributed_backend,
    "how GPUs exchange tensors: nccl; or mpi (gloo), through host memory, where ranks may share a GPU");
  v("distributed-timeout-minutes", c.distributed_timeout_minutes,
    "ranks that wait longer for others end the run and name them");
  v("gemm-algorithm-cache", c.gemm_algorithm_cache,
    "file of timed GEMM algorithms (default: ~/.cache/weft/gemm-algorithms)");

  v.group("Data");
  visit_fields(kDataPathFields, declare, c.paths);
  sample(&SampleArguments::split);
  sample(&SampleArguments::sample_order);
  sample(&SampleArguments::dataloader_type);
  sample(&SampleArguments::no_data_sharding);
  sample(&SampleArguments::mid_level_dataset_surplus);
  v("data-cache-path", c.data_cache_path,
    "folder of index caches, read and written under Megatron's names (default: in memory)");
  v("vocab-file", c.vocab_file, "GPT-2 vocab.json; only counted here");
  v("merge-file", c.merge_file, "GPT-2 merges.txt; kept for the run manifest");
  v("vocab-size", c.vocab_size,
    "tokenizer vocabulary (default: counted in --vocab-file, else from PREFIX.manifest.json)");
  v("eod-token-id", c.eod_token_id,
    "the token that ends documents (default: that of PREFIX.manifest.json, else <|endoftext|> of "
    "--vocab-file, else the tokenizer's last)");
  v("eod-mask-loss", c.eod_mask_loss, "no loss where the input is the end-of-document token");
  v("reset-position-ids", c.reset_position_ids,
    "positions restart after each end-of-document token");
  v("reset-attention-mask", c.reset_attention_mask,
    "tokens attend to those of their own document only, which ends with the end-of-document token");
  v("dataloader-inter-document-masking", c.dataloader_inter_document_masking,
    "as both flags above, but documents are those of the dataset, whatever they end with");
  sample(&SampleArguments::unsee);
  v("num-workers", c.num_workers, "data loading threads");

  v.group("Checkpoints");
  v("save", c.save, "folder of checkpoints; needs --save-interval");
  v("save-interval", c.save_interval, "steps between checkpoints");
  v("async-save", c.async_save,
    "copy the state to host memory and write it while the next steps run");
  v("keep-last", c.keep_last, "after a save remove all checkpoints but the newest so many");
  v("keep-every", c.keep_every, "with --keep-last: keep those of iterations that are multiples");
  v("load", c.load, "folder to resume from");
  v("overwrite", c.overwrite, "start anew even if --save holds checkpoints");
  v("ckpt-step", c.ckpt_step, "with --load: this iteration instead of the latest");
  v("no-save-optim", c.no_save_optim, "weights only");
  v("no-load-optim", c.no_load_optim, "start with a fresh optimizer");
  v("finetune", c.finetune, "load weights only and start at iteration 0");

  v.group("Logs");
  v("log-interval", c.log_interval, "steps between log lines");
  v("log-format", c.log_format, "megatron-2021, megatron-ds or megatron-2024");
  v("log-params-norm", c.log_params_norm, "norm of all parameters in log lines");
  v("log-throughput", c.log_throughput, "TFLOP/s in megatron-2024 lines");
  v("timing-log-level", c.timing_log_level, "0 to 2: detail of the timer line");
  v("tensorboard-dir", c.tensorboard_dir, "folder of TensorBoard event files");
  v("tensorboard-log-interval", c.tensorboard_log_interval, "steps between TensorBoard points");
  v("no-log-learning-rate-to-tensorboard", c.no_log_learning_rate_to_tensorboard,
    "leave it out of the event files");
  v("no-log-loss-scale-to-tensorboard", c.no_log_loss_scale_to_tensorboard,
    "leave it out of the event files");
  v("run-dir", c.run_dir,
    "run_manifest.json, metrics.jsonl and sample_losses.bin (default: --save)");
  v("no-sample-losses", c.no_sample_losses,
    "do not keep the loss of every sample, which weft-data inspect spikes reads");
  v("dry-run", c.dry_run, "print what the run would be, allocate nothing, exit");

  v.group("Profiling");
  v("profile-steps", c.profile_steps,
    "A:B: where the time of the iterations A to B goes, operation by operation, beside what the device "
    "could do; printed, and written to profile_A_B.json in --run-dir");
  v("measure-device", c.measure_device,
    "measure what the device can do (products, memory, launches), keep it for --profile-steps beside "
    "--gemm-algorithm-cache, and exit; needs no other option");
  v("measure-device-seconds", c.measure_device_seconds,
    "seconds that the bf16 products run, until power and clock are steady; where the device has fp8, the "
    "second half is for fp8 products (default: 30, on a CPU 3)");
}

}  // namespace weft
