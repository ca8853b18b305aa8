// Turns the options of the command line into those of the trainer.
#include "trainer/config/config.h"
#include "trainer/step/trainer.h"

namespace weft {

TrainerOptions trainer_options(const Config& config, int64_t vocab_size) {
  TrainerOptions options;
  options.shape = model_shape(config, vocab_size);
  options.layout.tp_size = static_cast<int>(config.tensor_model_parallel_size);
  options.layout.pp_size = static_cast<int>(config.pipeline_model_parallel_size);
  options.optimizer = {config.adam_beta1, config.adam_beta2, config.adam_eps, config.weight_decay,
                       config.clip_grad};
  options.has_loss_mask = config.eod_mask_loss;
  return options;
}

}  // namespace weft
