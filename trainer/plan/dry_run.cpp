// --dry-run: what a run would be, without the memory of a device.
#include "trainer/plan/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>

#include "indexed_dataset/base/process/exit_code.h"
#include "kernels/cuda_scratch.h"
#include "trainer/ceilings/device_ceilings.h"
#include "trainer/config/device_profile.h"
#include "trainer/data/loader_plan.h"
#include "trainer/log/banner.h"
#include "trainer/log/log_lines.h"
#include "trainer/log/run_log.h"
#include "trainer/plan/limits.h"
#include "trainer/plan/memory_advice.h"
#include "trainer/plan/train_setup.h"
#include "trainer/problems/problems.h"
#include "trainer/step/planned_step.h"

namespace weft {

namespace {

// The device to plan for: that of this machine, or the kind that --device-profile names.
struct PlannedDevice {
  explicit PlannedDevice(const Config& config) {
    if (config.device_profile.empty()) {
      const DeviceChoice choice = choose_device(config.device);
      backend = create_backend(choice.kind, 0);
      description = fmt::format("{} ({})", backend->description(), choice.why);
      return;
    }
    profile = find_device_profile(config.device_profile);
    if (config.has_fp8() && !profile->has_fp8)
      throw UsageError(fmt::format(
          "fp8 products: {} has none; compute capability 8.9 is needed (Ada, Hopper); leave "
          "--fp8-format out",
          profile->name));
    backend = create_cpu_backend(1);  // it only answers for the sizes of buffers
    description =
        fmt::format("{} ({:.2f} GiB; --device-profile {})", profile->name,
                    static_cast<double>(profile->memory_bytes) / (1 << 30), config.device_profile);
  }

  bool is_gpu() const { return profile || backend->kind() == DeviceKind::kCuda; }

  // Returns the memory that NCCL takes beside the plan.
  int64_t nccl_bytes(const Config& config, const Topology& topology) const {
    if (!is_gpu() || config.distributed_backend != "nccl") return 0;
    return num_groups_of_several(topology) * kNcclGroupBytes;
  }

  std::optional<int> multiprocessors() const {
    if (!profile) return std::nullopt;
    return static_cast<int>(profile->num_multiprocessors);
  }
  int64_t workspace_bytes(std::span<const AnyOperation> operations) const {
    return profile ? cuda::workspace_bytes(operations, *multiprocessors())
                   : backend->workspace_bytes(operations);
  }

  // Returns what --measure-device has found of this device, or of another one of its kind.
  std::optional<DeviceCeilings> find_measured(const Config& config) const {
    const std::string algorithms = algorithm_cache(config);
    if (algorithms.empty()) return std::nullopt;
    const std::filesystem::path file = ceilings_file(algorithms);
    return profile ? find_ceilings(file, "", profile->name)
                   : find_ceilings(file, ceilings_id(*backend), backend->description());
  }

  // Returns the host's memory that a rank may take; none where a profile does not tell.
  std::optional<int64_t> share_of_host(int64_t ranks_on_host) const {
    if (!profile) return free_host_bytes() / ranks_on_host;
    if (profile->host_memory_bytes == 0) return std::nullopt;
    return profile->host_memory_bytes;
  }

