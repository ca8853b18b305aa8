// A model on disk, whoever has written it: a checkpoint of any topology, or a Hugging Face folder.
#pragma once

#include <memory>

#include "trainer/identity/run_vocabulary.h"
#include "trainer/model/parameters.h"
#include "trainer/model_tool/checkpoint_option.h"

namespace weft {

class StoredModel {
 public:
  virtual ~StoredModel() = default;
  // The sizes of the model, and whether its run kept documents apart; micro-batch, sequence length,
  // dropout and type are not part of them.
  virtual const ModelShape& shape() const = 0;
  virtual const RunVocabulary& vocabulary() const = 0;
  // Writes the elements of a whole parameter to `to`, as fp32, bf16 or fp16; padding rows are left
  // alone. Thread-safe. Throws as CheckpointReader::read() or HfModelFolder::read().
  virtual void read(const Parameter& parameter, DType type, char* to) = 0;
};

// Opens the checkpoint that `option` names, or else, where the folder has a config.json and no
// checkpoint, a Hugging Face folder. Throws std::runtime_error for a folder that is neither.
std::unique_ptr<StoredModel> open_stored_model(const CheckpointOption& option);

}  // namespace weft
