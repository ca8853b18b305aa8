// The mapping between the tensors of Hugging Face's models (HfModel) and our parameters, element by
// element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/model_shape.h"
#include "trainer/model/parameters.h"

namespace weft {

enum class HfLayout {
  kSame,           // vectors, position embeddings, BLOOM's matrices
  kPaddedRows,     // word embeddings: ours have padding rows at the end
  kTransposed,     // Conv1D [in, out] <-> [out, in]
  kQkvTransposed,  // the same; columns (s, head, d) <-> rows (head, s, d), s = query, key, value
  kQkvVector,      // the bias that belongs to kQkvTransposed
  // LLaMA and its kind: rows of a matrix or vector of ours, which several tensors of theirs make
  // up.
  kQueries,
  kKeys,
  kValues,
  kGate,
  kUp,
};

struct HfTensor {
  std::string hf_name;  // without the prefix
  std::string parameter;
  HfLayout layout;
};

// Mistral's shape is LLaMA's.
enum class HfModel { kGpt2, kBloom, kLlama, kQwen2, kQwen3 };

// Returns the model of theirs that has this shape. Throws std::runtime_error, with what is in the
// way, for a shape that none has.
HfModel hf_model(const ModelShape& shape);
// Returns "model.", or for GPT-2 and BLOOM "transformer.": before the names of all tensors but the
// head.
std::string hf_prefix(const ModelShape& shape);

// Returns all tensors in the order in which transformers writes them.
std::vector<HfTensor> hf_tensors(const ModelShape& shape);

// Returns the shape of `tensor` on Hugging Face's side.
std::vector<int64_t> hf_shape(const HfTensor& tensor, const Parameter& parameter,
                              const ModelShape& shape);

// Elements that follow each other on our side, and lie `their_stride` apart on theirs.
struct HfRun {
  int64_t ours = 0, theirs = 0;  // the first one
  int64_t their_stride = 1;
  int64_t count = 0;
};
// Returns all elements that both sides have, in the order of their rows, or of the columns that are
// our rows. Our padding rows are not among them.
std::vector<HfRun> hf_runs(const HfTensor& tensor, const Parameter& parameter,
                           const ModelShape& shape);

}  // namespace weft
