// Finds the samples that a part of a run takes of a split, by the numbers that its log counts as
// consumed samples: those of the order, or, with a sequence-length curriculum, the trained pieces
// of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "indexed_dataset/order/batches/curriculum_rows.h"
#include "indexed_dataset/order/blends/blended_dataset.h"
#include "indexed_dataset/run_record/run_segments.h"
#include "indexed_dataset/run_record/unseen_documents.h"

namespace weft {

// Returns the rows of a segment with a curriculum, and nothing for one without. Throws
// std::runtime_error where its manifest does not tell them, UsageError for a curriculum
// that is none.
std::optional<CurriculumRows> curriculum_rows_of(const RunSegment& segment);

// Thread-safe after construction.
class TakenSamples {
 public:
  // Without `rows` it takes whole samples; without `unseen` all of their tokens have a loss.
  TakenSamples(std::shared_ptr<const BlendedDataset> dataset, std::optional<CurriculumRows> rows,
               std::shared_ptr<const UnseenDocuments> unseen)
      : dataset_(std::move(dataset)), rows_(std::move(rows)), unseen_(std::move(unseen)) {}

  // The order that the samples are of. With a curriculum its numbers are other ones.
  const BlendedDataset& dataset() const { return *dataset_; }
  const std::shared_ptr<const BlendedDataset>& shared_dataset() const { return dataset_; }
  bool are_whole() const { return !rows_; }

  // Returns which tokens of which sample of the order sample i is: L inputs without a curriculum.
  LengthCurriculum::Row row(int64_t i) const;
  // Returns the place of the order's sample. Throws std::out_of_range for one that is not there.
  BlendedDataset::Place locate(int64_t i) const { return dataset_->locate(row(i).sample); }
  const DatasetReader& reader(int64_t i) const {
    return dataset_->dataset(locate(i).dataset_idx).reader();
  }
  // Return the pieces and the tokens of sample i: its inputs and the last target. Throw as
  // BlendedDataset::sample_parts() and sample().
  std::vector<SamplePart> parts(int64_t i) const;
  std::vector<int32_t> tokens(int64_t i) const;
  // Returns true if a piece of sample i has no loss (--unsee).
  bool is_unseen(int64_t i, const SamplePart& part) const;
  const UnseenDocuments* unseen() const { return unseen_.get(); }  // null without --unsee
  // Calls use(part, count) for each piece of sample i with inputs that are trained or masked: those
  // that a reshaping curriculum repeats are left out.
  template <typename Use>
  void for_each_new_piece(int64_t i, const Use& use) const {
    const LengthCurriculum::Row taken = row(i);
    int64_t position = 0;  // of the part's first token in the row
    for (const SamplePart& part : parts(i)) {
      const int64_t end = position + part.num_tokens;
      const int64_t count = std::min(end, taken.length) - std::max(position, taken.num_repeated);
      if (count > 0) use(part, count);
      position = end;
    }
  }
  // Returns the inputs of samples [first, last) together. Those that a reshaping curriculum repeats
  // for context count once.
  int64_t num_trained_tokens(int64_t first, int64_t last) const;
  // Returns the first of samples [first, last) that is of the order's sample `sample` or a later
  // one.
  int64_t first_from(int64_t sample, int64_t first, int64_t last) const;

 private:
  std::shared_ptr<const BlendedDataset> dataset_;
  std::optional<CurriculumRows> rows_;
  std::shared_ptr<const UnseenDocuments> unseen_;
};

}  // namespace weft
