// Turns the options of the command line into those of the trainer.
#include <algorithm>

#include "trainer/config/config.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/step/trainer.h"

namespace weft {

TrainerOptions trainer_options(const Config& config, int64_t vocab_size) {
  TrainerOptions options;
  options.shape = model_shape(config, vocab_size);
  options.optimizer = {.beta1 = config.adam_beta1,
                       .beta2 = config.adam_beta2,
                       .eps = config.adam_eps,
                       .weight_decay = config.weight_decay,
                       .clip_grad = config.clip_grad,
                       .has_bf16_moments = config.has_bf16_moments(),
                       .seed = options.shape.seed,
                       .offloads_state = config.optimizer_offload,
                       .muon = config.muon()};
  options.recompute = recompute_options(config);
  if (config.fp16) {
    options.loss_scale = {.constant = config.loss_scale,
                          .initial = config.initial_loss_scale,
                          .min = config.min_loss_scale,
                          .window = config.loss_scale_window,
                          .hysteresis = config.hysteresis};
  }
  options.skips_bad_steps = config.skip_bad_steps > 0;
  options.logits_chunk = config.logits_chunk.value_or(0);
  options.has_loss_mask = config.has_loss_mask();
  const int64_t largest_batch = BatchSchedule(config).largest_global_batch_size();
  if (!config.no_sample_losses && !config.run_folder().empty())
    options.num_sample_losses = largest_batch;
  options.most_micro_batches = std::max(largest_batch, config.global_batch()) /
                               (config.micro_batch_size * config.data_parallel_size());
  options.micro_batch_group_size =
      config.microbatch_group_size_per_virtual_pipeline_stage.value_or(0);
  options.scatters_between_stages = !config.no_scatter_gather_tensors_in_pipeline;
  options.shards_optimizer = config.shards_optimizer();
  // Megatron's default [megatron/core/distributed/param_and_grad_buffer.py].
  const int64_t dp_size = config.data_parallel_size();
  options.bucket_elements =
      config.ddp_bucket_size.value_or(std::max<int64_t>(40'000'000, 1'000'000 * dp_size));
  return options;
}

}  // namespace weft
