// The mapping between the tensors of a Hugging Face GPT-2 and our parameters, element by element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/model_shape.h"
#include "trainer/model/parameters.h"

namespace weft {

enum class HfLayout {
  kSame,           // vectors, position embeddings
  kPaddedRows,     // word embeddings: ours have padding rows at the end
  kTransposed,     // Conv1D [in, out] <-> [out, in]
  kQkvTransposed,  // the same; columns (s, head, d) <-> rows (head, s, d), s = query, key, value
  kQkvVector,      // the bias that belongs to kQkvTransposed
};

struct HfTensor {
  std::string hf_name;  // without the prefix "transformer."
  std::string parameter;
  HfLayout layout;
};

// Returns all tensors in the order in which transformers writes them.
std::vector<HfTensor> hf_tensors(const ModelShape& shape);

// Returns the shape of `tensor` on Hugging Face's side.
std::vector<int64_t> hf_shape(const HfTensor& tensor, const Parameter& parameter,
                              const ModelShape& shape);

// These copy the fp32 elements of a tensor from one side to the other. `ours` has
// parameter.num_elements elements, `theirs` as many as hf_shape() gives. to_hf drops our padding
// rows, from_hf fills them with zeros.
void to_hf(float* theirs, const float* ours, const HfTensor& tensor, const Parameter& parameter,
           const ModelShape& shape);
void from_hf(float* ours, const float* theirs, const HfTensor& tensor, const Parameter& parameter,
             const ModelShape& shape);

}  // namespace weft
