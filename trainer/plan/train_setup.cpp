#include "trainer/plan/train_setup.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "kernels/flash_attention.h"
#include "kernels/flash_kernels.h"
#include "kernels/unfused_attention.h"
#include "trainer/checkpoint/background_save.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/pipeline_partition.h"

namespace weft {

std::string algorithm_cache(const Config& config) {
  if (!config.gemm_algorithm_cache.empty()) return config.gemm_algorithm_cache;
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::filesystem::path(home) / ".cache/weft/gemm-algorithms";
}

DeviceChoice choose_device(const std::string& device) {
  if (device == "cpu") return {DeviceKind::kCpu, "--device cpu"};
  std::string why;
  const int num_devices = num_cuda_devices(&why);
  if (num_devices == 0) {
    if (device == "auto") return {DeviceKind::kCpu, "no GPU: " + why};
    const bool has_hint = why.find("--device cpu") != std::string::npos;
    throw UsageError("--device cuda: no usable GPU: " + why +
                     (has_hint ? "" : "; --device cpu trains without one"));
  }
  return {DeviceKind::kCuda, device == "auto"
                                 ? fmt::format("{} GPU(s) found, one for each rank", num_devices)
                                 : "--device cuda"};
}

std::string slow_attention_line(const ModelShape& shape, const Topology& topology) {
  if (has_flash_attention(shape.head_size, shape.dtype)) return "";
  const int64_t T = shape.seq_length;
  const UnfusedScratch scratch =
      unfused_scratch(T, T, shape.num_heads / topology.tp_size, shape.head_size, shape.dtype,
                      shape.num_groups() < shape.num_heads);
  const std::string why = has_flash_attention(shape.head_size, DType::kBFloat16)
                              ? "in fp32"
                              : fmt::format("for heads of {}, but for multiples of 8 up to {}",
                                            shape.head_size, kMaxFlashHeadSize);
  return fmt::format(
      "> attention: there are no flash kernels {}: the scores of {} queries and {} heads at a time are kept in {:.2f} "
      "MiB of workspace, which is slower\n",
      why, scratch.num_queries, scratch.num_heads,
      static_cast<double>(scratch.num_bytes) / (1 << 20));
}

std::string attention_line(const ModelShape& shape, const Topology& topology) {
  if (!has_flash_attention(shape.head_size, shape.dtype))
    return slow_attention_line(shape, topology);
  return "> attention: " + as_usage(flash_kernels) + "\n";
}

std::unique_ptr<Backend> create_backend(DeviceKind kind, int local_rank) {
  if (kind == DeviceKind::kCpu) return create_cpu_backend();
  return as_usage([&] { return create_cuda_backend(local_rank % num_cuda_devices()); });
}

ProcessGroups create_groups(const Topology& topology, const Config& config, HostGroup& ranks,
                            Backend& backend, std::string& text) {
  if (ranks.size() == 1) return create_lone_process_groups(&ranks);
  std::string how = "MPI";
  ProcessGroups groups;
  if (backend.kind() == DeviceKind::kCpu) {
    groups = create_host_process_groups(ranks, topology);
  } else if (config.distributed_backend != "nccl") {
    groups = create_pinned_process_groups(ranks, topology, backend);
    how = "MPI, through pinned memory of the host: slow, for ranks that share a GPU";
  } else {
    check_devices_differ(ranks, backend.device_id());
    groups = create_nccl_process_groups(ranks, topology, backend,
                                        config.uses_muon() && config.shards_optimizer(), how);
  }
  text = rank_table(ranks, groups.layout, ranks.all_gather(backend.description())) +
         "> tensors travel by " + how + "\n";
  return groups;
}

Topology topology_of(const Config& config, const ModelShape& shape) {
  Topology topology = topology_of(
      config.world_size, config.tensor_model_parallel_size, config.pipeline_model_parallel_size,
      config.use_tp_pp_dp_mapping ? RankOrder::kTpPpDp : RankOrder::kTpDpPp);
  topology.sequence_parallel = config.shares_sequence();
  topology.num_chunks = config.num_virtual_stages();
  topology.stage_layers =
      layers_of_stages(partition_method(config), topology.pp_size, shape, topology.num_chunks);
  return topology;
}

int64_t num_recomputed_layers(const Config& config, const ModelShape& shape,
                              const Topology& topology) {
  const RecomputeOptions recompute = recompute_options(config);
  ParallelLayout layout = layout_of(topology, 0);
  int64_t count = 0;
  for (layout.pp_rank = 0; layout.pp_rank < topology.pp_size; ++layout.pp_rank)
    for (const Chunk& chunk : chunks_of(shape, layout))
      count += recompute.num_recomputed(chunk.num_layers);
  return count;
}

std::string num_parameters_lines(const ModelShape& shape, const Topology& topology) {
  std::string text;
  ParallelLayout layout = layout_of(topology, 0);
  for (layout.pp_rank = 0; layout.pp_rank < topology.pp_size; ++layout.pp_rank) {
    for (layout.tp_rank = 0; layout.tp_rank < topology.tp_size; ++layout.tp_rank) {
      text += fmt::format(
          " > number of parameters on (tensor, pipeline) model parallel rank ({}, {}): {}\n",
          layout.tp_rank, layout.pp_rank, ParameterTable(shape, layout).num_parameters());
    }
  }
  return text;
}

std::string stage_lines(const Config& config, const Topology& topology) {
  if (topology.pp_size == 1) return "";
  return fmt::format("Partitioning pipeline stages with method {}\n", partition_method(config)) +
         text_of_stages(topology.stage_layers, topology.pp_size);
}

void check_padding(const Config& config, const RunVocabulary& vocabulary) {
  const int64_t padded = config.padded_vocab_size(vocabulary.num_tokens);
  if (padded >= vocabulary.num_tokens) return;
  throw UsageError(fmt::format("--pad-vocab-size-to {} is smaller than the vocabulary of {} ({})",
                               padded, vocabulary.num_tokens, vocabulary.source));
}

RunPosition position_of(const ScalarState& scalars) {
  return {scalars.iteration, {scalars.consumed_samples, scalars.consumed_tokens}};
}

DatasetTargetSizes target_sizes(const Config& config, const BatchSchedule& schedule) {
  DatasetTargetSizes sizes =
      dataset_target_sizes(std::nullopt, schedule.num_iterations_of_samples(),
                           config.global_batch(), config.eval_interval, config.eval_iters);
  sizes.train_samples = config.skip_train ? 0 : schedule.num_train_samples();
  return sizes;
}

SampleOrder sample_order(const Config& config, SplitBlends blends) {
  SampleOrder order;
  static_cast<SampleArguments&>(order) = config;
  order.blends = std::move(blends);
  order.data_parallel_size = config.data_parallel_size();
  order.cache_path = config.data_cache_path;
  order.tokenizer = gpt2_files(config.vocab_file, config.merge_file);
  derive_order(order);
  return order;
}

std::shared_ptr<const UnseenDocuments> read_unseen_documents(const Config& config) {
  if (config.unsee.empty()) return nullptr;
  return std::make_shared<const UnseenDocuments>(config.unsee, dataset_prefixes(config),
                                                 std::filesystem::current_path());
}

std::string name_of_datasets(const Config& config) {
  const std::vector<std::string> prefixes = dataset_prefixes(config);
  return prefixes.size() == 1 ? prefixes.front() : fmt::format("{} datasets", prefixes.size());
}

int64_t add_checkpoint_memory(Trainer& trainer, const ParallelLayout& layout, const Config& config,
                              Tensor& staging, Tensor& snapshot) {
  trainer.plan().add(MemoryClass::kPinnedHost, "staging of checkpoints", &staging, DType::kUInt8,
                     {staging_bytes(trainer.state_tensors(/*optimizer=*/true))});
  if (!config.async_save) return 0;
  const int64_t num_bytes =
      snapshot_bytes(written_by(layout, config.shards_optimizer(),
                                trainer.state_tensors(/*optimizer=*/!config.no_save_optim)));
  trainer.plan().add(MemoryClass::kPinnedHost, "snapshot of --async-save", &snapshot, DType::kUInt8,
                     {num_bytes});
  return num_bytes;
}

}  // namespace weft
