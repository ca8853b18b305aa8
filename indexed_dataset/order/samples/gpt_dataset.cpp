#include "indexed_dataset/order/samples/gpt_dataset.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

int64_t multiplied(int64_t a, int64_t b, const char* what) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw UsageError(std::string(what) + ": " + std::to_string(a) + " x " + std::to_string(b) +
                     " does not fit 64 bits");
  }
  return product;
}

void check_not_negative(int64_t value, const char* option) {
  if (value < 0) {
    throw UsageError(std::string(option) + " must not be negative, it is " + std::to_string(value));
  }
}

}  // namespace

HeldIndex hold(GptIndex index) {
  const auto memory = std::make_shared<const GptIndex>(std::move(index));
  return {.view = memory->view(), .memory = memory};
}

GptDataset::GptDataset(std::shared_ptr<const DatasetReader> reader, int64_t sequence_length,
                       HeldIndex index)
    : reader_(std::move(reader)), sequence_length_(sequence_length), index_(std::move(index)) {}

GptDataset::GptDataset(std::shared_ptr<const DatasetReader> reader, SequenceRange range,
                       std::optional<int64_t> num_samples, int64_t sequence_length, int64_t seed,
                       OrderKind order)
    : GptDataset(reader, sequence_length,
                 hold(build_gpt_index(reader->lengths(), {.range = range,
                                                          .num_samples = num_samples,
                                                          .sequence_length = sequence_length,
                                                          .seed = seed,
                                                          .order = order}))) {}

void GptDataset::throw_damaged() const {
  throw std::runtime_error(reader_->prefix().string() +
                           ": its sample index does not fit its documents: the index cache is "
                           "damaged, or of other data; move it away");
}

template <typename Use>
void GptDataset::for_each_part(int64_t i, int64_t first, int64_t last, Use use) const {
  if (i < 0 || i >= num_samples()) {
    throw std::out_of_range("no sample " + std::to_string(i) + " (there are " +
                            std::to_string(num_samples()) + ")");
  }
  const GptIndexView& index = index_.view;
  const int64_t row_idx = index.shuffled(i);
  if (row_idx < 0 || row_idx >= index.plan.num_samples) throw_damaged();
  const GptIndexView::Row begin = index.row(row_idx);
  const GptIndexView::Row end = index.row(row_idx + 1);  // its offset is that of the last token
  if (begin.position < 0 || end.position >= std::ssize(index.document_index)) throw_damaged();
  int64_t begun = 0;  // tokens of the sample before this piece
  for (int64_t position = begin.position; position <= end.position && begun < last; ++position) {
    const int64_t sequence_idx = index.document_index[static_cast<size_t>(position)];
    if (sequence_idx < 0 || sequence_idx >= reader_->num_sequences()) throw_damaged();
    const int64_t from = position == begin.position ? begin.offset_tokens : 0;
    const int64_t to =
        position == end.position ? end.offset_tokens + 1 : reader_->length(sequence_idx);
    if (from < 0 || from > to || to > reader_->length(sequence_idx)) throw_damaged();
    const int64_t wanted_from = from + std::max<int64_t>(0, first - begun);
    const int64_t wanted_to = std::min(to, from + last - begun);
    if (wanted_from < wanted_to) use(sequence_idx, wanted_from, wanted_to - wanted_from);
    begun += to - from;
  }
  if (begun < last) throw_damaged();
}

void GptDataset::sample(int64_t i, int32_t* tokens) const {
  for_each_part(i, 0, sequence_length_ + 1,
                [&](int64_t sequence_idx, int64_t begin, int64_t count) {
                  reader_->copy_tokens(sequence_idx, begin, count, tokens);
                  tokens += count;
                });
}

void GptDataset::row(int64_t i, int64_t begin, int64_t length, int32_t* inputs,
                     int32_t* labels) const {
  int64_t position = 0;  // of the part's first token in the row
  for_each_part(i, begin, begin + length + 1,
                [&](int64_t sequence_idx, int64_t from, int64_t count) {
                  const int64_t num_inputs = std::min(count, length - position);
                  reader_->copy_tokens(sequence_idx, from, num_inputs, inputs + position);
                  if (num_inputs < count)  // the row's last token is only a label
                    reader_->copy_tokens(sequence_idx, from + num_inputs, 1, labels + length - 1);
                  position += count;
                });
  std::copy(inputs + 1, inputs + length, labels);
}

void GptDataset::will_need(int64_t i, int64_t begin, int64_t count) const {
  for_each_part(i, begin, begin + count,
                [&](int64_t sequence_idx, int64_t from, int64_t num_tokens) {
                  reader_->will_need(sequence_idx, from, num_tokens);
                });
}

void GptDataset::prefetch_step(int64_t i, int step) const {
  const GptIndexView& index = index_.view;
  if (i < 0 || i >= num_samples()) return;
  const int64_t row_idx = index.shuffled(i);
  if (row_idx < 0 || row_idx >= index.plan.num_samples) return;
  if (step == 0) return index.prefetch_row(row_idx);
  const int64_t position = index.row(row_idx).position;
  if (position < 0 || position >= std::ssize(index.document_index)) return;
  const int32_t& sequence_idx = index.document_index[static_cast<size_t>(position)];
  if (step == 1) {
    __builtin_prefetch(&sequence_idx);
  } else if (sequence_idx >= 0 && sequence_idx < reader_->num_sequences()) {
    reader_->prefetch_entry(sequence_idx);
  }
}

void GptDataset::prefetch(int64_t i, int64_t begin, int64_t count) const {
  for_each_part(i, begin, begin + count,
                [&](int64_t sequence_idx, int64_t from, int64_t num_tokens) {
                  reader_->prefetch(sequence_idx, from, num_tokens);
                });
}

std::vector<SamplePart> GptDataset::sample_parts(int64_t i) const {
  return sample_parts(i, 0, sequence_length_ + 1);
}

std::vector<SamplePart> GptDataset::sample_parts(int64_t i, int64_t first, int64_t last) const {
  std::vector<SamplePart> parts;
  for_each_part(i, first, last, [&](int64_t sequence_idx, int64_t begin, int64_t count) {
    parts.push_back({.sequence_idx = sequence_idx,
                     .document_idx = reader_->document_of_sequence(sequence_idx),
                     .begin_token = begin,
                     .num_tokens = count});
  });
  return parts;
}

DatasetTargetSizes dataset_target_sizes(std::optional<int64_t> train_samples, int64_t train_iters,
                                        int64_t global_batch_size, int64_t eval_interval,
                                        int64_t eval_iters) {
  check_not_negative(train_samples.value_or(0), "--train-samples");
  check_not_negative(train_iters, "--train-iters");
  check_not_negative(eval_iters, "--eval-iters");
  if (global_batch_size < 1) throw UsageError("--global-batch-size must be positive");
  if (eval_iters > 0 && eval_interval < 1) {
    throw UsageError("--eval-interval must be positive when --eval-iters is");
  }
  DatasetTargetSizes sizes;
  sizes.eval_iters = eval_iters;
  sizes.train_iters = train_samples ? *train_samples / global_batch_size : train_iters;
  sizes.train_samples = train_samples
                            ? *train_samples
                            : multiplied(train_iters, global_batch_size, "training samples");
  if (eval_iters == 0) return sizes;
  sizes.test_samples = multiplied(eval_iters, global_batch_size, "test samples");
  sizes.valid_samples =
      multiplied(sizes.train_iters / eval_interval + 1, sizes.test_samples, "validation samples");
  return sizes;
}

}  // namespace weft
