#include "indexed_dataset/order/samples/gpt_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/out_of_memory.h"
#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/process/thread_group.h"
#include "indexed_dataset/order/samples/huge_pages.h"
#include "indexed_dataset/order/samples/numpy_random.h"
#include "indexed_dataset/order/samples/sample_cutter.h"

namespace weft {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
// One of the two threads shuffles and cuts the documents, the other one shuffles the samples.
constexpr int kNumThreads = 2;

void check_options(const GptIndexOptions& options) {
  if (options.sequence_length < 1 || options.sequence_length >= kMaxInt32) {
    throw UsageError("sequence length " + std::to_string(options.sequence_length) +
                     " is not in [1, 2^31-2]");
  }
  if (options.seed < 0 || options.seed > std::numeric_limits<uint32_t>::max()) {
    throw UsageError("seed " + std::to_string(options.seed) +
                     " is not in [0, 2^32-1], the range of NumPy's RandomState");
  }
  if (options.num_samples &&
      (*options.num_samples < 1 ||
       *options.num_samples > (int64_t{1} << 62) / options.sequence_length)) {
    throw UsageError(std::to_string(*options.num_samples) +
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

// Sequences of all epochs that are shuffled among each other, and those of a last epoch that is
// shuffled apart.
struct DocumentParts {
  size_t together, apart;
  size_t size() const { return together + apart; }
};
DocumentParts document_parts(const EpochPlan& plan, const SequenceRange& range) {
  const auto per_epoch = static_cast<size_t>(range.end - range.begin);
  size_t all = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(plan.num_epochs), per_epoch, &all)) {
    throw std::runtime_error(std::to_string(plan.num_epochs) + " epochs of " +
                             std::to_string(per_epoch) +
                             " sequences fit no memory: ask for fewer samples");
  }
  const size_t num_apart = plan.separate_last_epoch ? per_epoch : 0;
  return {all - num_apart, num_apart};
}

// Throws LimitExceeded if the three arrays, and the stream that they are cut from, fit no memory.
void require_memory_for(const EpochPlan& plan, size_t stream_size, const GptIndexOptions& options) {
  const auto num_positions = static_cast<double>(stream_size);
  const double row_bytes =
      has_wide_rows(plan, static_cast<int64_t>(stream_size), options.order) ? 16 : 8;
  require_memory(
      num_positions * (sizeof(StreamEntry) + sizeof(int32_t)) +
          static_cast<double>(plan.num_samples) * (row_bytes + (has_wide_shuffle(plan) ? 8 : 4)),
      "the index of " + std::to_string(plan.num_samples) + " samples of " +
          std::to_string(options.sequence_length) + " tokens",
      "ask for fewer samples (--train-samples, or --train-iters and "
      "--global-batch-size), or for longer ones (--seq-length)");
}

// Fills the memory of all epochs with the sequences in the order of the dataset. Two threads do it,
// because most of the time goes to the kernel, which clears the memory at its first touch.
void lay_out_stream(const SequenceLengths& lengths, const SequenceRange& range,
                    std::span<StreamEntry> stream) {
  constexpr size_t kPiece = 1 << 20;
  const auto num_pieces = static_cast<int64_t>((stream.size() + kPiece - 1) / kPiece);
  parallel_for(num_pieces, kNumThreads, [&](int64_t piece) {
    const size_t begin = static_cast<size_t>(piece) * kPiece;
    int64_t sequence = range.begin + static_cast<int64_t>(begin) % (range.end - range.begin);
    for (StreamEntry& entry : stream.subspan(begin, std::min(kPiece, stream.size() - begin))) {
      entry = stream_entry(static_cast<int32_t>(sequence), lengths[sequence]);
      if (++sequence == range.end) sequence = range.begin;
    }
  });
}

// The document index and the sample index.
template <typename T>
void build_stream_indexes(std::span<StreamEntry> stream, const GptIndexOptions& options,
                          GptIndex& result) {
  if (rules_of(options.order).shuffles) {
    const DocumentParts parts = document_parts(result.plan, options.range);
    RandomState random(static_cast<uint32_t>(options.seed));
    random.shuffle(stream.first(parts.together));
    random.shuffle(stream.last(parts.apart));
  }
  CutStream<T> cut = cut_stream<T>(stream, {.sequence_length = options.sequence_length,
                                            .extra_tokens = extra_tokens(options),
                                            .num_samples = result.plan.num_samples});
  result.document_index = std::move(cut.document_index);
  result.sample_index = std::move(cut.sample_index);
}

template <typename T>
std::vector<T> build_shuffle_index(const EpochPlan& plan, const GptIndexOptions& options) {
  const auto num_samples = static_cast<size_t>(plan.num_samples);
  auto index = vector_of_huge_pages<T>(num_samples);
  index.resize(num_samples);
  std::iota(index.begin(), index.end(), T{0});
  if (!rules_of(options.order).shuffles) return index;
  // The samples' random stream begins where that of the documents ends.
  RandomState random(static_cast<uint32_t>(options.seed));
  const DocumentParts parts = document_parts(plan, options.range);
  random.skip_shuffle(parts.together);
  random.skip_shuffle(parts.apart);
  const auto num_first = static_cast<size_t>(
      plan.separate_last_epoch ? plan.num_samples_before_last_epoch : plan.num_samples);
  random.shuffle(std::span(index).first(num_first));
  random.shuffle(std::span(index).subspan(num_first));
  return index;
}

}  // namespace

int64_t sum_tokens(const SequenceLengths& lengths, const SequenceRange& range) {
  int64_t sum = 0;
  int32_t signs = 0;  // of all lengths: a jump for each would keep the loop scalar
  for (int64_t i = range.begin; i < range.end; ++i) {
    sum += lengths[i];
    signs |= lengths[i];
  }
  for (int64_t i = range.begin; signs < 0 && i < range.end; ++i) {
    if (lengths[i] < 0) {
      throw std::runtime_error("length of sequence " + std::to_string(i) + " is negative (" +
                               std::to_string(lengths[i]) + "): the .idx is damaged");
    }
  }
  if (const int64_t i = lengths.first_misfit(range.begin, range.end); i < range.end) {
    throw std::runtime_error(
        "sequence " + std::to_string(i) + " has " + std::to_string(lengths[i]) +
        " tokens, which is not what the offsets of it and of the next one say: "
        "the .idx is damaged (weft-data verify tells more)");
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

GptIndex build_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options) {
  check_options(options);
  const SequenceRange& range = options.range;
  if (range.begin < 0 || range.begin > range.end || range.end > lengths.size()) {
    throw UsageError("sequences [" + std::to_string(range.begin) + ", " +
                     std::to_string(range.end) + ") of " + std::to_string(lengths.size()));
  }
  if (range.end > kMaxInt32) {
    throw std::runtime_error(std::to_string(range.end) +
                             " sequences; Megatron's document index ends at 2^31-1");
  }
  GptIndex result;
  result.plan = plan_epochs(sum_tokens(lengths, range), options);
  const size_t stream_size = document_parts(result.plan, range).size();
  require_memory_for(result.plan, stream_size, options);
  const auto memory = std::make_unique_for_overwrite<StreamEntry[]>(stream_size);
  ask_for_huge_pages(memory.get(), stream_size);
  const std::span stream(memory.get(), stream_size);
  lay_out_stream(lengths, range, stream);
  ThreadGroup shuffling;
  shuffling.start([&] {
    if (has_wide_shuffle(result.plan)) {
      result.shuffle_index = build_shuffle_index<int64_t>(result.plan, options);
    } else {
      result.shuffle_index = build_shuffle_index<uint32_t>(result.plan, options);
    }
  });
  if (has_wide_rows(result.plan, static_cast<int64_t>(stream_size), options.order)) {
    build_stream_indexes<int64_t>(stream, options, result);
  } else {
    build_stream_indexes<int32_t>(stream, options, result);
  }
  shuffling.join();
  shuffling.check();
  return result;
}

bool has_wide_rows(const EpochPlan& plan, int64_t num_positions, OrderKind order) {
  if (num_positions > kMaxInt32) return true;
  // Megatron-Core's rule also asks for the longest sequence, which always fits: its length is
  // stored in 32 bits.
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

void GptIndexView::prefetch_row(int64_t idx) const {
  std::visit([idx](const auto& rows) { __builtin_prefetch(&rows[static_cast<size_t>(2 * idx)]); },
             sample_index);
}

int64_t GptIndexView::shuffled(int64_t idx) const {
  const auto at = static_cast<size_t>(idx);
  return std::visit([at](const auto& order) { return static_cast<int64_t>(order[at]); },
                    shuffle_index);
}

}  // namespace weft
