// Checkpoints of the small model that ranks train together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/trainer/step/parallel_training.h"
#include "trainer/checkpoint/checkpoint.h"

namespace weft {

// All ranks together write the checkpoint of the iteration that the model has reached.
inline void save_training(const std::filesystem::path& dir, const Variant& variant,
                          TrainerOnDevice& model, ProcessGroups& groups) {
  std::vector<char> memory(static_cast<size_t>(staging_bytes(model->state_tensors(true))));
  CheckpointStaging staging{
      *model.backend, Tensor(memory.data(), DType::kUInt8, {static_cast<int64_t>(memory.size())})};
  CheckpointInfo info;
  info.scalars = model->scalar_state();
  info.lr_decay_style = "cosine";
  save_checkpoint(dir, info,
                  written_by(groups.layout, variant.shards_optimizer, model->state_tensors(true)),
                  staging, *groups.host);
}

inline void load_training(const std::filesystem::path& dir, int64_t iteration,
                          TrainerOnDevice& model) {
  load_checkpoint(dir, iteration, model->state_tensors(true), *model.backend);
  model->parameters_loaded();
  model->set_scalar_state(read_checkpoint_info(dir, iteration).scalars);
}

}  // namespace weft