  std::optional<DeviceProfile> profile;
  std::unique_ptr<Backend> backend;
  std::string description;
};

// Stages of equal speed are idle for p - 1 of v m + p - 1 works, each of a micro-batch in one of
// their v chunks [Narayanan et al. 2021, arXiv:2104.04473, section 2.2].
double bubble_percent(const BatchSchedule& schedule, const Topology& topology) {
  const int64_t last = schedule.num_micro_batches(schedule.num_train_samples());
  const int64_t works = topology.num_chunks * last + topology.pp_size - 1;
  return 100.0 * static_cast<double>(topology.pp_size - 1) / static_cast<double>(works);
}

// 174591836160 -> "174.6 B"
std::string short_count(double count) {
  for (const auto& [size, unit] : {std::pair{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}}) {
    if (count >= size) return fmt::format("{:.4g} {}", count / size, unit);
  }
  return fmt::format("{:.0f}", count);
}

// Returns ", 2.3 days at 60 % of the 676 TFLOP/s that were measured": by what the device's products
// sustain, or else by what its maker says that they reach. A step of a large model has usually such
// a share of either. Returns "" for a device of which neither is known.
std::string days_text(const Config& config, const PlannedDevice& device, double flops) {
  constexpr double kShareOfMeasured = 0.6, kShareOfPeak = 0.4, kSecondsPerDay = 86400;
  const bool is_fp32 = config.dtype() == DType::kFloat32;
  const std::optional<DeviceCeilings> measured = device.find_measured(config);
  const std::optional<double> peak = is_fp32 ? std::nullopt : peak_tflops(device.description);
  if (!measured && !peak) return "";
  const double tflops = !measured ? *peak : is_fp32 ? measured->fp32_tflops : measured->bf16_tflops;
  const double share = measured ? kShareOfMeasured : kShareOfPeak;
  const double flops_per_s = share * tflops * 1e12 * static_cast<double>(config.world_size);
  return fmt::format(", {:.3g} days at {:.0f} % of {}", flops / flops_per_s / kSecondsPerDay,
                     100 * share,
                     measured ? fmt::format("the {:.4g} TFLOP/s that were measured", tflops)
                              : fmt::format("{} TFLOP/s", tflops));
}

// The whole plan in one line: the model, the devices, their memory, idle time, length and days.
std::string verdict_line(const Config& config, const ModelShape& shape, const Topology& topology,
                         const BatchSchedule& schedule, const PlannedDevice& device,
                         int64_t needed_bytes) {
  constexpr double kGiB = 1 << 30;
  const int64_t free_bytes =
      device.profile ? device.profile->free_bytes() : device.backend->free_memory_bytes();
  std::string text = fmt::format(
      "{}: {} parameters on {} x {} (TP {}, PP {}{}, DP {}): needs {:.2f} of {:.2f} GiB",
      needed_bytes <= free_bytes ? "fits" : "DOES NOT FIT",
      short_count(static_cast<double>(shape.num_parameters())), config.world_size,
      device.profile ? device.profile->name : device.backend->description(), topology.tp_size,
      topology.pp_size, topology.num_chunks > 1 ? fmt::format(" x {}", topology.num_chunks) : "",
      topology.dp_size, static_cast<double>(needed_bytes) / kGiB,
      static_cast<double>(free_bytes) / kGiB);
  if (topology.pp_size > 1)
    text += fmt::format(", bubble {:.1f} %", bubble_percent(schedule, topology));
  const auto tokens =
      static_cast<double>(schedule.after(schedule.num_iterations(), {}).consumed.tokens);
  text += fmt::format(", {} iterations of up to {} tokens", schedule.num_iterations(),
                      short_count(static_cast<double>(config.global_batch() * config.seq_length)));
  return text + days_text(config, device, model_flops(shape, tokens)) + "\n";
}

std::string schedule_table(const Config& config, const BatchSchedule& schedule) {
  constexpr int64_t kRows = 10;
  const bool has_lengths = config.has_curriculum();
  std::string text = "    iteration  consumed samples  global batch size";
  if (has_lengths) text += "  sequence length   consumed tokens";
  text += "  learning rate\n";
  LrSchedule lr(lr_settings(config));
  RunPosition position;
  // The rate by tokens depends on where the warm-up ended, so it is followed step by step.
  const bool steps_one_by_one = lr.settings().decay_tokens.has_value();
  const int64_t last = schedule.num_iterations();
  for (int64_t row = 0; row <= kRows; ++row) {
    const int64_t iteration = std::max<int64_t>(1, last * row / kRows);
    while (position.iteration < iteration - 1) {
      const int64_t num_steps = steps_one_by_one ? 1 : iteration - 1 - position.iteration;
      const RunPosition next = schedule.after(num_steps, position);
      lr.advance(next.consumed.rows - position.consumed.rows, position.consumed.tokens,
                 next.consumed.tokens);
      position = next;
    }
    const int64_t consumed = position.consumed.rows;
    text += fmt::format(" {:12d} {:17d} {:18d}", iteration, consumed,
                        schedule.global_batch_size(consumed));
    if (has_lengths) {
      text += fmt::format(" {:16d} {:17d}", schedule.curriculum().length(iteration),
                          position.consumed.tokens);
    }
    text += fmt::format(" {:14.6E}\n", lr.current());
  }
  return text;
}

std::string stage_table(const std::deque<PlannedStage>& stages, const Topology& topology) {
  constexpr MemoryClass kShown[] = {MemoryClass::kParameters, MemoryClass::kGradients,
                                    MemoryClass::kOptimizer, MemoryClass::kActivations,
                                    MemoryClass::kLogits};
  std::string text =
      fmt::format(" > each of {} ranks of a stage plans the same memory (MiB):\n    stage",
                  topology.tp_size * topology.dp_size);
  for (const MemoryClass shown : kShown) text += fmt::format(" {:>12}", name_of(shown));
  text += fmt::format(" {:>12}\n", "device total");
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const MemoryPlan& plan = stages[stage].plan();
    text += fmt::format("    {:5d}", stage);
    for (const MemoryClass shown : kShown)
      text += fmt::format(" {:12.2f}", to_mib(plan.class_bytes(shown)));
    text += fmt::format(" {:12.2f}\n", to_mib(plan.device_bytes()));
  }
  return text;
}

// Stages are idle for longer than bubble_percent() where a last group is smaller.
std::string bubble_line(const Config& config, const BatchSchedule& schedule,
                        const Topology& topology) {
  const int64_t last = schedule.num_micro_batches(schedule.num_train_samples());
  const int64_t group =
      config.microbatch_group_size_per_virtual_pipeline_stage.value_or(topology.pp_size);
  const bool is_uneven = topology.num_chunks > 1 && last % group != 0;
  std::string text =
      fmt::format(" > pipeline bubble: {}{:.1f} % of a step with {} micro-batches, the last size",
                  is_uneven ? "at least " : "", bubble_percent(schedule, topology), last);
  if (topology.num_chunks > 1)
    text += fmt::format(", and {} virtual stages on each rank", topology.num_chunks);
  return text + "\n";
}

// The links between nodes are slower than those inside one, so what travels between stages is
// planned.
std::string exchange_line(const Config& config, const ModelShape& shape, const Topology& topology) {
  const int64_t elements = shape.micro_batch_size * shape.seq_length * shape.hidden_size;
  const bool is_shared =
      topology.sequence_parallel || !config.no_scatter_gather_tensors_in_pipeline;
  const int64_t num_parts = is_shared && elements % topology.tp_size == 0 ? topology.tp_size : 1;
  std::string text = fmt::format(
      " > each rank sends {:.2f} MiB of a micro-batch to the next stage, and receives as much back",
      to_mib(elements / num_parts * size_bytes(shape.residual_dtype())));
  if (num_parts > 1)
    text += fmt::format(
        ": one of {} parts, which {}", num_parts,
        topology.sequence_parallel ? "stay shared by rows" : "tensor-parallel ranks gather");
  return text + "\n";
}

// The plan cannot know the speed of a model that was never measured; the reader scales the days.
std::string flops_line(const Config& config, const ModelShape& shape,
                       const BatchSchedule& schedule) {
  constexpr double kFlopsPerSecond = 1e14, kSecondsPerDay = 86400;
  const auto tokens_of_step = static_cast<double>(config.global_batch() * config.seq_length);
  const auto tokens =
      static_cast<double>(schedule.after(schedule.num_iterations(), {}).consumed.tokens);
  const double flops = model_flops(shape, tokens);
  return fmt::format(
      " > model FLOPs: {:.4g} in an iteration of the last size, {:.4g} in the {:.4g} tokens of the "
      "run; {} devices of 100 TFLOP/s each take {:.3g} days for them\n",
      model_flops(shape, tokens_of_step), flops, tokens, config.world_size,
      flops / static_cast<double>(config.world_size) / kFlopsPerSecond / kSecondsPerDay);
}

// What Muon computes beside the model: the products of its iterations.
std::string muon_line(const Config& config, const ModelShape& shape, int64_t vocab_size,
                      const Topology& topology) {
  if (!config.uses_muon()) return "";
  double flops = 0;
  const TrainerOptions options = trainer_options(config, vocab_size);
  for (const AnyOperation& operation : plan_step(options, layout_of(topology, 0)).operations) {
    if (const auto* product = std::get_if<BatchedProduct>(&operation))
      flops += operation_of(*product).flops;
  }
  const double of_model =
      model_flops(shape, static_cast<double>(config.global_batch() * config.seq_length));
  return fmt::format(
      " > Muon: {:.4g} FLOPs of Newton-Schulz iterations on the first rank in an iteration, {:.2g} % "
      "of its share of the model's\n",
      flops, 100 * flops * config.world_size / of_model);
}

// The datasets of the run, and what their indexes and loaders take.
struct PlannedData {
  PlannedData(const Config& config, const BatchSchedule& schedule) {
    const DatasetTargetSizes sizes = target_sizes(config, schedule);
    text = dataset_sizes_lines(sizes, config.full_validation);
    const LoaderPlan loaders = plan_loaders(config, schedule.largest_global_batch_size(), sizes);
    text += loaders.to_string();
    needs.slot_bytes = loaders.num_bytes();
    needs.num_loader_threads = loaders.num_threads(config.num_workers);
    if (config.plans_without_data()) {
      text += " > no dataset is named: the index of the samples is not planned\n";
      return;
    }
    const std::vector<DatasetIdentity> datasets = DataWatch(dataset_prefixes(config)).identities();
    int64_t num_documents = 0, num_tokens = 0;
    for (const DatasetIdentity& dataset : datasets) {
      num_documents += dataset.num_documents;
      num_tokens += dataset.num_tokens;
    }
    text += fmt::format(" > {}: {} documents, {} tokens", name_of_datasets(config), num_documents,
                        num_tokens);
    const double times = static_cast<double>(sizes.train_samples) *
                         static_cast<double>(config.seq_length) /
                         static_cast<double>(std::max<int64_t>(1, num_tokens));
    text += times > 1 ? fmt::format("; training takes {:.1f} times as many\n", times) : "\n";
    needs.index_bytes = sample_index_bytes(sizes, datasets, config.seq_length);
    text += fmt::format(" > index of the samples: {:.2f} MiB of host memory\n",
                        static_cast<double>(needs.index_bytes) / (1 << 20));
  }

