#include "preprocess/inspect/lookup/exposure.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/run_record/sample_query.h"

namespace weft {
namespace {

constexpr int64_t kBlock = 1 << 16;

const TakenSamples& training_samples(RunSamples& samples, const Stretch& stretch) {
  const std::string& group = stretch.segment->order.blends.of(Split::kTrain).at(0).name;
  return *samples.find(*stretch.segment, Split::kTrain, group);
}

// Calls use(sample_idx) for each sample of a stretch, on several threads.
template <typename Use>
void for_each_sample(const Stretch& stretch, int num_threads, const Use& use) {
  const int64_t count = stretch.last - stretch.first;
  parallel_for((count + kBlock - 1) / kBlock, num_threads, [&](int64_t block) {
    const int64_t end = std::min(stretch.last, stretch.first + (block + 1) * kBlock);
    for (int64_t sample = stretch.first + block * kBlock; sample < end; ++sample) use(sample);
  });
}

void add(int64_t& sum, int64_t value) {
  std::atomic_ref(sum).fetch_add(value, std::memory_order_relaxed);
}

// Adds the sequences that training draws from.
void add_drawn(const GptDataset& dataset, std::vector<SequenceRange>& drawn) {
  const auto sequences = dataset.index().document_index;
  const auto [least, most] = std::minmax_element(sequences.begin(), sequences.end());
  drawn.push_back({.begin = *least, .end = *most + 1});
  drawn = merged(std::move(drawn));
}

}  // namespace

std::vector<Stretch> trained_parts(const Stretch& stretch) {
  const RunSegment& segment = *stretch.segment;
  if (segment.untrained_iterations.empty()) return {stretch};
  const BatchSizePlan plan = batch_sizes_of(segment.order);
  const auto end_of = [&](int64_t iteration, int64_t least) {
    const int64_t num_iterations = std::max<int64_t>(0, iteration - segment.resumed.iteration);
    const auto end = plan.consumed_after(num_iterations, segment.resumed.samples);
    return std::clamp(end.value_or(stretch.last), least, stretch.last);
  };
  std::vector<Stretch> parts;
  Stretch part = stretch;
  const auto add_until = [&](int64_t end) {
    part.last = end;
    if (part.first < part.last) parts.push_back(part);
  };
  for (const auto& [first, last] : segment.untrained_iterations) {
    add_until(end_of(first - 1, part.first));
    part.first = end_of(last, part.first);
  }
  add_until(stretch.last);
  return parts;
}

std::map<std::string, DatasetExposure> exposure_of_datasets(RunSamples& samples,
                                                            const std::vector<Stretch>& stretches,
                                                            int num_threads) {
  std::map<std::string, DatasetExposure> exposures;
  std::map<std::string, std::vector<SequenceRange>> drawn;
  const DatasetNames names = dataset_names_of(samples.run().segments());
  for (const Stretch& stretch : stretches) {
    const TakenSamples& taken = training_samples(samples, stretch);
    const BlendedDataset& dataset = taken.dataset();
    std::vector<int64_t> counts(static_cast<size_t>(dataset.num_datasets())), tokens(counts);
    if (dataset.is_blend()) {
      for_each_sample(stretch, num_threads, [&](int64_t sample) {
        const LengthCurriculum::Row row = taken.row(sample);
        const auto at = static_cast<size_t>(dataset.locate(row.sample).dataset_idx);
        add(counts[at], 1);
        add(tokens[at], row.length - row.num_repeated);
      });
    } else {
      counts[0] = stretch.last - stretch.first;
      tokens[0] = taken.num_trained_tokens(stretch.first, stretch.last);
    }
    std::vector<int64_t> masked(counts.size());
    if (taken.unseen()) {
      for_each_sample(stretch, num_threads, [&](int64_t sample) {
        const auto at = static_cast<size_t>(taken.locate(sample).dataset_idx);
        taken.for_each_new_piece(sample, [&](const SamplePart& part, int64_t count) {
          if (taken.is_unseen(sample, part)) add(masked[at], count);
        });
      });
    }
    for (int64_t i = 0; i < dataset.num_datasets(); ++i) {
      const GptDataset& part = dataset.dataset(i);
      const std::string& prefix = names.first_spelling(part.reader().prefix().string());
      DatasetExposure& exposure = exposures[prefix];
      exposure.num_samples += counts[static_cast<size_t>(i)];
      exposure.num_tokens += tokens[static_cast<size_t>(i)];
      exposure.num_masked_tokens += masked[static_cast<size_t>(i)];
      add_drawn(part, drawn[prefix]);
      exposure.num_tokens_per_epoch = 0;
      for (const SequenceRange& range : drawn[prefix])
        exposure.num_tokens_per_epoch += sum_tokens(part.reader().lengths(), range);
    }
  }
  return exposures;
}

std::map<std::string, SequenceExposure> exposure_of_sequences(RunSamples& samples,
                                                              const std::vector<Stretch>& stretches,
                                                              int num_threads) {
  std::map<std::string, SequenceExposure> exposures;
  const DatasetNames names = dataset_names_of(samples.run().segments());
  for (const Stretch& stretch : stretches) {
    const TakenSamples& taken = training_samples(samples, stretch);
    const BlendedDataset& dataset = taken.dataset();
    std::vector<SequenceExposure*> of_dataset;
    for (int64_t i = 0; i < dataset.num_datasets(); ++i) {
      const GptDataset& part = dataset.dataset(i);
      SequenceExposure& exposure = exposures[names.first_spelling(part.reader().prefix().string())];
      of_dataset.push_back(&exposure);
      if (!exposure.reader) {
        exposure.reader = std::make_shared<DatasetReader>(part.reader().prefix());
        exposure.num_tokens.resize(static_cast<size_t>(exposure.reader->num_sequences()));
      }
      add_drawn(part, exposure.drawn);
      if (taken.unseen()) exposure.num_masked_tokens.resize(exposure.num_tokens.size());
    }
    for_each_sample(stretch, num_threads, [&](int64_t sample) {
      SequenceExposure& exposure =
          *of_dataset[static_cast<size_t>(taken.locate(sample).dataset_idx)];
      taken.for_each_new_piece(sample, [&](const SamplePart& part, int64_t count) {
        const auto at = static_cast<size_t>(part.sequence_idx);
        add(exposure.num_tokens.at(at), count);
        if (taken.is_unseen(sample, part)) add(exposure.num_masked_tokens.at(at), count);
      });
    });
  }
  return exposures;
}

}  // namespace weft
