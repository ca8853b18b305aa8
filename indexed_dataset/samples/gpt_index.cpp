#include "indexed_dataset/samples/gpt_index.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "indexed_dataset/process/thread_group.h"
#include "indexed_dataset/samples/numpy_random.h"

namespace weft {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

void check_options(const GptIndexOptions& options) {
  if (options.sequence_length < 1 || options.sequence_length >= kMaxInt32) {
    throw std::invalid_argument("sequence length " + std::to_string(options.sequence_length) +
                                " is not in [1, 2^31-2]");
  }
  if (options.seed < 0 || options.seed > std::numeric_limits<uint32_t>::max()) {
    throw std::invalid_argument("seed " + std::to_string(options.seed) +
                                " is not in [0, 2^32-1], the range of NumPy's RandomState");
  }
  if (options.num_samples &&
      (*options.num_samples < 1 ||
       *options.num_samples > (int64_t{1} << 62) / options.sequence_length)) {
    throw std::invalid_argument(std::to_string(*options.num_samples) +
                                " samples: the number of tokens is not in [1, 2^62]");
  }
}

int64_t extra_tokens(const GptIndexOptions& options) { return options.add_extra_token ? 1 : 0; }

// Samples that the whole stream gives.
int64_t num_samples_of(int64_t num_tokens, const GptIndexOptions& options) {
  const int64_t usable = num_tokens - extra_tokens(options);
  if (options.drop_last_partial_sequence) return usable / options.sequence_length;
  // In 32-bit floats because Megatron's C++ extension does so; beyond 2^24 tokens the count can be
  // off by some.
  return static_cast<int64_t>(
      std::ceil(static_cast<float>(usable) / static_cast<float>(options.sequence_length)));
}

std::vector<int32_t> build_document_index(const EpochPlan& plan, const SequenceRange& range,
                                          bool shuffles, RandomState& random) {
  const auto num_sequences = static_cast<size_t>(range.end - range.begin);
  std::vector<int32_t> index(static_cast<size_t>(plan.num_epochs) * num_sequences);
  for (size_t epoch_at = 0; epoch_at < index.size(); epoch_at += num_sequences) {
    const auto epoch = std::span(index).subspan(epoch_at, num_sequences);
    std::iota(epoch.begin(), epoch.end(), static_cast<int32_t>(range.begin));
  }
  if (!shuffles) return index;
  const size_t num_apart = plan.separate_last_epoch ? num_sequences : 0;
  random.shuffle(std::span(index).first(index.size() - num_apart));
  random.shuffle(std::span(index).last(num_apart));
  return index;
}

template <typename T>
std::vector<T> build_shuffle_index(const EpochPlan& plan, bool shuffles, RandomState& random) {
  std::vector<T> index(static_cast<size_t>(plan.num_samples));
  std::iota(index.begin(), index.end(), T{0});
  if (!shuffles) return index;
  const auto num_first = static_cast<size_t>(
      plan.separate_last_epoch ? plan.num_samples_before_last_epoch : plan.num_samples);
  random.shuffle(std::span(index).first(num_first));
  random.shuffle(std::span(index).subspan(num_first));
  return index;
}

}  // namespace

int64_t sum_tokens(const SequenceLengths& lengths, const SequenceRange& range) {
  int64_t sum = 0;
  for (int64_t i = range.begin; i < range.end; ++i) {
    if (lengths[i] < 0) {
      throw std::runtime_error("length of sequence " + std::to_string(i) + " is negative (" +
                               std::to_string(lengths[i]) + "): the .idx is damaged");
    }
    sum += lengths[i];
  }
  return sum;
}

EpochPlan plan_epochs(int64_t num_tokens_per_epoch, const GptIndexOptions& options) {
  check_options(options);
  if (num_tokens_per_epoch < 1) {
    throw std::runtime_error("no sample can be made: sequences [" +
                             std::to_string(options.range.begin) + ", " +
                             std::to_string(options.range.end) + ") hold no tokens");
  }
  const int64_t length = options.sequence_length;
  const int64_t extra = extra_tokens(options);
  EpochPlan plan;
  plan.num_tokens_per_epoch = num_tokens_per_epoch;
  if (options.num_samples) {
    const int64_t num_tokens = *options.num_samples * length + extra;
    plan.num_epochs = (num_tokens - 1) / num_tokens_per_epoch + 1;
  }
  plan.num_samples = num_samples_of(plan.num_epochs * num_tokens_per_epoch, options);
  if (plan.num_epochs == 1) return plan;

  const int64_t before_last = ((plan.num_epochs - 1) * num_tokens_per_epoch - extra) / length;
  const int64_t from_last = *options.num_samples - before_last;
  const int64_t per_epoch = (num_tokens_per_epoch - extra) / length;
  plan.separate_last_epoch =
      from_last < static_cast<int64_t>(rules_of(options.order).separation_threshold *
                                       static_cast<double>(per_epoch));
  if (plan.separate_last_epoch) plan.num_samples_before_last_epoch = before_last;
  return plan;
}

