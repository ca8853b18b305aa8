// The samples of one split of one dataset, and the sizes that a training run asks for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/order/samples/gpt_index.h"
#include "indexed_dataset/order/samples/split.h"

namespace weft {

// Says where a piece of a sample's tokens comes from.
struct SamplePart {
  int64_t sequence_idx = 0;
  int64_t document_idx = 0;  // counts empty documents (DatasetReader::document_of_sequence)
  int64_t begin_token = 0;   // in the sequence
  int64_t num_tokens = 0;
  bool operator==(const SamplePart&) const = default;
};

// An index and the memory or the mapped files that it lies in.
struct HeldIndex {
  GptIndexView view;
  std::shared_ptr<const void> memory;
};
HeldIndex hold(GptIndex index);

// Thread-safe after construction.
class GptDataset {
 public:
  // The sequences `range` of the reader's dataset; at least `num_samples` samples, or those of one
  // epoch. Builds its index in memory, equal in every process. Throws as build_gpt_index does.
  GptDataset(std::shared_ptr<const DatasetReader> reader, SequenceRange range,
             std::optional<int64_t> num_samples, int64_t sequence_length, int64_t seed,
             OrderKind order = OrderKind::kCore);
  // With an index that was built before, for samples of this length with an extra token.
  GptDataset(std::shared_ptr<const DatasetReader> reader, int64_t sequence_length, HeldIndex index);

  int64_t num_samples() const { return index_.view.plan.num_samples; }
  int64_t sequence_length() const { return sequence_length_; }
  // Writes the sequence_length() + 1 tokens of sample i: inputs are the first, labels the last
  // sequence_length(). Throws std::out_of_range for a sample that is not there, std::runtime_error
  // for damaged files.
  void sample(int64_t i, int32_t* tokens) const;
  // Writes tokens [begin, begin + length) of sample i as inputs and [begin + 1, begin + length + 1)
  // as labels; no other token of the sample is read.
  void row(int64_t i, int64_t begin, int64_t length, int32_t* inputs, int32_t* labels) const;
  // Asks the kernel to read tokens [begin, begin + count) of sample i from the disk; does not wait
  // for them, but for what of the indexes is not in memory yet.
  void will_need(int64_t i, int64_t begin, int64_t count) const;
  static constexpr int kNumStepsToToken = 3;
  // Brings what leads to the first token of sample i into the processor's caches: its row of the
  // sample index (step 0), then the entry of the document index (1), then that of the .idx (2).
  // Call each step for many samples before the next step, so that their cache misses overlap. It
  // ignores damaged indexes.
  void prefetch_step(int64_t i, int step) const;
  // Brings tokens [begin, begin + count) of sample i there, where they are in memory.
  void prefetch(int64_t i, int64_t begin, int64_t count) const;
  // The pieces of sample i in order; their tokens add up to sequence_length() + 1.
  std::vector<SamplePart> sample_parts(int64_t i) const;
  // The pieces of its tokens [first, last).
  std::vector<SamplePart> sample_parts(int64_t i, int64_t first, int64_t last) const;

  const GptIndexView& index() const { return index_.view; }
  const DatasetReader& reader() const { return *reader_; }

 private:
  // Ends what an index from a file that does not fit the dataset has begun.
  [[noreturn]] void throw_damaged() const;
  // Calls use(sequence_idx, begin_token, num_tokens) for each piece of tokens [first, last) of
  // sample i.
  template <typename Use>
  void for_each_part(int64_t i, int64_t first, int64_t last, Use use) const;

  std::shared_ptr<const DatasetReader> reader_;
  int64_t sequence_length_ = 0;
  HeldIndex index_;
};

// The numbers of samples that a run wants from each split.
struct DatasetTargetSizes {
  int64_t train_samples = 0;
  int64_t valid_samples = 0;
  int64_t test_samples = 0;
  int64_t train_iters = 0;
  int64_t eval_iters = 0;
};

// Megatron's rule (training.py, get_train_valid_test_num_samples). With train_samples, train_iters
// is derived; else it is given. Throws UsageError for numbers that are negative, zero
// where one divides, or too large.
DatasetTargetSizes dataset_target_sizes(std::optional<int64_t> train_samples, int64_t train_iters,
                                        int64_t global_batch_size, int64_t eval_interval,
                                        int64_t eval_iters);

}  // namespace weft
