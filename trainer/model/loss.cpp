#include "trainer/model/loss.h"

#include <algorithm>

namespace weft {

void Loss::for_each_buffer(const AddBuffer& add) {
  const int64_t count = chunk_at(0).count, tp_size = shape_.layout.tp_size;
  const auto logits = MemoryClass::kLogits;
  add(logits, "logits", &logits_, shape_.model.dtype, {count, shape_.vocab_rows()});
  add(logits, "losses", &losses_, DType::kFloat32, {shape_.num_tokens()});
  if (tp_size > 1)
    add(logits, "loss statistics", &statistics_, DType::kFloat32, {tp_size, count, 3});
}

Loss::Tokens Loss::chunk_at(int64_t first) const {
  const int64_t left = shape_.num_tokens() - first;
  return {first, logits_chunk_ > 0 ? std::min(left, logits_chunk_) : left};
}

Loss::Tokens Loss::last_chunk() const {
  return chunk_at(logits_chunk_ > 0 ? (shape_.num_tokens() - 1) / logits_chunk_ * logits_chunk_
                                    : 0);
}

void Loss::forward_logits(const Head& head) {
  stream_.gather_rows(head.inp);
  multiply(head, chunk_at(0));
}

void Loss::multiply(const Head& head, Tokens tokens) {
  const Tensor inp = rows_of(stream_.rows_gathered_last(head.inp), tokens.first, tokens.count);
  backend_.run(LinearForward{.out = logits_of(tokens), .inp = inp, .weight = head.weight});
}

void Loss::forward(Tensor loss, const Head& head, const MicroBatch& batch,
                   const LossOptions& options) {
  const int64_t last = last_chunk().first;
  for (Tokens tokens = chunk_at(0); tokens.count > 0;
       tokens = chunk_at(tokens.first + tokens.count)) {
    if (tokens.first > 0) multiply(head, tokens);
    if (options.most_likely) {
      backend_.run(SampleTokens{.tokens = range_of(options.most_likely, tokens.first, tokens.count),
                                .logits = logits_of(tokens),
                                .vocabulary_size = shape_.model.num_words()});
    }
    cross_entropy(tokens, batch, options);
    if (!options.has_gradient || tokens.first == last) continue;
    backward_input(head, tokens);
    backward_weight(head, tokens, options.accumulate || tokens.first > 0);
  }
  backend_.run(
      Sum{.out = loss, .inp = losses_, .scale = options.scale, .accumulate = options.accumulate});
}

void Loss::cross_entropy(Tokens tokens, const MicroBatch& batch, const LossOptions& options) {
  const auto [first, n] = tokens;
  const int64_t tp_size = shape_.layout.tp_size;
  const Tensor losses = range_of(losses_, first, n), targets = range_of(batch.targets, first, n);
  const Tensor mask = batch.loss_mask ? range_of(batch.loss_mask, first, n) : Tensor();
  const Tensor logits = logits_of(tokens);
  if (tp_size == 1) {
    backend_.run(CrossEntropy{.losses = losses,
                              .logits = logits,
                              .targets = targets,
                              .loss_mask = mask,
                              .vocabulary_size = shape_.model.num_words(),
                              .gradient_scale = options.gradient_scale,
                              .writes_gradient = options.has_gradient});
    return;
  }
  const Tensor all = view(statistics_, {tp_size, n, 3});
  const Tensor own = view(range_of(all, shape_.layout.tp_rank * n * 3, n * 3), {n, 3});
  backend_.run(CrossEntropyStatistics{.statistics = own,
                                      .logits = logits,
                                      .targets = targets,
                                      .first_word = shape_.first_word(),
                                      .vocabulary_size = shape_.model.num_words()});
  tensor_parallel_.all_gather(all, own, Stream::kCompute);
  backend_.run(CrossEntropyGradient{.losses = losses,
                                    .logits = logits,
                                    .statistics = all,
                                    .targets = targets,
                                    .loss_mask = mask,
                                    .first_word = shape_.first_word(),
                                    .vocabulary_size = shape_.model.num_words(),
                                    .gradient_scale = options.gradient_scale,
                                    .writes_gradient = options.has_gradient});
}

void Loss::sample_losses(Tensor out, const MicroBatch& batch) {
  const ModelShape& m = shape_.model;
  backend_.run(SampleLosses{.out = out,
                            .losses = view(losses_, {m.micro_batch_size, m.seq_length}),
                            .loss_mask = batch.loss_mask});
}

void Loss::backward(const Head& head, bool accumulate) {
  const Tokens last = last_chunk();
  backward_input(head, last);
  stream_.start_summing_partials(stream_.dnormed());
  backward_weight(head, last, accumulate || last.first > 0);
  stream_.wait_for_sums();
}

void Loss::backward_input(const Head& head, Tokens tokens) {
  const Tensor dinp = rows_of(stream_.partials_of(stream_.dnormed()), tokens.first, tokens.count);
  backend_.run(LinearBackwardInput{.dinp = dinp, .dout = logits_of(tokens), .weight = head.weight});
}

void Loss::backward_weight(const Head& head, Tokens tokens, bool accumulate) {
  const Tensor inp = rows_of(stream_.rows_gathered_last(head.inp), tokens.first, tokens.count);
  backend_.run(LinearBackwardWeight{
      .dweight = head.dweight, .dout = logits_of(tokens), .inp = inp, .accumulate = accumulate});
}

}  // namespace weft
