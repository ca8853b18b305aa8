// The model of a run: memory is planned and compared with what is free, then allocated, then
// filled from a checkpoint or with the first weights.
#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/log/log_lines.h"
#include "trainer/loop/run.h"
#include "trainer/loop/tune_ranks.h"
#include "trainer/plan/limits.h"
#include "trainer/plan/memory_advice.h"

namespace weft {

namespace {

std::unique_ptr<Trainer> build_trainer(const RunStart& start, const RunInputs& inputs,
                                       RunDevice& device, const LrSchedule& lr) {
  start.print("building GPT model ...\n");
  TrainerOptions options = trainer_options(start.config, inputs.vocabulary.num_tokens);
  if (device.backend->kind() == DeviceKind::kCpu) options.optimizer.offloads_state = false;
  auto trainer = std::make_unique<Trainer>(*device.backend, options, device.groups);
  start.print(stage_lines(start.config, device.groups.layout));
  start.print(num_parameters_lines(trainer->shape(), device.groups.layout));
  const ParameterTable whole(trainer->shape(), ParallelLayout{});
  start.print(fmt::format(" > weight decay on {} parameters, none on {}\n", whole.num_decaying(),
                          whole.num_parameters() - whole.num_decaying()));
  start.print(fmt::format("> learning rate decay style: {}\n", name_of(lr.settings().style)));
  return trainer;
}

Resume plan_to_resume(const RunStart& start, const RunInputs& inputs,
                      const CheckpointChoice& checkpoint, const ModelShape& shape,
                      Backend& backend) {
  const CheckpointInfo info = read_checkpoint_info(start.config.load, checkpoint.iteration);
  Resume resume = plan_resume(info, shape, start.config, inputs.identity());
  if (!info.gemm_algorithms.empty()) backend.use_algorithms(info.gemm_algorithms);
  for (const std::string& warning : checkpoint.warnings) start.print("WARNING: " + warning + "\n");
  return resume;
}

// `num_bytes` are those of this rank's snapshot (--async-save).
void check_snapshots_of_host(HostGroup& ranks, int64_t num_bytes, const Trainer& trainer,
                             const Backend& backend) {
  int64_t of_this_host = 0;
  const std::vector<std::string> by_rank = ranks.all_gather(std::to_string(num_bytes));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (ranks.host_of(rank) != ranks.host_of(ranks.rank())) continue;
    of_this_host += std::stoll(by_rank[static_cast<size_t>(rank)]);
  }
  const bool is_on_host = backend.kind() == DeviceKind::kCpu;
  check_snapshot_memory(of_this_host,
                        free_host_bytes() - (is_on_host ? trainer.plan().device_bytes() : 0),
                        ranks.host_of(ranks.rank()));
}

// Compares what the ranks need with what their devices and hosts have free, before one takes it.
void check_memory_of_run(const RunStart& start, const RunInputs& inputs,
                         const BatchSchedule& schedule, const Trainer& trainer, Backend& backend) {
  const Config& config = start.config;
  const DatasetTargetSizes sizes = target_sizes(config, schedule);
  const LoaderPlan loaders = plan_loaders(config, schedule.largest_global_batch_size(), sizes);
  const HostNeeds needs{
      .index_bytes = sample_index_bytes(sizes, inputs.data_watch.identities(), config.seq_length),
      .slot_bytes = loaders.num_bytes(),
      .num_loader_threads = loaders.num_threads(config.num_workers)};
  check_memory(trainer.plan(), backend, needs, [&](int64_t free_bytes) {
    const int64_t vocab_size = trainer.shape().vocab_size;
    const int64_t of_host =
        free_host_bytes() / num_ranks_on_host(start.ranks) - needs.index_bytes - needs.slot_bytes;
    return memory_advice(config, {free_bytes, of_host}, [&](const Config& changed) {
      return largest_rank_bytes(changed, vocab_size, backend);
    });
  });
  check_memory_of_hosts(start.ranks, host_bytes(trainer.plan(), backend, needs), free_host_bytes());
}

void load(const RunStart& start, int64_t saved_iteration, const Resume& resume, RunModel& model) {
  const RunStart::Clock::time_point begun = RunStart::Clock::now();
  const std::string& folder = start.config.load;
  start.print(
      fmt::format(" loading checkpoint from {} at iteration {}\n", folder, saved_iteration));
  for (const std::string& warning : resume.warnings) start.print("WARNING: " + warning + "\n");
  // The counters come first: by them the trainer has scales of fp8 to load, or none.
  Trainer& trainer = *model.trainer;
  trainer.set_scalar_state(resume.state.scalars);
  load_checkpoint(folder, saved_iteration, trainer.tensors_to_load(resume.load_optimizer),
                  model.staging, start.ranks);
  trainer.parameters_loaded();
  if (folder == start.config.save) model.saved_iteration = model.iteration();
  if (!resume.load_optimizer) {
    start.print(fmt::format(" > weights only: iteration {}, fresh optimizer\n", model.iteration()));
  }
  const Timer timer{"load-checkpoint", ms_between(begun, RunStart::Clock::now())};
  start.print(fmt::format("  successfully loaded checkpoint from {} at iteration {}\n", folder,
                          saved_iteration) +
              timer_line(LogFormat::kMegatron2021, {&timer, 1}));
}

}  // namespace

RunModel build_model(const RunStart& start, const RunInputs& inputs,
                     const std::optional<CheckpointChoice>& checkpoint, RunDevice& device,
                     BatchSchedule& schedule) {
  const Config& config = start.config;
  Backend& backend = *device.backend;
  RunState state{.scalars = {}, .lr = LrSchedule(lr_settings(config))};
  std::unique_ptr<Trainer> trainer = build_trainer(start, inputs, device, state.lr);
  std::optional<Resume> resume;
  if (checkpoint) {
    resume = plan_to_resume(start, inputs, *checkpoint, trainer->shape(), backend);
    state = resume->state;
    schedule.resume_at(position_of(state.scalars));
  }

  Tensor staging, snapshot;
  const int64_t snapshot_bytes =
      add_checkpoint_memory(*trainer, device.groups.layout, config, staging, snapshot);
  if (config.async_save) check_snapshots_of_host(start.ranks, snapshot_bytes, *trainer, backend);
  check_memory_of_run(start, inputs, schedule, *trainer, backend);
  start.print(tune_on_first_rank(*trainer, backend, start.ranks, algorithm_cache(config)));
  trainer->allocate();
  start.print(trainer->plan().to_string());

  RunModel model{.trainer = std::move(trainer),
                 .state = std::move(state),
                 .staging = {backend, staging},
                 .snapshot_memory = snapshot};
  if (resume) {
    load(start, checkpoint->iteration, *resume, model);
    return model;
  }
  if (!config.load.empty()) {
    start.print(fmt::format(
        "WARNING: could not find the metadata file {}/latest_checkpointed_iteration.txt \n"
        "    will not load any checkpoints and will start from random\n",
        config.load));
  }
  model.trainer->initialize_parameters();
  return model;
}

}  // namespace weft
