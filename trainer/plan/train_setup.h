// Choices that a training run makes before it starts: the device and the samples.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "indexed_dataset/order/blends/build_datasets.h"
#include "indexed_dataset/run_record/unseen_documents.h"
#include "kernels/backend.h"
#include "trainer/config/config.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/identity/run_vocabulary.h"
#include "trainer/resume/resume.h"
#include "trainer/step/trainer.h"

namespace weft {

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  std::string why;
};
// Resolves the value of --device. Throws UsageError for --device cuda without a usable
// GPU.
DeviceChoice choose_device(const std::string& device);
// Returns a line that tells that a GPU has no flash attention for the model's heads; "" where it
// has.
std::string slow_attention_line(const ModelShape& shape, const Topology& topology);
// A line that says which attention the current GPU runs.
std::string attention_line(const ModelShape& shape, const Topology& topology);
// Returns the file of --gemm-algorithm-cache; empty where there is neither the option nor a $HOME.
std::string algorithm_cache(const Config& config);
// Ranks of one host take its GPUs in turn.
std::unique_ptr<Backend> create_backend(DeviceKind kind, int local_rank);

// Creates the communicators of the run's ranks, by --distributed-backend where they are on GPUs,
// and tells where they are in `text`. All ranks call it. Throws as the functions of
// process_groups.h.
ProcessGroups create_groups(const Topology& topology, const Config& config, HostGroup& ranks,
                            Backend& backend, std::string& text);

// Returns how the run's ranks are arranged, and its layers on pipeline stages.
Topology topology_of(const Config& config, const ModelShape& shape);
// Returns the layers of all stages that backward computes again.
int64_t num_recomputed_layers(const Config& config, const ModelShape& shape,
                              const Topology& topology);
// Returns Megatron-DeepSpeed's lines about the pipeline stages; none where there is one stage.
std::string stage_lines(const Config& config, const Topology& topology);
// Returns Megatron's line for each rank of a copy of the model: the number of its parameters.
std::string num_parameters_lines(const ModelShape& shape, const Topology& topology);

// Throws UsageError where --pad-vocab-size-to is smaller than the vocabulary.
void check_padding(const Config& config, const RunVocabulary& vocabulary);

// Adds the memory through which checkpoints are copied to the trainer's plan, and with --async-save
// that of the snapshot, whose size it returns.
int64_t add_checkpoint_memory(Trainer& trainer, const ParallelLayout& layout, const Config& config,
                              Tensor& staging, Tensor& snapshot);

// Returns where a run with these counters stands.
RunPosition position_of(const ScalarState& scalars);

// Returns the number of samples that the run needs of each split; iterations follow the batch size
// ramp-up.
DatasetTargetSizes target_sizes(const Config& config, const BatchSchedule& schedule);

// Returns what decides the samples of a run that reads these blends.
SampleOrder sample_order(const Config& config, SplitBlends blends);

// Reads the file of --unsee; null without one. Throws as UnseenDocuments.
std::shared_ptr<const UnseenDocuments> read_unseen_documents(const Config& config);

// Returns the prefix of the run's dataset, or "N datasets": for the log.
std::string name_of_datasets(const Config& config);

}  // namespace weft