  std::string text;
  HostNeeds needs;
};

}  // namespace

void dry_run(const Config& config, const std::vector<std::string>& notes, int64_t ranks_on_host,
             const PlanEvalTasks& plan_eval_tasks, std::FILE* out) {
  const BatchSchedule schedule(config);
  const RunVocabulary vocabulary = find_run_vocabulary(config);
  check_padding(config, vocabulary);
  const std::string doubt = check_document_ends(config, vocabulary);
  const PlannedDevice device(config);
  const ModelShape shape = model_shape(config, vocabulary.num_tokens);
  const Topology topology = topology_of(config, shape);
  const std::optional<int> multiprocessors = device.multiprocessors();
  const std::deque<PlannedStage> stages =
      plan_stages(config, vocabulary.num_tokens, *device.backend, multiprocessors);
  const auto largest = std::max_element(stages.begin(), stages.end(),
                                        [](const PlannedStage& a, const PlannedStage& b) {
                                          return a.plan().device_bytes() < b.plan().device_bytes();
                                        });
  const MemoryPlan& plan = largest->plan();
  const int64_t nccl_bytes = device.nccl_bytes(config, topology);
  const PlannedData data(config, schedule);
  const int64_t task_bytes = plan_eval_tasks(
      config, shape, vocabulary,
      [&device](std::span<const AnyOperation> all) { return device.workspace_bytes(all); });
  const int64_t needed_bytes = plan.device_bytes() + nccl_bytes + task_bytes;
  std::string text = verdict_line(config, shape, topology, schedule, device, needed_bytes);
  if (config.verbose) {
    text += start_banner(config, notes, schedule, vocabulary);
  } else {
    for (const std::string& warning : warnings_of(config)) text += "WARNING: " + warning + "\n";
  }
  if (!doubt.empty()) text += "WARNING: " + doubt + "\n";
  if (config.verbose) text += fmt::format("> device: {}\n", device.description);
  if (device.is_gpu()) text += slow_attention_line(shape, topology);
  if (config.verbose) {
    text += stage_lines(config, topology) + num_parameters_lines(shape, topology);
    if (topology.pp_size > 1) {
      text += stage_table(stages, topology) + bubble_line(config, schedule, topology) +
              exchange_line(config, shape, topology);
    }
  }
  if (topology.pp_size > 1) {
    text += fmt::format(" > stage {}, which plans the most:\n", largest - stages.begin());
  } else if (config.world_size > 1) {
    text += fmt::format(" > each of {} ranks plans the same memory:\n", config.world_size);
  }
  text += plan.to_string();
  if (nccl_bytes > 0) {
    text += fmt::format(" > NCCL: about {} MiB more on each device, {} for each of {} groups\n",
                        nccl_bytes >> 20, kNcclGroupBytes >> 20, num_groups_of_several(topology));
  }
  if (task_bytes > 0)
    text += fmt::format(" > --eval-tasks: {:.2f} MiB more on each device\n", to_mib(task_bytes));
  if (!config.eval_tasks.empty() && task_bytes == 0)
    text += " > --eval-tasks: not planned: no dataset is named, whose tokenizer it needs\n";
  text += config.verbose ? schedule_table(config, schedule) + flops_line(config, shape, schedule) +
                               muon_line(config, shape, vocabulary.num_tokens, topology) + data.text
                         : " > with --verbose: all arguments, stages, parameters of each rank, "
                           "schedules, FLOPs, sizes of the sets\n";
  std::fputs(text.c_str(), out);
  std::fflush(out);
  const std::optional<int64_t> share = device.share_of_host(ranks_on_host);
  const auto advice = [&](int64_t free_bytes) {
    const int64_t of_host =
        share ? *share - data.needs.index_bytes - data.needs.slot_bytes : INT64_MAX;
    return memory_advice(config, {free_bytes, of_host}, [&](const Config& changed) {
      RankBytes bytes =
          largest_rank_bytes(changed, vocabulary.num_tokens, *device.backend, multiprocessors);
      bytes.device += device.nccl_bytes(changed, topology_of(changed, shape)) + task_bytes;
      return bytes;
    });
  };
  if (device.profile) {
    check_device_memory(needed_bytes, device.profile->free_bytes(), device.profile->name, advice);
    const auto most =
        std::max_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
          return a.plan().class_bytes(MemoryClass::kPinnedHost) <
                 b.plan().class_bytes(MemoryClass::kPinnedHost);
        });
    if (share) {
      check_host_share(most->plan().class_bytes(MemoryClass::kPinnedHost) + data.needs.index_bytes +
                           data.needs.slot_bytes,
                       *share, config.device_profile);
    }
  } else {
    check_device_memory(needed_bytes, device.backend->free_memory_bytes(),
                        device.backend->description(), advice);
    check_memory(plan, *device.backend, data.needs, advice);
    check_memory_of_host(ranks_on_host,
                         ranks_on_host * host_bytes(plan, *device.backend, data.needs),
                         free_host_bytes(), "this host");
    const bool is_on_host = device.backend->kind() == DeviceKind::kCpu;
    check_snapshot_memory(largest->snapshot_bytes(),
                          free_host_bytes() - (is_on_host ? plan.device_bytes() : 0), "this host");
  }
}

}  // namespace weft
