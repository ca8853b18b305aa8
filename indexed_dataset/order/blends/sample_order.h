// Everything that decides which tokens an iteration reads: a run's arguments, and what was made of
// them when the run began. Datasets are built from it, for the run and for those who look at it
// later.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "indexed_dataset/order/blends/data_paths.h"
#include "indexed_dataset/order/blends/sample_arguments.h"
#include "indexed_dataset/order/curriculum/metric_curriculum.h"
#include "indexed_dataset/order/samples/cyclic_order.h"
#include "indexed_dataset/order/samples/gpt_dataset.h"

namespace weft {

struct SampleOrder : SampleArguments {
  SplitBlends blends;                         // the datasets that `paths` names
  std::optional<CyclicOptions> cyclic;        // --dataloader-type cyclic
  std::optional<MetricCurriculum> draws;      // --curriculum-metrics: training draws by difficulty
  std::optional<int64_t> data_parallel_size;  // tells which rank takes a sample
  // The numbers of samples that the run asked for, if its manifest has them; else they follow from
  // the arguments.
  std::optional<DatasetTargetSizes> asked_samples;

  // How indexes are had. Nothing of this moves a sample.
  //
  // Indexes are mapped from files in this folder, and written there first if need be
  // (index_cache.h); "": they are built in memory.
  std::string cache_path;
  bool maps_caches_only = false;  // what is not in that folder is built in memory
  // Files that Megatron itself wrote in that folder are taken as they are, to look at a run that
  // read them.
  bool takes_megatron_caches = false;
  TokenizerFiles tokenizer;  // its paths stand in the names of Megatron-Core's caches
  // JSON, takes their place in these names: the tokenizer as a version of Megatron-Core describes
  // it.
  std::string tokenizer_text;
  int num_threads = 0;  // datasets of a blend are built in parallel; 0: as many as there are cores
};

// Sets what follows from the arguments: the full batch of a step schedule, the cyclic order and the
// draws. Relative paths of the curriculum's metrics begin in `directory`. Throws
// UsageError for a schedule that is none.
void derive_order(SampleOrder& order, const std::string& directory = "");

// Returns the value of a field as options and people have it; "" for none.
std::string field_text(const std::string& value);
std::string field_text(int64_t value);
std::string field_text(double value);
std::string field_text(bool value);
std::string field_text(OrderKind value);
std::string field_text(const std::optional<int64_t>& value);
std::string field_text(const std::vector<int64_t>& values);
std::string field_text(const std::vector<std::string>& values);

}  // namespace weft
