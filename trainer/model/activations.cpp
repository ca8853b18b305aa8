#include "trainer/model/activations.h"

#include <algorithm>

#include "kernels/numbers/dropout.h"

namespace weft {
namespace {

// The buffers of a layer, by how recomputation treats them.
enum Part : unsigned {
  kResidual = 1,
  kScales = 2,
  kNormOutputs = 4,
  kFc1 = 8,
  kActivation = 16,
  kOthers = 32,
  kAll = 63
};

std::string name_of_slot(size_t slot, size_t num_slots) {
  return num_slots > 1 ? "slot " + std::to_string(slot) + " " : "";
}

}  // namespace

Activations::Activations(const LocalShape& shape, const ActivationOptions& options,
                         const LinearLayers& linears, int64_t num_layers, int64_t first_layer,
                         bool has_embedding, bool has_head)
    : shape_(shape),
      linears_(linears),
      recompute_(options.recompute),
      num_layers_(num_layers),
      first_layer_(first_layer),
      has_head_(has_head),
      slots_(static_cast<size_t>(options.num_slots)),
      shared_(static_cast<size_t>(recompute_.layers_at_once(num_layers))) {
  for (auto& layers : slots_) layers.resize(static_cast<size_t>(num_layers));
  if (has_embedding && shape.model.has_embedding_norm)
    embeddings_.resize(static_cast<size_t>(options.num_embedding_slots));
}

void Activations::for_each_buffer(const AddBuffer& add) {
  const int64_t R = shape_.num_rows(), C = shape_.model.hidden_size;
  const DType x = shape_.model.dtype, r = shape_.model.residual_dtype(), f = DType::kFloat32;
  const auto keep = MemoryClass::kActivations;
  for (size_t slot = 0; slot < embeddings_.size(); ++slot) {
    const std::string of_slot = name_of_slot(slot, embeddings_.size());
    EmbeddingActivations& a = embeddings_[slot];
    add(keep, of_slot + "embedding", &a.words, x, {R, C});
    add(keep, of_slot + "embedding mean", &a.mean, f, {R});
    add(keep, of_slot + "embedding rstd", &a.rstd, f, {R});
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const std::string of_slot = name_of_slot(slot, slots_.size()) + "layer ";
    for (int64_t i = 0; i < num_layers_; ++i) {
      add_layer(add, slots_[slot][static_cast<size_t>(i)],
                of_slot + std::to_string(first_layer_ + i) + " ", kept_parts(i));
    }
  }
  add_shared(add);
  add(keep, "final residual", &output_.residual, r, {R, C});
  if (has_head_) {
    add(keep, "final ln", &output_.ln, x, {R, C});
    if (!shape_.model.uses_rms_norm) add(keep, "final mean", &output_.mean, f, {R});
    add(keep, "final rstd", &output_.rstd, f, {R});
  }
  if (has_layers()) add_scratch(add);
}

void Activations::add_layer(const AddBuffer& add, LayerActivations& a, const std::string& prefix,
                            unsigned parts) const {
  const ModelShape& m = shape_.model;
  const int64_t B = m.micro_batch_size, T = m.seq_length, D = m.head_size, C = m.hidden_size;
  const int64_t N = shape_.num_tokens(), R = shape_.num_rows(), F = shape_.ffn_size();
  const int64_t H = shape_.num_heads(), G = shape_.num_groups();
  const DType x = m.dtype, r = m.residual_dtype(), f = DType::kFloat32, e = DType::kFloat8E4M3;
  const auto add_if = [&](bool exists, const char* name, Tensor* tensor, DType dtype,
                          std::initializer_list<int64_t> shape) {
    if (exists) add(MemoryClass::kActivations, prefix + name, tensor, dtype, shape);
  };
  const auto add_fp8_input = [&](LinearLayers::Name linear, const char* name, int64_t columns) {
    add_if((parts & kOthers) && linears_.keeps_input(linear), name, &a.fp8_inputs[linear], e,
           {columns, N});
  };
  const bool others = parts & kOthers, has_means = others && !m.uses_rms_norm;
  const bool keeps_activation = linears_.keeps_gelu() || shape_.has_glu();
  add_if(parts & kResidual, "residual", &a.residual, r, {R, C});
  add_if((parts & kScales) && linears_.is_fp8(), "fp8 scales", &a.fp8_scaling, f, {4, 4});
  add_if(has_means, "mean1", &a.mean1, f, {R});
  add_if(others, "rstd1", &a.rstd1, f, {R});
  add_if(others && m.has_qk_norm, "qk", &a.qk, x, {B, T, G, H / G + 1, D});
  add_if(others, "qkv", &a.qkv, x, {B, T, G, H / G + 2, D});
  add_if(others, "att", &a.att, x, {B, T, H, D});
  add_if(others, "lse", &a.lse, f, {B, H, T});
  add_if(others && m.attention_dropout > 0, "dropout bits", &a.dropout_mask, DType::kInt32,
         {B, H, attention_mask_words(T)});
  add_if(others, "residual_mid", &a.residual_mid, r, {R, C});
  add_if(has_means, "mean2", &a.mean2, f, {R});
  add_if(others, "rstd2", &a.rstd2, f, {R});
  add_fp8_input(LinearLayers::kQkv, "fp8 ln1", C);
  add_fp8_input(LinearLayers::kProj, "fp8 att", H * D);
  add_fp8_input(LinearLayers::kFc1, "fp8 ln2", C);
  add_fp8_input(LinearLayers::kFc2, "fp8 fc1", F);
  const bool norms = parts & kNormOutputs;
  add_if(norms && !linears_.keeps_input(LinearLayers::kQkv), "ln1", &a.ln1, x, {R, C});
  add_if(norms && !linears_.keeps_input(LinearLayers::kFc1), "ln2", &a.ln2, x, {R, C});
  add_if(parts & kFc1, "fc1_pre", &a.fc1_pre, x, {N, shape_.fc1_size()});
  add_if((parts & kActivation) && keeps_activation && !linears_.keeps_input(LinearLayers::kFc2),
         "fc1", &a.fc1, x, {N, F});
}

// The scales are kept of every layer: the input of a last product that is not computed again has
// its scale there.
unsigned Activations::kept_parts(int64_t i) const {
  unsigned parts = kScales;
  if (recompute_.group_begin(i) == i) parts |= kResidual;
  if (recompute_.recomputes_layer(i)) return parts;
  parts |= kOthers;
  if (!recompute_.norms) parts |= kNormOutputs;
  if (!recompute_.mlp) parts |= kFc1;
  if (!recompute_.recomputes_activation()) parts |= kActivation;
  return parts;
}

// Layers that are recomputed share these, over all slots.
void Activations::add_shared(const AddBuffer& add) {
  for (size_t i = 0; i < shared_.size(); ++i) {
    if (recompute_.method != RecomputeOptions::Method::kNone) {
      const unsigned parts = kAll & ~kScales & (i > 0 ? kAll : ~kResidual);
      add_layer(add, shared_[i], "layer " + std::to_string(i) + " recomputed ", parts);
      continue;
    }
    // The output of one norm is no longer needed where that of the other one is.
    if (recompute_.norms)
      add(MemoryClass::kActivations, "recomputed ln", &shared_[i].ln1, shape_.model.dtype,
          {shape_.num_rows(), shape_.model.hidden_size});
    add_layer(
        add, shared_[i], "recomputed ",
        (recompute_.mlp ? kFc1 : 0U) | (recompute_.recomputes_activation() ? kActivation : 0U));
  }
}

void Activations::add_scratch(const AddBuffer& add) {
  const int64_t N = shape_.num_tokens(), F = shape_.ffn_size();
  const int64_t norm = linears_.keeps_input(LinearLayers::kQkv) ? shape_.model.hidden_size : 0;
  const auto scratch = MemoryClass::kScratch;
  add(scratch, "dwide", &wide_, shape_.model.dtype,
      {N, std::max({shape_.fc1_size(), shape_.qkv_size(), norm})});
  if (shape_.has_glu()) add(scratch, "dglu", &glu_, shape_.model.dtype, {N, F});
}

LayerActivations Activations::layer(int64_t slot, int64_t i) const {
  LayerActivations a = slots_[static_cast<size_t>(slot)][static_cast<size_t>(i)];
  if (recompute_.recomputes_layer(i)) {
    const Tensor own_residual = a.residual, own_scaling = a.fp8_scaling;
    a = shared_[static_cast<size_t>(i - recompute_.group_begin(i))];
    if (own_residual) a.residual = own_residual;
    a.fp8_scaling = own_scaling;
  } else if (!shared_.empty()) {
    const LayerActivations& parts = shared_.front();
    if (recompute_.norms) a.ln1 = a.ln2 = parts.ln1;
    if (recompute_.mlp) a.fc1_pre = parts.fc1_pre;
    if (recompute_.recomputes_activation()) a.fc1 = parts.fc1;
  }
  // Outputs that are kept in fp8 alone lie in memory of gradients that backward of a layer writes
  // later.
  const Tensor norm = view(wide_, {shape_.num_rows(), shape_.model.hidden_size});
  if (linears_.keeps_input(LinearLayers::kQkv)) a.ln1 = norm;
  if (linears_.keeps_input(LinearLayers::kFc1)) a.ln2 = norm;
  if (linears_.keeps_input(LinearLayers::kFc2)) a.fc1 = glu_;  // empty without a GLU
  a.dqkv = a.qkv.with_data(wide_.data());
  a.dfc1_pre = a.fc1_pre.with_data(wide_.data());
  a.dglu = glu_;
  return a;
}

}  // namespace weft
