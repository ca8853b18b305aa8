#include "trainer/plan/memory_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/config/pipeline_partition.h"
#include "trainer/plan/train_setup.h"

namespace weft {

namespace {

// A set of flags that a run could add.
struct Change {
  std::string flags;
  std::function<void(Config&)> apply;
};

void recompute_parts(Config& c, std::vector<std::string> modules) {
  c.checkpoint_activations = false;
  c.recompute_granularity = "selective";
  c.recompute_method.clear();
  c.recompute_num_layers.reset();
  c.recompute_modules = std::move(modules);
}

// Each costs more time than those before it, and needs less memory.
std::vector<Change> ladder_of_recomputation() {
  const std::string selective = "--recompute-granularity selective --recompute-modules ";
  return {
      {"", [](Config&) {}},
      {selective + "layernorm", [](Config& c) { recompute_parts(c, {"layernorm"}); }},
      {selective + "layernorm activation",
       [](Config& c) {
         recompute_parts(c, {"layernorm", "activation"});
       }},
      {selective + "layernorm mlp",
       [](Config& c) {
         recompute_parts(c, {"layernorm", "mlp"});
       }},
      {"--recompute-granularity full --recompute-method uniform",
       [](Config& c) {
         recompute_parts(c, {});
         c.recompute_granularity = "full";
         c.recompute_method = "uniform";
         c.recompute_activations = false;
       }},
  };
}

// These cost no time to speak of, and may be combined.
std::vector<Change> free_changes(const Config& config) {
  static constexpr int64_t kChunk = 1024;
  std::vector<Change> changes;
  const int64_t num_tokens = config.micro_batch_size * config.seq_length;
  if (!config.logits_chunk && num_tokens > kChunk)
    changes.push_back({"--logits-chunk 1024", [](Config& c) { c.logits_chunk = kChunk; }});
  if (config.data_parallel_size() > 1 && !config.shards_optimizer())
    changes.push_back(
        {"--use-distributed-optimizer", [](Config& c) { c.use_distributed_optimizer = true; }});
  const int64_t tp_size = config.tensor_model_parallel_size;
  if (tp_size > 1 && !config.sequence_parallel && num_tokens % tp_size == 0)
    changes.push_back({"--sequence-parallel", [](Config& c) { c.sequence_parallel = true; }});
  return changes;
}

// Returns arrangements of more tensor-parallel ranks and stages with which the run would fit
// together with every option that saves memory, those on the fewest ranks first.
std::string advice_of_ranks(const Config& config, const RankBytes& free,
                            const PlanRank& plan_rank) {
  Config changed = config;
  ladder_of_recomputation().back().apply(changed);
  for (const Change& change : free_changes(config)) change.apply(changed);
  // Those were chosen for other stages.
  const bool has_own_stages =
      config.num_virtual_stages() > 1 || partition_method(config) != "uniform";
  changed.num_layers_per_virtual_pipeline_stage.reset();
  changed.num_virtual_stages_per_pipeline_rank.reset();
  changed.microbatch_group_size_per_virtual_pipeline_stage.reset();
  changed.pp_partition_method = "uniform";
  changed.decoder_first_pipeline_num_layers.reset();
  changed.decoder_last_pipeline_num_layers.reset();
  changed.account_for_embedding_in_pipeline_split = false;
  changed.account_for_loss_in_pipeline_split = false;
  const int64_t present = config.tensor_model_parallel_size * config.pipeline_model_parallel_size;
  for (int64_t shares = 2; shares <= 1024; shares *= 2) {
    if (shares <= present) continue;
    // Ranks of a tensor-parallel group are those of a host, as a rule, so pipelines grow beyond 8.
    for (int64_t tp_size = std::min<int64_t>(8, shares); tp_size >= 1; tp_size /= 2) {
      const int64_t pp_size = shares / tp_size;
      if (config.num_layers % pp_size != 0 || config.num_attention_heads % tp_size != 0 ||
          config.ffn_size() % tp_size != 0 ||
          (config.group_query_attention && config.num_query_groups % tp_size != 0))
        continue;
      changed.tensor_model_parallel_size = tp_size;
      changed.pipeline_model_parallel_size = pp_size;
      changed.sequence_parallel = config.micro_batch_size * config.seq_length % tp_size == 0;
      changed.world_size = std::max(shares, config.world_size / shares * shares);
      const int64_t bytes = plan_rank(changed).device;
      if (bytes > free.device) continue;
      return fmt::format(
          "with full recomputation{}{} it would fit with --tensor-model-parallel-size {} "
          "--pipeline-model-parallel-size {} on {} ranks ({:.2f} GiB)",
          changed.shares_sequence() ? ", --sequence-parallel" : "",
          has_own_stages ? ", and equal stages that are not interleaved," : "", tp_size, pp_size,
          changed.world_size, to_gib(bytes));
    }
  }
  return "";
}

struct OffloadAdvice {
  std::string flags;     // with which the run would fit; empty where there are none
  std::string obstacle;  // a sentence on the host, where its memory is too small for them
};

// Returns the first set of options with which the run would fit together with --optimizer-offload,
// which costs more time than all recomputation.
OffloadAdvice advice_of_offload(const Config& config, const RankBytes& free,
                                const PlanRank& plan_rank) {
  if (config.optimizer_offload) return {};
  for (const Change& recompute : ladder_of_recomputation()) {
    Config changed = config;
    std::string flags;
    const auto add = [&](const Change& change) {
      change.apply(changed);
      if (!change.flags.empty()) flags += change.flags + " ";
    };
    add(recompute);
    for (const Change& change : free_changes(config)) add(change);
    changed.optimizer_offload = true;
    const RankBytes bytes = plan_rank(changed);
    if (bytes.device > free.device) continue;
    if (bytes.host > free.host) {
      return {.flags = {},
              .obstacle = fmt::format(
                  "; --optimizer-offload would take {:.2f} GiB of the host's memory for each rank, "
                  "and {:.2f} GiB are free",
                  to_gib(bytes.host), to_gib(std::max<int64_t>(free.host, 0)))};
    }
    return {.flags = fmt::format("{}--optimizer-offload ({:.2f} GiB, and {:.2f} GiB of the host's "
                                 "memory for each rank)",
                                 flags, to_gib(bytes.device), to_gib(bytes.host)),
            .obstacle = {}};
  }
  return {};
}

}  // namespace

std::string memory_advice(const Config& config, const RankBytes& free_bytes,
                          const PlanRank& plan_rank) {
  const int64_t present = plan_rank(config).device;
  const std::vector<Change> free = free_changes(config);
  std::vector<std::string> advice;
  std::vector<size_t> fitting;  // sets of free changes, as bits
  for (const Change& recompute : ladder_of_recomputation()) {
    for (size_t set = 0; set < size_t{1} << free.size(); ++set) {
      // Where less suffices, more is no advice.
      const auto suffices = [set](size_t other) { return (other & set) == other; };
      if (std::any_of(fitting.begin(), fitting.end(), suffices)) continue;
      Config changed = config;
      std::string flags = recompute.flags;
      recompute.apply(changed);
      for (size_t i = 0; i < free.size(); ++i) {
        if ((set >> i & 1) == 0) continue;
        free[i].apply(changed);
        flags += (flags.empty() ? "" : " ") + free[i].flags;
      }
      const int64_t bytes = plan_rank(changed).device;
      if (bytes >= present || bytes > free_bytes.device) continue;
      fitting.push_back(set);
      advice.push_back(fmt::format("{} ({:.2f} GiB)", flags, to_gib(bytes)));
    }
  }
  if (advice.empty()) {
    const std::string ranks = advice_of_ranks(config, free_bytes, plan_rank);
    const std::string or_ranks = ranks.empty() ? "" : ", or share it among more ranks: " + ranks;
    const OffloadAdvice offload = advice_of_offload(config, free_bytes, plan_rank);
    if (!offload.flags.empty())
      return fmt::format("it would fit with {}{}", offload.flags, or_ranks);
    const std::string smaller =
        config.micro_batch_size > 1 ? "lower --micro-batch-size or the model" : "lower the model";
    return fmt::format("no option that saves memory makes it fit: {}{}{}", smaller, or_ranks,
                       offload.obstacle);
  }
  constexpr size_t kMost = 3;
  advice.resize(std::min(advice.size(), kMost));
  return fmt::format("it would fit with {}", fmt::join(advice, ", or with "));
}

PlannedStage::PlannedStage(const Config& config, Backend& backend, const TrainerOptions& options,
                           const Topology& topology, int stage) {
  groups_.layout = layout_of(topology, 0);
  groups_.layout.pp_rank = stage;
  trainer_ = std::make_unique<Trainer>(backend, options, groups_);
  snapshot_bytes_ = add_checkpoint_memory(*trainer_, groups_.layout, config, staging_, snapshot_);
}

std::deque<PlannedStage> plan_stages(const Config& config, int64_t vocab_size, Backend& backend,
                                     std::optional<int> planned_multiprocessors) {
  TrainerOptions options = trainer_options(config, vocab_size);
  options.planned_multiprocessors = planned_multiprocessors;
  if (backend.kind() == DeviceKind::kCpu && !planned_multiprocessors)
    options.optimizer.offloads_state = false;  // there is one memory alone
  const Topology topology = topology_of(config, options.shape);
  std::deque<PlannedStage> stages;
  for (int stage = 0; stage < topology.pp_size; ++stage)
    stages.emplace_back(config, backend, options, topology, stage);
  return stages;
}

RankBytes largest_rank_bytes(const Config& config, int64_t vocab_size, Backend& backend,
                             std::optional<int> planned_multiprocessors) {
  RankBytes largest;
  for (const PlannedStage& stage :
       plan_stages(config, vocab_size, backend, planned_multiprocessors)) {
    largest.device = std::max(largest.device, stage.plan().device_bytes());
    largest.host = std::max(largest.host, stage.plan().class_bytes(MemoryClass::kPinnedHost));
  }
  return largest;
}

}  // namespace weft
