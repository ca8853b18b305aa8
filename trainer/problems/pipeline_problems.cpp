// Checks what pipeline stages share out: the layers, and micro-batches where stages are
// interleaved.
#include <algorithm>
#include <optional>

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/config/model_shape.h"
#include "trainer/config/pipeline_partition.h"
#include "trainer/problems/problem_list.h"

namespace weft {

namespace {

// Refuses flags from which the layers of a virtual stage do not follow.
// [Megatron-LM megatron/training/arguments.py, validate_args]
void check_virtual_stages(const Config& c, ProblemList& p) {
  const auto &layers = c.num_layers_per_virtual_pipeline_stage,
             &stages = c.num_virtual_stages_per_pipeline_rank;
  const int64_t pp = c.pipeline_model_parallel_size;
  p.positive(layers, "--num-layers-per-virtual-pipeline-stage");
  p.positive(stages, "--num-virtual-stages-per-pipeline-rank");
  p.at_most(stages.value_or(0), kMostRanks, "--num-virtual-stages-per-pipeline-rank");
  p.add_if(layers && stages,
           "--num-layers-per-virtual-pipeline-stage and --num-virtual-stages-per-pipeline-rank "
           "cannot be set at the same time");
  p.add_if(pp == 1 && c.num_virtual_stages() > 1,
           "{} virtual stages need --pipeline-model-parallel-size 2 or more: when the interleaved "
           "schedule is used, it should be greater than 1",
           c.num_virtual_stages());
  p.add_if(layers && c.pp_partition_method != "uniform",
           "--num-layers-per-virtual-pipeline-stage {} makes all stages equal, and "
           "--pp-partition-method {} does not; give --num-virtual-stages-per-pipeline-rank",
           layers.value_or(0), c.pp_partition_method);
  p.add_if(layers.value_or(0) > 0 && c.num_layers % pp == 0 && c.num_layers / pp % *layers != 0,
           "number of layers per pipeline stage must be divisible by number of layers per virtual "
           "pipeline stage: --num-layers {} over --pipeline-model-parallel-size {} are {}, not a "
           "multiple of --num-layers-per-virtual-pipeline-stage {}; change one of them",
           c.num_layers, pp, c.num_layers / pp, layers.value_or(0));
}

// Returns the best size of groups for `m` micro-batches, if there is any. Groups that divide m have
// the smallest bubble, and groups of 2 * pp or more keep so many activations that a smaller last
// group, of pp micro-batches at least, is preferred to them.
std::optional<int64_t> better_group(int64_t pp, int64_t m) {
  for (int64_t group = pp; group <= m && group < 2 * pp; ++group) {
    if (m % group == 0) return group;
  }
  for (int64_t group = pp; group <= m; ++group) {
    if (m % group == 0 || m % group >= pp) return group;
  }
  return std::nullopt;
}

// Megatron's rules for the groups of micro-batches of a batch of `batch_size` samples.
// [Megatron-LM megatron/core/pipeline_parallel/schedules.py]
void check_groups(const Config& c, int64_t batch_size, ProblemList& p) {
  constexpr const char* kFlag = "--microbatch-group-size-per-virtual-pipeline-stage";
  const int64_t pp = c.pipeline_model_parallel_size;
  const int64_t m = batch_size / (c.micro_batch_size * c.data_parallel_size());
  const auto& given = c.microbatch_group_size_per_virtual_pipeline_stage;
  const int64_t group = given.value_or(pp), last = m % group;
  if (given && group > m) {
    p.add_if(true,
             "{} {}: the number of contiguous micro-batches in a virtual pipeline stage should "
             "range in [PP={}, M={}], and a batch of {} samples has {} micro-batches",
             kFlag, group, pp, m, batch_size, m);
    return;
  }
  if (last == 0 || last >= pp) return;
  std::string advice;
  if (const auto better = better_group(pp, m)) advice = fmt::format("{} {}, or ", kFlag, *better);
  p.add_if(true,
           "the interleaved schedule takes micro-batches in groups of {}, and the last of the {} "
           "of a batch of {} samples would be a group of {}, fewer than "
           "--pipeline-model-parallel-size {}, which introduces dependency bubbles; give {}another "
           "batch size",
           group, m, batch_size, last, pp, advice);
}

// A ramp's numbers of micro-batches come back to the same remainder after so many increments as a
// group has micro-batches.
std::vector<int64_t> batch_sizes(const Config& c) {
  if (!c.step_batch_size_schedule.empty()) return c.batch_size_plan().sizes();
  std::vector<int64_t> sizes;
  if (c.rampup_batch_size.size() == 3 && c.rampup_batch_size[0] > 0 && c.rampup_batch_size[1] > 0) {
    const int64_t most =
        c.microbatch_group_size_per_virtual_pipeline_stage.value_or(c.pipeline_model_parallel_size);
    const int64_t increment = c.rampup_batch_size[1];
    for (int64_t size = c.rampup_batch_size[0], i = 0; size < c.global_batch() && i < most; ++i) {
      sizes.push_back(size);
      size += increment;
    }
  }
  sizes.push_back(c.global_batch());
  return sizes;
}

}  // namespace

void check_pipeline(const Config& c, bool has_shape, ProblemList& p) {
  const int64_t tp = c.tensor_model_parallel_size, pp = c.pipeline_model_parallel_size;
  if (tp < 1 || pp < 1 || tp > kMostRanks || pp > kMostRanks || !has_shape) return;
  const size_t before = p.list.size();
  check_virtual_stages(c, p);
  const auto& group = c.microbatch_group_size_per_virtual_pipeline_stage;
  const int64_t num_virtual_stages = c.num_virtual_stages();
  p.add_if(group && num_virtual_stages == 1,
           "--microbatch-group-size-per-virtual-pipeline-stage {} needs interleaved stages: give "
           "--num-virtual-stages-per-pipeline-rank too",
           group.value_or(0));
  p.add_if(num_virtual_stages > 1 && group && *group < pp,
           "--microbatch-group-size-per-virtual-pipeline-stage {}: the number of contiguous "
           "micro-batches in a virtual pipeline stage should not be less than "
           "--pipeline-model-parallel-size {}",
           group.value_or(0), pp);
  if (p.list.size() != before || c.world_size % (tp * pp) != 0) return;
  try {
    // The size of the vocabulary, which may not be known yet, changes no stage that is refused.
    layers_of_stages(partition_method(c), pp, model_shape(c, c.vocab_size.value_or(1)),
                     num_virtual_stages);
  } catch (const UsageError& error) {
    p.add_if(true, "{}", error.what());
  }
  if (num_virtual_stages == 1 || c.micro_batch_size < 1) return;
  for (const int64_t size : batch_sizes(c)) {
    const size_t num_problems = p.list.size();
    if (size % (c.micro_batch_size * c.data_parallel_size()) == 0) check_groups(c, size, p);
    if (p.list.size() != num_problems) return;  // the first such batch says it
  }
}

}  // namespace weft
