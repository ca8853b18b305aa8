// The config.json of Hugging Face folders: which model it describes, and how. [transformers,
// models/gpt2/configuration_gpt2.py, models/llama/configuration_llama.py,
// models/bloom/configuration_bloom.py]
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "trainer/config/model_shape.h"

namespace weft {

// Returns the shape that `config`, the contents of `path`, describes, with a vocabulary that is
// padded to a multiple of `vocabulary_divisor`. Throws std::runtime_error, which names the field,
// for a model that is not built.
ModelShape shape_from_hf_config(const nlohmann::json& config, const std::filesystem::path& path,
                                int64_t vocabulary_divisor);

// How a run has trained, for those who go on with transformers. The defaults are those of GPT-2
// there.
struct HfTraining {
  double attention_dropout = 0.1, hidden_dropout = 0.1, init_method_std = 0.02;
};

// Returns the text of config.json for a model with weights of type `dtype`, whose texts end with
// the token `end_of_document`; -1: nothing tells it, and the file names none. Throws as hf_model().
std::string hf_config_json(const ModelShape& shape, const HfTraining& training, DType dtype,
                           int64_t end_of_document);

}  // namespace weft
