// The part of a checkpoint that is not tensors: counters, schedule, architecture, arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "trainer/identity/data_identity.h"
#include "trainer/step/training_state.h"

namespace weft {

struct CheckpointInfo {
  ScalarState scalars;
  int64_t consumed_valid_samples = 0;
  // The run's learning-rate schedule in samples. A run that loads the checkpoint compares it with
  // its own [Megatron-LM optimizer_param_scheduler.py].
  double max_lr = 0, min_lr = 0, init_lr = 0;
  double lr_warmup_samples = 0;  // --lr-warmup-fraction need not give a whole number
  int64_t lr_decay_samples = 0;
  std::string lr_decay_style, lr_wsd_decay_style = "exponential";
  int64_t lr_wsd_decay_samples = 0;
  std::optional<double> decoupled_max_lr, decoupled_min_lr;
  std::optional<int64_t> lr_decay_tokens, lr_warmup_tokens;
  bool lr_tokens_as_deepspeed = false;
  int64_t lr_samples = 0, lr_tokens = 0, lr_warmup_end_tokens = 0;  // LrPosition's
  // Names and values that must be equal in the run that loads it: "num_layers" -> "12", ...
  std::map<std::string, std::string> architecture;
  // The bytes that the run was trained on. Empty in imported weights.
  DataIdentity data;
  // The table of GEMM algorithms that the run used (Backend::algorithms()). A run that resumes uses
  // it again, so that it goes on bit for bit on another node.
  std::string gemm_algorithms;
  // Reading sets this to false where there are weights alone (an imported model); the optimizer
  // then starts afresh.
  bool has_optimizer = true;
  // The segments of the run up to here, the one that saves it included, as a JSON list
  // (segment_list.h). Empty in imported weights.
  std::string run_segments_json;
  // All arguments of the run as a JSON object, for people.
  std::string arguments_json = "{}";
};

}  // namespace weft
