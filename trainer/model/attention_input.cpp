// What becomes of queries, keys and values between their product and attention: rotary positions,
// and groups of queries that share a key and a value; and the slopes of ALiBi.
#include <cmath>

#include "trainer/model/alibi.h"
#include "trainer/model/model.h"

namespace weft {

// Frequencies are rounded to fp32, as those that Megatron and Hugging Face multiply positions by;
// the products and their cosines and sines are fp64 until they are stored.
void Model::fill_angles() {
  if (angles_.empty()) return;
  const int64_t num_positions = angles_.shape(0), num_pairs = angles_.shape(2);
  std::vector<float> values(static_cast<size_t>(angles_.num_elements()));
  for (int64_t pair = 0; pair < num_pairs; ++pair) {
    const double exponent = static_cast<double>(pair) / static_cast<double>(num_pairs);
    const auto frequency = static_cast<float>(std::pow(shape_.rotary_base, -exponent));
    for (int64_t position = 0; position < num_positions; ++position) {
      const double angle = static_cast<double>(position) * static_cast<double>(frequency);
      const auto at = static_cast<size_t>(position * 2 * num_pairs + pair);
      values[at] = static_cast<float>(std::cos(angle));
      values[at + static_cast<size_t>(num_pairs)] = static_cast<float>(std::sin(angle));
    }
  }
  backend_.copy(angles_.data(), values.data(), angles_.num_bytes(), Stream::kCompute);
}

void Model::fill_slopes() {
  if (slopes_.empty()) return;
  const std::vector<float> slopes = alibi_slopes(shape_.num_heads);
  backend_.copy(slopes_.data(), slopes.data() + own_heads().first, slopes_.num_bytes(),
                Stream::kCompute);
}

void Model::rotate(Tensor qkv, const MicroBatch& batch, bool inverse) {
  if (shape_.rotary_size == 0) return;
  backend_.run(
      Rotary{.qkv = qkv,
             .angles = angles_,
             .document_bounds = shape_.restarts_positions ? batch.document_bounds : Tensor(),
             .interleaved = shape_.rotary_interleaved,
             .inverse = inverse});
}

Tensor Model::expanded(Tensor qkv) {
  if (groups_ == heads_) return qkv;
  backend_.run(ExpandGroups{.expanded = expanded_, .grouped = qkv});
  return expanded_;
}

}  // namespace weft