template <typename T>
std::vector<T> build_sample_index(const SequenceLengths& lengths,
                                  const std::vector<int32_t>& document_index, const EpochPlan& plan,
                                  const GptIndexOptions& options) {
  const int64_t extra = extra_tokens(options);
  const auto last_position = static_cast<int64_t>(document_index.size()) - 1;
  // A sequence's length is anywhere in the file; asking for it this many steps early hides the wait
  // for memory.
  constexpr int64_t kPrefetchDistance = 32;
  std::vector<T> index;
  index.reserve(static_cast<size_t>(2 * (plan.num_samples + 1)));
  index.insert(index.end(), {T{0}, T{0}});
  int64_t position = 0, offset = 0;
  for (int64_t sample = 0; sample < plan.num_samples; ++sample) {
    int64_t needed = options.sequence_length + extra;
    for (;;) {
      const int64_t length = lengths[document_index[static_cast<size_t>(position)]];
      const int64_t available = length - offset;
      if (available >= needed) {
        // The next sample starts with this one's last token, which was only a label here.
        offset += needed - extra;
        break;
      }
      if (position == last_position) {  // an incomplete last sample ends here
        offset = length - extra;
        break;
      }
      needed -= available;
      ++position;
      offset = 0;
      if (position + kPrefetchDistance <= last_position) {
        __builtin_prefetch(
            lengths.address(document_index[static_cast<size_t>(position + kPrefetchDistance)]));
      }
    }
    index.insert(index.end(), {static_cast<T>(position), static_cast<T>(offset)});
  }
  return index;
}

template std::vector<int32_t> build_sample_index(const SequenceLengths&,
                                                 const std::vector<int32_t>&, const EpochPlan&,
                                                 const GptIndexOptions&);
template std::vector<int64_t> build_sample_index(const SequenceLengths&,
                                                 const std::vector<int32_t>&, const EpochPlan&,
                                                 const GptIndexOptions&);

GptIndex build_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options) {
  check_options(options);
  const SequenceRange& range = options.range;
  if (range.begin < 0 || range.begin > range.end || range.end > lengths.size()) {
    throw std::invalid_argument("sequences [" + std::to_string(range.begin) + ", " +
                                std::to_string(range.end) + ") of " +
                                std::to_string(lengths.size()));
  }
  if (range.end > kMaxInt32) {
    throw std::runtime_error(std::to_string(range.end) +
                             " sequences; Megatron's document index ends at 2^31-1");
  }
  const bool shuffles = rules_of(options.order).shuffles;
  GptIndex result;
  result.plan = plan_epochs(sum_tokens(lengths, range), options);
  RandomState random(static_cast<uint32_t>(options.seed));
  result.document_index = build_document_index(result.plan, range, shuffles, random);
  // The random stream goes on with the samples, and where they start does not depend on it.
  ThreadGroup shuffling;
  shuffling.start([&] {
    if (has_wide_shuffle(result.plan)) {
      result.shuffle_index = build_shuffle_index<int64_t>(result.plan, shuffles, random);
    } else {
      result.shuffle_index = build_shuffle_index<uint32_t>(result.plan, shuffles, random);
    }
  });
  if (has_wide_rows(result.plan, std::ssize(result.document_index), options.order)) {
    result.sample_index =
        build_sample_index<int64_t>(lengths, result.document_index, result.plan, options);
  } else {
    result.sample_index =
        build_sample_index<int32_t>(lengths, result.document_index, result.plan, options);
  }
  shuffling.join();
  shuffling.check();
  return result;
}

bool has_wide_rows(const EpochPlan& plan, int64_t num_positions, OrderKind order) {
  if (num_positions > kMaxInt32) return true;
  // Megatron-Core's rule also asks for the longest sequence, which always fits: its length is stored
  // in 32 bits.
  return rules_of(order).widens_by_count && 2 * (plan.num_samples + 1) >= kMaxInt32;
}

bool has_wide_shuffle(const EpochPlan& plan) {
  return plan.num_samples >= std::numeric_limits<uint32_t>::max() - int64_t{1};
}

GptIndexView GptIndex::view() const {
  GptIndexView view{
      .plan = plan, .document_index = document_index, .sample_index = {}, .shuffle_index = {}};
  std::visit([&](const auto& rows) { view.sample_index = std::span(rows); }, sample_index);
  std::visit([&](const auto& order) { view.shuffle_index = std::span(order); }, shuffle_index);
  return view;
}

GptIndexView::Row GptIndexView::row(int64_t idx) const {
  const auto at = static_cast<size_t>(2 * idx);
  return std::visit([at](const auto& rows) { return Row{rows[at], rows[at + 1]}; }, sample_index);
}

int64_t GptIndexView::shuffled(int64_t idx) const {
  const auto at = static_cast<size_t>(idx);
  return std::visit([at](const auto& order) { return static_cast<int64_t>(order[at]); },
                    shuffle_index);
}

}  // namespace weft
