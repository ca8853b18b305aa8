// The configuration of a small run, its data, and what its checkpoint says.
#pragma once

#include "trainer/resume/resume.h"

namespace weft {

inline Config base_config() {
  Config config;
  config.num_layers = 2;
  config.hidden_size = 32;
  config.num_attention_heads = 4;
  config.seq_length = config.max_position_embeddings.emplace(16);
  config.micro_batch_size = 2;
  config.global_batch_size = 8;
  config.train_iters = 10;
  config.lr = 1e-3;
  config.paths.data_path = {"/nowhere/data_text_document"};
  return config;
}

inline DataIdentity data_of_run() {
  DataIdentity data;
  data.datasets.push_back({.prefix = "/data/p",
                           .num_documents = 3,
                           .num_sequences = 3,
                           .num_tokens = 100,
                           .bin_bytes = 200,
                           .idx_xxh3 = 1,
                           .bin_xxh3 = 2});
  data.vocabulary = {.num_tokens = 64,
                     .source = "s",
                     .tokenizer = {"gpt2", {{"/v/vocab.json", "aa"}, {"/v/merges.txt", "bb"}}}};
  return data;
}

inline CheckpointInfo saved_by(const Config& config, const ModelShape& shape) {
  LrSchedule lr(lr_settings(config));
  lr.advance(24);
  return checkpoint_info({.scalars = {.iteration = 3, .consumed_samples = 24, .adam_step = 3},
                          .consumed_valid_samples = 16,
                          .lr = lr},
                         shape, config, data_of_run());
}

}  // namespace weft
