#include "trainer/model_tool/hf_layout.h"

#include <algorithm>

namespace weft {

std::vector<HfTensor> hf_tensors(const ModelShape& shape) {
  std::vector<HfTensor> tensors = {
      {"wte.weight", "embedding.word_embeddings.weight", HfLayout::kPaddedRows},
      {"wpe.weight", "embedding.position_embeddings.weight", HfLayout::kSame}};
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::string hf = "h." + std::to_string(layer) + ".";
    const std::string our = "decoder.layers." + std::to_string(layer) + ".";
    tensors.insert(
        tensors.end(),
        {{hf + "ln_1.weight", our + "input_layernorm.weight", HfLayout::kSame},
         {hf + "ln_1.bias", our + "input_layernorm.bias", HfLayout::kSame},
         {hf + "attn.c_attn.weight", our + "self_attention.linear_qkv.weight",
          HfLayout::kQkvTransposed},
         {hf + "attn.c_attn.bias", our + "self_attention.linear_qkv.bias", HfLayout::kQkvVector},
         {hf + "attn.c_proj.weight", our + "self_attention.linear_proj.weight",
          HfLayout::kTransposed},
         {hf + "attn.c_proj.bias", our + "self_attention.linear_proj.bias", HfLayout::kSame},
         {hf + "ln_2.weight", our + "pre_mlp_layernorm.weight", HfLayout::kSame},
         {hf + "ln_2.bias", our + "pre_mlp_layernorm.bias", HfLayout::kSame},
         {hf + "mlp.c_fc.weight", our + "mlp.linear_fc1.weight", HfLayout::kTransposed},
         {hf + "mlp.c_fc.bias", our + "mlp.linear_fc1.bias", HfLayout::kSame},
         {hf + "mlp.c_proj.weight", our + "mlp.linear_fc2.weight", HfLayout::kTransposed},
         {hf + "mlp.c_proj.bias", our + "mlp.linear_fc2.bias", HfLayout::kSame}});
  }
  tensors.push_back({"ln_f.weight", "decoder.final_layernorm.weight", HfLayout::kSame});
  tensors.push_back({"ln_f.bias", "decoder.final_layernorm.bias", HfLayout::kSame});
  if (shape.unties_head)
    tensors.push_back({"lm_head.weight", "output_layer.weight", HfLayout::kPaddedRows});
  return tensors;
}

std::vector<int64_t> hf_shape(const HfTensor& tensor, const Parameter& parameter,
                              const ModelShape& shape) {
  std::vector<int64_t> out = parameter.global_shape;
  if (tensor.layout == HfLayout::kTransposed || tensor.layout == HfLayout::kQkvTransposed)
    std::swap(out[0], out[1]);
  if (tensor.layout == HfLayout::kPaddedRows) out[0] = shape.vocab_size;
  return out;
}

namespace {

// Returns our row of the fused qkv for their column (s, head, d).
int64_t qkv_row(int64_t column, const ModelShape& shape) {
  const int64_t D = shape.head_size, H = shape.num_heads;
  const int64_t s = column / (H * D), head = column / D % H, d = column % D;
  return (head * 3 + s) * D + d;
}

// Calls move(their index, our index) for every element that both sides have.
template <typename Move>
void for_each_element(const HfTensor& tensor, const Parameter& parameter, const ModelShape& shape,
                      Move move) {
  const std::vector<int64_t> theirs = hf_shape(tensor, parameter, shape);
  const int64_t rows = theirs[0], cols = theirs.size() > 1 ? theirs[1] : 1;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const int64_t their = row * cols + col;
      switch (tensor.layout) {
        case HfLayout::kSame:
        case HfLayout::kPaddedRows:
          move(their, their);
          break;
        case HfLayout::kTransposed:
          move(their, col * rows + row);
          break;
        case HfLayout::kQkvTransposed:
          move(their, qkv_row(col, shape) * rows + row);
          break;
        case HfLayout::kQkvVector:
          move(their, qkv_row(row, shape));
          break;
      }
    }
  }
}

}  // namespace

void to_hf(float* theirs, const float* ours, const HfTensor& tensor, const Parameter& parameter,
           const ModelShape& shape) {
  for_each_element(tensor, parameter, shape,
                   [&](int64_t their, int64_t our) { theirs[their] = ours[our]; });
}

void from_hf(float* ours, const float* theirs, const HfTensor& tensor, const Parameter& parameter,
             const ModelShape& shape) {
  std::fill_n(ours, parameter.num_elements, 0.0F);
  for_each_element(tensor, parameter, shape,
                   [&](int64_t their, int64_t our) { ours[our] = theirs[their]; });
}

}  // namespace weft
