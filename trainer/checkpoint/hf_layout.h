// Which tensor of a Hugging Face GPT-2 is which parameter of ours, and how their elements
// correspond.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/model_shape.h"
#include "trainer/model/parameters.h"

namespace weft {

enum class HfLayout {
  kSame,           // vectors, position embeddings
  kPaddedRows,     // word embeddings: ours has padding rows at the end
  kTransposed,     // Conv1D [in, out] <-> [out, in]
  kQkvTransposed,  // the same, and columns (s, head, d) <-> rows (head, s, d), s = query, key,
                   // value
  kQkvVector,      // the bias of that
};

struct HfTensor {
  std::string hf_name;  // without the prefix "transformer."
  std::string parameter;
  HfLayout layout;
};

// In the order in which transformers writes them.
std::vector<HfTensor> hf_tensors(int64_t num_layers);

// The shape of `tensor` on their side.
std::vector<int64_t> hf_shape(const HfTensor& tensor, const Parameter& parameter,
                              const ModelShape& shape);

// Elements between the two sides, fp32; `ours` has parameter.num_elements, `theirs` the product of
// hf_shape. Padding rows of ours are zeroed by from_hf and dropped by to_hf.
void to_hf(float* theirs, const float* ours, const HfTensor& tensor, const Parameter& parameter,
           const ModelShape& shape);
void from_hf(float* ours, const float* theirs, const HfTensor& tensor, const Parameter& parameter,
             const ModelShape& shape);

}  // namespace weft
