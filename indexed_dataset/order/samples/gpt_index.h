// The index of a split tells which tokens make its sample number i, as Megatron-Core orders them
// (core/datasets/gpt_dataset.py and its C++ extension; the idea with numbers stands in README.md).
//
//   document_index  sequence ids of all epochs, shuffled: their tokens in this order are one stream
//   sample_index    where each sample starts in that stream: (position in document_index, offset)
//   shuffle_index   in which order the samples are used
//
// Memory: 4 bytes per sequence and epoch, 12 bytes per sample (more only beyond 2^31 sequences x
// epochs); while it is built, 4 bytes more per sequence and epoch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/order/samples/order_kind.h"
#include "indexed_dataset/order/samples/split.h"

namespace weft {

struct GptIndexOptions {
  SequenceRange range = {};  // the split's sequences
  // At least so many; none: as many as one epoch gives.
  std::optional<int64_t> num_samples = std::nullopt;
  int64_t sequence_length = 0;  // L
  int64_t seed = 1234;          // 0 .. 2^32-1
  // No option sets these two: they are those of Megatron-Core's GPTDatasetConfig, whose defaults
  // its GPT training always has. Samples have L+1 tokens and overlap by one, so that L inputs have
  // L labels. Without it, L.
  bool add_extra_token = true;
  // Megatron can keep the last incomplete sequence of the validation split.
  bool drop_last_partial_sequence = true;
  OrderKind order = OrderKind::kCore;
};

// The number of times that a run reads the split.
struct EpochPlan {
  int64_t num_tokens_per_epoch = 0;
  int64_t num_epochs = 1;
  int64_t num_samples = 0;  // that all epochs give, usually more than was asked for
  bool separate_last_epoch = false;
  int64_t num_samples_before_last_epoch = 0;  // set when the last epoch is separate
};

// Throws UsageError for options out of bounds; std::runtime_error when there are no
// tokens.
EpochPlan plan_epochs(int64_t num_tokens_per_epoch, const GptIndexOptions& options);

// The three arrays, wherever they lie.
struct GptIndexView {
  EpochPlan plan;
  std::span<const int32_t> document_index;
  // (num_samples + 1, 2), flat; 64 bits when a position does not fit 32.
  std::variant<std::span<const int32_t>, std::span<const int64_t>> sample_index;
  // 64 bits when there are 2^32-2 samples or more.
  std::variant<std::span<const uint32_t>, std::span<const int64_t>> shuffle_index;

  struct Row {
    int64_t position;  // in document_index
    int64_t offset_tokens;
  };
  Row row(int64_t idx) const;  // of sample_index, in [0, num_samples]
  void prefetch_row(int64_t idx) const;
  int64_t shuffled(int64_t idx) const;  // row of the idx-th sample in the order of use
};

// The arrays in memory.
struct GptIndex {
  EpochPlan plan;
  std::vector<int32_t> document_index;
  std::variant<std::vector<int32_t>, std::vector<int64_t>> sample_index;
  std::variant<std::vector<uint32_t>, std::vector<int64_t>> shuffle_index;

  GptIndexView view() const;  // valid while this lives and is not moved
  GptIndexView::Row row(int64_t idx) const { return view().row(idx); }
  int64_t shuffled(int64_t idx) const { return view().shuffled(idx); }
};

// Returns whether the rows of the sample index have 64 bits.
bool has_wide_rows(const EpochPlan& plan, int64_t num_positions, OrderKind order);
// Returns whether the entries of the shuffle index have 64 bits.
bool has_wide_shuffle(const EpochPlan& plan);

// Deterministic: equal arguments give equal arrays everywhere. Throws as plan_epochs does, and
// std::runtime_error for a range beyond 2^31-1 sequences. A second thread shuffles the samples
// while the first one shuffles the documents and cuts them.
GptIndex build_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options);

// The tokens of one epoch. Throws std::runtime_error for a negative length.
int64_t sum_tokens(const SequenceLengths& lengths, const SequenceRange& range);

}  // namespace weft
