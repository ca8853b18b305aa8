// Training blends that change during a run (--blend-schedule). README.md describes the file, and
// why no sample is lost or repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "indexed_dataset/order/blends/blend.h"
#include "indexed_dataset/order/samples/blending_index.h"
#include "indexed_dataset/order/samples/order_kind.h"

namespace weft {

// Reads the file of --blend-schedule, for a run that begins with the blend `first`. Throws
// UsageError in words of the option for a file that is none, and where `first` has no
// weights or a blend has a dataset twice; std::system_error if it cannot be read.
std::vector<BlendChange> read_blend_schedule(const std::string& path, const Blend& first);

// Equal for two spellings of one dataset: ./a, a, a name that leads to a by links.
std::string files_of_dataset(const std::string& prefix);

// Gives each dataset of a schedule the spelling that it was first named with, by which it is known,
// and where splits have paths of their own the share of it that is for training. `splits` are the
// blends of train, valid and test. Throws UsageError for a dataset of which these leave
// no share, or several.
void fit_to_blends(std::vector<BlendChange>& changes, std::span<const std::vector<Blend>> splits,
                   bool has_own_paths);

// Returns the first sample of a change: the one that begins at or after its token.
int64_t first_sample_of(const BlendChange& change, int64_t sequence_length);

struct BlendPlan {
  // All datasets that the run takes samples from, each once, without weights.
  Blend datasets;
  // The number of samples that are asked of each dataset's index: as many as if the first blend
  // that names it lasted to the end of the run, so that later changes of the schedule change no
  // earlier sample.
  std::vector<std::optional<int64_t>> num_asked;
  // Each phase follows the greedy rule from its own beginning, and each dataset goes on with the
  // sample after the last one that it gave.
  BlendingIndex index;
};

// For `num_samples` > 0. Changes that begin after them are left out. Throws UsageError
// where changes do not follow each other.
BlendPlan plan_blends(const Blend& first, const std::vector<BlendChange>& changes,
                      int64_t num_samples, int64_t sequence_length, OrderKind order,
                      double surplus);

// A dataset that gives more samples than its index has begins anew in another order.
struct Lap {
  int64_t dataset_idx = 0;
  int64_t lap = 0;  // from 0
};

// Makes `index` one over the laps of datasets that have these many samples, and returns them: the
// first laps are the datasets in their order.
std::vector<Lap> split_into_laps(BlendingIndex& index, const std::vector<int64_t>& num_samples);

}  // namespace weft
