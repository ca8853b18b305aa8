// The options that decide how the datasets of a run are built, and reports of how their indexes were had.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/order/blends/blend_sizes.h"
#include "indexed_dataset/order/blends/blended_dataset.h"
#include "indexed_dataset/order/blends/data_paths.h"
#include "indexed_dataset/order/curriculum/metric_curriculum.h"

namespace weft {

struct DatasetOptions {
  SplitBlends blends;
  std::string split = "969, 30, 1";  // Megatron's default, with its spaces: names of caches tell it
  OrderKind order = OrderKind::kCore;
  int64_t sequence_length = 0;
  int64_t seed = 1234;
  double surplus = kDefaultSurplus;
  // Indexes are mapped from files in this folder, and written there first if need be (index_cache.h);
  // "": they are built in memory.
  std::string cache_path = {};
  bool maps_caches_only = false;  // what is not in that folder is built in memory
  // Caches that Megatron itself wrote, in that folder or where it keeps them without one, are taken as they
  // are: to look at a run that read them.
  bool takes_megatron_caches = false;
  std::optional<CyclicOptions> cyclic = {};         // --dataloader-type cyclic
  std::optional<MetricCurriculum> curriculum = {};  // training draws samples by difficulty
  // Each validation set has all of its samples once, in order: one epoch of each dataset, and of several
  // without weights an exhaustive blend.
  bool full_validation = false;
  std::string vocab_file = {}, merge_file = {};  // stand in the names of Megatron-Core's caches
  // JSON, takes their place in these names: the tokenizer as a version of Megatron-Core describes it.
  std::string tokenizer_text = {};
  int num_threads = 0;  // datasets of a blend are built in parallel; 0: as many as there are cores
};

// Tells how the index of a dataset, or of a blend, was had.
struct IndexReport {
  Split split = Split::kTrain;
  std::string name;        // the prefix of the dataset, or "blend"
  int64_t num_asked = -1;  // samples; -1: one epoch
  int64_t num_samples = 0, num_epochs = 0;
  bool is_kept = true;  // the program keeps this index in a cache
  bool was_cached = false;
  bool is_from_megatron = false;  // of those that were cached: Weft has not written it
  // For other numbers of samples Megatron's caches have this index: MegatronCache::find_other_sizes().
  std::vector<std::string> other_caches = {};
  std::vector<std::string> other_caches_of_weft = {};  // the same of Weft's
  // The stamp that a killed writer of Weft's has left beside this index: MegatronCache::find_begun().
  std::string begun_stamp = {};
  std::string unread_caches = {};  // MegatronCache::unread()
  double seconds = 0;
};

}  // namespace weft
