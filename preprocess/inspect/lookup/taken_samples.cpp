#include "preprocess/inspect/lookup/taken_samples.h"

#include <stdexcept>
#include <string>

#include "indexed_dataset/run_record/sample_query.h"

namespace weft {

std::optional<CurriculumRows> curriculum_rows_of(const RunSegment& segment) {
  const CurriculumOptions& options = segment.order.curriculum;
  if (options.schedule_type.empty()) return std::nullopt;
  const auto& [iteration, samples, tokens] = segment.resumed;
  return CurriculumRows(LengthCurriculum(options, segment.order.seq_length),
                        batch_sizes_of(segment.order), iteration, {samples, tokens});
}

LengthCurriculum::Row TakenSamples::row(int64_t i) const {
  if (rows_) return rows_->at(i);
  return {.sample = i, .begin = 0, .length = dataset_->sequence_length(), .num_repeated = 0};
}

std::vector<SamplePart> TakenSamples::parts(int64_t i) const {
  const LengthCurriculum::Row taken = row(i);
  return dataset_->sample_parts(taken.sample, taken.begin, taken.begin + taken.length + 1);
}

bool TakenSamples::is_unseen(int64_t i, const SamplePart& part) const {
  if (!unseen_) return false;
  const UnseenSequences* of_dataset = unseen_->find(reader(i).prefix().string());
  return of_dataset && of_dataset->contains(part.sequence_idx);
}

std::vector<int32_t> TakenSamples::tokens(int64_t i) const {
  const LengthCurriculum::Row taken = row(i);
  std::vector<int32_t> ids(static_cast<size_t>(dataset_->sequence_length() + 1));
  dataset_->sample(taken.sample, ids.data());
  ids.erase(ids.begin(), ids.begin() + taken.begin);
  ids.resize(static_cast<size_t>(taken.length + 1));
  return ids;
}

int64_t TakenSamples::num_trained_tokens(int64_t first, int64_t last) const {
  if (rows_) return rows_->tokens_before(last) - rows_->tokens_before(first);
  return (last - first) * dataset_->sequence_length();
}

int64_t TakenSamples::first_from(int64_t sample, int64_t first, int64_t last) const {
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    if (row(middle).sample < sample) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

}  // namespace weft
