// The mapping between the tensors of Hugging Face's GPT-2, LLaMA or BLOOM and our parameters,
// element by element.
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
  // LLaMA: rows of a matrix of ours, which several tensors of theirs make up.
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

enum class HfModel { kGpt2, kLlama, kBloom };

// Returns the model of theirs that has this shape. Throws std::runtime_error, with what is in the
// way, for a shape that none has.
HfModel hf_model(const ModelShape& shape);
// Returns "model." for LLaMA, else "transformer.": before the names of all tensors but the head.
std::string hf_prefix(const ModelShape& shape);

// Returns all tensors in the order in which transformers writes them.
std::vector<HfTensor> hf_tensors(const ModelShape& shape);

// Returns the shape of `tensor` on Hugging Face's side.
std::vector<int64_t> hf_shape(const HfTensor& tensor, const Parameter& parameter,
                              const ModelShape& shape);

// These copy the fp32 elements of a tensor from one side to the other. `ours` has
// parameter.num_elements elements, `theirs` as many as hf_shape() gives. to_hf drops our padding
// rows, from_hf leaves them as they are.
void to_hf(float* theirs, const float* ours, const HfTensor& tensor, const Parameter& parameter,
           const ModelShape& shape);
void from_hf(float* ours, const float* theirs, const HfTensor& tensor, const Parameter& parameter,
             const ModelShape& shape);

}  // namespace weft
