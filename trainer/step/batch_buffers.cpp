#include "trainer/step/batch_buffers.h"

#include <stdexcept>

namespace weft {

BatchBuffers::BatchBuffers(Backend& backend, const ModelShape& shape, const Model& model,
                           int64_t num_embedding_slots, bool has_loss_mask, MemoryPlan& plan)
    : backend_(backend),
      micro_batch_size_(shape.micro_batch_size),
      longest_(shape.seq_length),
      has_head_(model.has_head()),
      tokens_(static_cast<size_t>(num_embedding_slots)),
      document_bounds_(static_cast<size_t>(shape.needs_document_bounds() ? model.num_slots() : 0)) {
  const int64_t B = micro_batch_size_, T = longest_;
  const auto add = [&](const char* name, Tensor* tensor, DType dtype,
                       std::initializer_list<int64_t> sizes) {
    plan.add(MemoryClass::kBatch, name, tensor, dtype, sizes);
  };
  for (Tensor& tokens : tokens_) add("tokens", &tokens, DType::kInt32, {B, T});
  if (has_head_) add("targets", &targets_, DType::kInt32, {B, T});
  if (has_head_ && has_loss_mask) add("loss mask", &loss_mask_, DType::kFloat32, {B, T});
  for (Tensor& bounds : document_bounds_) add("document bounds", &bounds, DType::kInt32, {B, T, 2});
}

void BatchBuffers::begin(const GlobalBatch& batch) {
  if (!document_bounds_.empty() && batch.document_bounds == nullptr)
    throw std::logic_error("trainer: a batch does not tell the documents that the model needs");
  if (has_head_ && batch.loss_mask != nullptr && loss_mask_.empty())
    throw std::logic_error("trainer: a batch has a loss mask, and none was planned");
  const int64_t B = micro_batch_size_;
  const int64_t T = batch.seq_length > 0 ? batch.seq_length : longest_;
  const auto shorten = [&](Tensor& tensor) {
    if (tensor) tensor = Tensor(tensor.data(), tensor.dtype(), {B, T});
  };
  for (Tensor& tokens : tokens_) shorten(tokens);
  shorten(targets_);
  shorten(loss_mask_);
  for (Tensor& bounds : document_bounds_) bounds = Tensor(bounds.data(), DType::kInt32, {B, T, 2});
}

// Stages between the first and the last need no tokens, at most the bounds of documents.
void BatchBuffers::copy_to_device(const GlobalBatch& batch, const PipelineItem& item,
                                  const Chunk& chunk) {
  const auto copy = [&](Tensor to, const auto* from) {
    backend_.copy(to.data(), from + item.micro_batch * to.num_elements(), to.num_bytes(),
                  Stream::kCompute);
  };
  if (chunk.has_embedding) copy(tokens_[static_cast<size_t>(item.embedding_slot)], batch.tokens);
  if (!document_bounds_.empty())
    copy(document_bounds_[static_cast<size_t>(item.slot)], batch.document_bounds);
  if (!chunk.has_head) return;
  copy(targets_, batch.targets);
  if (batch.loss_mask) copy(loss_mask_, batch.loss_mask);
}

MicroBatch BatchBuffers::micro_batch(const GlobalBatch& batch, const PipelineItem& item,
                                     const Chunk& chunk) const {
  MicroBatch micro_batch;
  micro_batch.chunk = item.chunk;
  micro_batch.slot = item.slot;
  micro_batch.gradient_slot = item.gradient_slot;
  micro_batch.embedding_slot = item.embedding_slot;
  if (chunk.has_embedding) micro_batch.tokens = tokens_[static_cast<size_t>(item.embedding_slot)];
  micro_batch.targets = targets_;
  if (batch.loss_mask) micro_batch.loss_mask = loss_mask_;
  if (!document_bounds_.empty())
    micro_batch.document_bounds = document_bounds_[static_cast<size_t>(item.slot)];
  return micro_batch;
}

}  // namespace weft
