// The start of a run, from its options to the first step: locks, model, checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/order/blends/blend_json.h"
#include "indexed_dataset/run_record/run_metrics.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/command_line/option_text.h"
#include "trainer/log/banner.h"
#include "trainer/log/log_lines.h"
#include "trainer/loop/train_loop.h"
#include "trainer/loop/tune_ranks.h"
#include "trainer/plan/limits.h"
#include "trainer/plan/memory_advice.h"
#include "trainer/profile/profiling_backend.h"

namespace weft {

namespace {

// This is longer than the kernel takes to end a killed process that holds a GPU's memory, so that a
// run that is restarted at once does not meet the lock of its predecessor.
constexpr std::chrono::seconds kLockPatience{10};

double ms_between(TrainLoop::Clock::time_point start, TrainLoop::Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - start).count();
}

std::string print_timers(std::initializer_list<Timer> timers) {
  return timer_line(LogFormat::kMegatron2021, {timers.begin(), timers.size()});
}

void create_folder(const char* flag, const std::string& folder) {
  if (folder.empty()) return;
  try {
    std::filesystem::create_directories(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    throw std::system_error(error.code(),
                            fmt::format("{} {}: cannot create this folder", flag, folder));
  }
}

// Prints lines of the constructor, before there is a RunLog.
void print_to(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

}  // namespace

TrainLoop::TrainLoop(const Config& config, const std::vector<std::string>& notes,
                     Clock::time_point process_start, HostGroup& ranks, std::FILE* out)
    : config_(config),
      process_start_(process_start),
      ranks_(ranks),
      out_(out),
      schedule_(config),
      vocabulary_(find_run_vocabulary(config)),
      blends_(resolve_data_paths(config.paths)),
      data_watch_(blends_.prefixes()),
      unseen_(read_unseen_documents(config)),
      lr_(lr_settings(config)) {
  check_padding(config_, vocabulary_);
  const std::string doubt =
      is_first_rank() ? check_document_ends(config_, vocabulary_) : std::string();
  check_threads(loader_plan().num_threads(config_.num_workers));
  lock_folders();  // first: the folder of a live run gets no failure.json of this one
  if (!config_.run_folder().empty()) ranks_.set_failure_folder(config_.run_folder());
  check_ranks_agree(ranks_, facts());
  const std::optional<CheckpointChoice> checkpoint = choose_checkpoint_of_all_ranks();
  const DeviceChoice device = choose_device(config_.device);
  print(start_banner(config_, notes, schedule_, vocabulary_));
  if (!doubt.empty()) print("WARNING: " + doubt + "\n");
  backend_ = create_backend(device.kind, config_, local_rank(ranks_));
  ProfilingBackend* profiled = nullptr;
  if (config_.profiled_steps()) {
    auto wrapper = std::make_unique<ProfilingBackend>(std::move(backend_));
    profiled = wrapper.get();
    backend_ = std::move(wrapper);
  }
  const bool is_gpu = device.kind == DeviceKind::kCuda;
  if (config_.optimizer_offload && !is_gpu)
    print("WARNING: --optimizer-offload has no effect: a CPU has the host's memory alone\n");
  check_ranks_agree(ranks_, {{"the device", is_gpu ? backend_->description() : "a CPU"}});
  std::string where;
  const ModelShape shape = model_shape(config_, vocabulary_.num_tokens);
  const Topology topology = topology_of(config_, shape);
  groups_ = create_groups(topology, config_, ranks_, *backend_, where);
  if (profiled) groups_ = with_profile(std::move(groups_), profiled->recorder());
  print(where);
  print(fmt::format("> device: {} ({})\n", backend_->description(), device.why));
  if (is_gpu) print(attention_line(shape, topology));
  // The CPU executes in place, so there is nothing to overlap, and a result that waits is a log
  // line that is late.
  results_in_flight_ = is_gpu ? 1 : 0;
  const Clock::time_point initialized = Clock::now();
  print(fmt::format("time to initialize megatron (seconds): {:.3f}\n",
                    ms_between(process_start_, initialized) / 1e3) +
        datetime_line("after megatron is initialized", timestamp_now()));

  load_or_initialize(checkpoint);
  if (profiled) start_profiler(*profiled);
  const Clock::time_point model_built = Clock::now();
  print(datetime_line("after model, optimizer, and learning rate scheduler are built",
                      timestamp_now()));
  open_data();
  start_loaders();
  print(datetime_line("after dataloaders are built", timestamp_now()) + "done with setup ...\n" +
        print_timers(
            {{"model-and-optimizer-setup", ms_between(initialized, model_built)},
             {"train/valid/test-data-iterators-setup", ms_between(model_built, Clock::now())}}));

  const LogPlan logs = plan_logs();
  log_ = std::make_unique<RunLog>(RunLog::Options{.config = config_,
                                                  .shape = trainer_->shape(),
                                                  .device = backend_->description(),
                                                  .num_iterations = schedule_.num_iterations(),
                                                  .num_recomputed_layers = num_recomputed_layers(
                                                      config_, trainer_->shape(), groups_.layout),
                                                  .run_id = logs.run_id,
                                                  .log_end = logs.end,
                                                  .prints_text = is_first_rank(),
                                                  .logs_steps = ranks_.rank() + 1 == ranks_.size()},
                                  out_);
  // The last rank drops steps of other ways first: the manifest must not vouch for them if that
  // fails.
  if (!config_.run_folder().empty()) ranks_.all_gather("");
  if (logs.writes_manifest && is_first_rank()) write_manifest(logs.run_id);
}

void TrainLoop::print(const std::string& text) const {
  if (is_first_rank()) print_to(out_, text);
}

// Everything that decides what a rank computes.
Facts TrainLoop::facts() const {
  Facts facts;
  for (const auto& [name, value] : resolved_options(config_)) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    facts.emplace_back(flag, value);
  }
  facts.emplace_back("the program's checksum", program_checksum());
  facts.emplace_back("the file of --unsee", unseen_ ? unseen_->sha256() : "");
  facts.emplace_back("the vocabulary",
                     fmt::format("{} tokens, {} ends documents {}", vocabulary_.num_tokens,
                                 vocabulary_.end_of_document, id_of(vocabulary_.tokenizer)));
  facts.emplace_back(
      "the blends of the datasets",
      to_json(blends_).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  for (const DatasetIdentity& dataset : data_watch_.identities())
    facts.emplace_back("the dataset " + dataset.prefix, describe(dataset));
  return facts;
}

// The first rank writes for all: it clears up before the others look.
std::optional<CheckpointChoice> TrainLoop::choose_checkpoint_of_all_ranks() {
  if (is_first_rank() && loads_from_its_save_folder(config_)) remove_leftovers(config_.save);
  ranks_.all_gather("");
  const std::optional<CheckpointChoice> checkpoint = checkpoint_to_load(config_);
  const std::string iteration = checkpoint ? std::to_string(checkpoint->iteration) : "none";
  check_ranks_agree(ranks_, {{"the iteration of the checkpoint in --load", iteration}});
  if (is_first_rank()) check_save_folder(config_, checkpoint.has_value());
  return checkpoint;
}

// Two runs that save into one folder would tear each other's checkpoints and metrics.
void TrainLoop::lock_folders() {
  if (!is_first_rank()) return;  // it writes for all
  std::set<std::filesystem::path> folders;
  create_folder("--tensorboard-dir", config_.tensorboard_dir);
  for (const auto& [flag, folder] :
       {std::pair{"--save", config_.save}, {"--run-dir", config_.run_folder()}}) {
    create_folder(flag, folder);
    if (!folder.empty()) folders.insert(std::filesystem::canonical(folder));
  }
  for (const std::filesystem::path& folder : folders) {
    try {
      locks_.emplace_back(folder / "weft-train.lock", kLockPatience);
    } catch (const std::system_error& error) {
      // Some parallel file systems are mounted without locks. To train there is worth more than the
      // lock.
      const int code = error.code().value();
      if (code != ENOSYS && code != EOPNOTSUPP && code != ENOLCK) throw;
      print(fmt::format("WARNING: {}: nothing keeps a second run out of it\n", error.what()));
    }
  }
}

void TrainLoop::load_or_initialize(const std::optional<CheckpointChoice>& checkpoint) {
  print("building GPT model ...\n");
  TrainerOptions options = trainer_options(config_, vocabulary_.num_tokens);
  if (backend_->kind() == DeviceKind::kCpu) options.optimizer.offloads_state = false;
  trainer_ = std::make_unique<Trainer>(*backend_, options, groups_);
  print(stage_lines(config_, groups_.layout));
  print(num_parameters_lines(trainer_->shape(), groups_.layout));
  const ParameterTable whole(trainer_->shape(), ParallelLayout{});
  print(fmt::format(" > weight decay on {} parameters, none on {}\n", whole.num_decaying(),
                    whole.num_parameters() - whole.num_decaying()));
  print(fmt::format("> learning rate decay style: {}\n", name_of(lr_.settings().style)));
  std::optional<Resume> resume;
  if (checkpoint) {
    const CheckpointInfo info = read_checkpoint_info(config_.load, checkpoint->iteration);
    resume = plan_resume(info, trainer_->shape(), config_, data_identity());
    schedule_.resume_at(position_of(resume->state.scalars));
    if (!info.gemm_algorithms.empty()) backend_->use_algorithms(info.gemm_algorithms);
    for (const std::string& warning : checkpoint->warnings) print("WARNING: " + warning + "\n");
  }

  sizes_ = target_sizes(config_, schedule_);
  plan_checkpoint_memory();
  const LoaderPlan loaders = loader_plan();
  const HostNeeds needs{
      .index_bytes = sample_index_bytes(sizes_, data_watch_.identities(), config_.seq_length),
      .slot_bytes = loaders.num_bytes(),
      .num_loader_threads = loaders.num_threads(config_.num_workers)};
  check_memory(trainer_->plan(), *backend_, needs, [&](int64_t free_bytes) {
    const int64_t vocab_size = trainer_->shape().vocab_size;
    const int64_t of_host =
        free_host_bytes() / num_ranks_on_host(ranks_) - needs.index_bytes - needs.slot_bytes;
    return memory_advice(config_, {free_bytes, of_host}, [&](const Config& changed) {
      return largest_rank_bytes(changed, vocab_size, *backend_);
    });
  });
  check_memory_of_hosts(ranks_, host_bytes(trainer_->plan(), *backend_, needs), free_host_bytes());
  print(tune_on_first_rank(*trainer_, *backend_, ranks_));
  trainer_->allocate();
  staging_ = std::make_unique<CheckpointStaging>(CheckpointStaging{*backend_, staging_memory_});
  if (config_.async_save) {
    background_save_ = std::make_unique<BackgroundSave>(
        *backend_, ranks_,
        BackgroundSaveOptions{config_.save, config_.keep_last, config_.keep_every},
        snapshot_memory_);
  }
  print(trainer_->plan().to_string());
  if (resume) {
    load(checkpoint->iteration, *resume);
  } else {
    if (!config_.load.empty()) {
      print(fmt::format(
          "WARNING: could not find the metadata file {}/latest_checkpointed_iteration.txt \n"
          "    will not load any checkpoints and will start from random\n",
          config_.load));
    }
    trainer_->initialize_parameters();
  }
  lr_consumed_samples_ = consumed_samples();
  first_iteration_ = iteration() + 1;
}

LoaderPlan TrainLoop::loader_plan() const {
  return plan_loaders(config_, schedule_.largest_global_batch_size(),
                      target_sizes(config_, schedule_));
}

void TrainLoop::plan_checkpoint_memory() {
  const int64_t num_bytes =
      add_checkpoint_memory(*trainer_, groups_.layout, config_, staging_memory_, snapshot_memory_);
  if (!config_.async_save) return;
  int64_t of_this_host = 0;
  const std::vector<std::string> by_rank = ranks_.all_gather(std::to_string(num_bytes));
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_.host_of(rank) != ranks_.host_of(ranks_.rank())) continue;
    of_this_host += std::stoll(by_rank[static_cast<size_t>(rank)]);
  }
  const bool is_on_host = backend_->kind() == DeviceKind::kCpu;
  check_snapshot_memory(of_this_host,
                        free_host_bytes() - (is_on_host ? trainer_->plan().device_bytes() : 0),
                        ranks_.host_of(ranks_.rank()));
}

void TrainLoop::load(int64_t saved_iteration, const Resume& resume) {
  const Clock::time_point start = Clock::now();
  print(
      fmt::format(" loading checkpoint from {} at iteration {}\n", config_.load, saved_iteration));
  for (const std::string& warning : resume.warnings) print("WARNING: " + warning + "\n");
  // The counters come first: they tell whether there are scales of fp8 to load.
  trainer_->set_scalar_state(resume.state.scalars);
  load_checkpoint(config_.load, saved_iteration, trainer_->tensors_to_load(resume.load_optimizer),
                  *staging_, ranks_);
  trainer_->parameters_loaded();
  lr_ = resume.state.lr;
  consumed_valid_samples_ = resume.state.consumed_valid_samples;
  cyclic_ = resume.state.cyclic;
  run_segments_json_ = resume.state.run_segments_json;
  if (config_.load == config_.save) saved_iteration_ = iteration();
  if (!resume.load_optimizer)
    print(fmt::format(" > weights only: iteration {}, fresh optimizer\n", iteration()));
  print(fmt::format("  successfully loaded checkpoint from {} at iteration {}\n", config_.load,
                    saved_iteration) +
        print_timers({{"load-checkpoint", ms_between(start, Clock::now())}}));
}

// A run that was killed after it had cut the logs has steps in none of them.
void TrainLoop::warn_of_lost_steps(const std::string& folder, const LogEnd& end) {
  try {
    const std::optional<LoggedStep> step = find_logged_step(folder, end.iteration);
    const int64_t last = std::max(step ? step->iteration : 0, first_iteration_of_logs(folder));
    if (last >= end.iteration) return;
    print(fmt::format("WARNING: {}: metrics.jsonl lacks the iterations {} to {} of this run\n",
                      folder, last + 1, end.iteration));
  } catch (const std::runtime_error&) {
    // Whatever cannot be read is told when the log is opened.
  }
}

// The last rank writes the logs. The first one reads the manifest, which it will write anew, and
// tells it how.
LogPlan TrainLoop::plan_logs() {
  const std::string folder = config_.run_folder();
  LogPlan plan{.writes_manifest = false};
  if (is_first_rank()) {
    if (!folder.empty())
      plan = config_.skip_train ? plan_logs_of_evaluation(folder) : plan_logs_of_training(folder);
    if (plan.run_id.empty()) plan.run_id = new_run_id();
  }
  const LogEnd end = plan.end.value_or(LogEnd{});
  std::istringstream of_first(
      ranks_
          .all_gather(fmt::format("{} {} {} {}", plan.run_id, plan.end ? 1 : 0, end.iteration,
                                  end.consumed_samples))
          .front());
  bool has_end = false;
  LogEnd shared;
  of_first >> plan.run_id >> has_end >> shared.iteration >> shared.consumed_samples;
  if (has_end) plan.end = shared;
  return plan;
}

// A new run has no logs of its own yet, whoever has written those in its folder.
LogPlan TrainLoop::plan_logs_of_training(const std::string& folder) {
  const LogEnd resumed{iteration(), consumed_samples()};
  const std::optional<SharedLogs> shared =
      resumed.iteration > 0 ? find_shared_logs(folder, run_segments_json_, resumed) : std::nullopt;
  if (!shared) {
    for (const std::string& name : set_logs_aside(folder, resumed.iteration))
      print(fmt::format(
          "WARNING: {}: the log there is of another run, or no run manifest tells whose it is; it is kept as {}\n",
          folder, name));
    return {.run_id = "", .end = resumed};
  }
  warn_of_lost_steps(folder, shared->end);
  if (shared->end.iteration < resumed.iteration) {
    print(fmt::format(
        "WARNING: {}: after iteration {} the logs there are of another way that this run took. "
        "Their later steps are dropped, and iterations {} to {} of this checkpoint are not in them\n",
        folder, shared->end.iteration, shared->end.iteration + 1, resumed.iteration));
  }
  return {.run_id = shared->run_id, .end = shared->end};
}

// An evaluation adds its losses to the logs of the run whose checkpoint it has loaded, and drops
// nothing of them.
LogPlan TrainLoop::plan_logs_of_evaluation(const std::string& folder) const {
  const std::vector<std::string> logs = logs_in(folder);
  if (logs.empty()) return {};
  const LogEnd evaluated{iteration(), consumed_samples()};
  const bool is_own = evaluated.iteration > 0
                          ? find_shared_logs(folder, run_segments_json_, evaluated).has_value()
                          : is_of_untrained_evaluation(folder);
  if (!is_own) {
    throw std::invalid_argument(fmt::format(
        "{} holds {} of another run, to which this evaluation (--skip-train) adds nothing: give another --run-dir",
        folder, logs.front()));
  }
  return {.writes_manifest = false};
}

void TrainLoop::write_manifest(const std::string& run_id) {
  const std::vector<std::string> prefixes = blends_.prefixes();
  run_segments_json_ = write_run_manifest(
      config_.run_folder(), {.config = config_,
                             .device = backend_->description(),
                             .run_id = run_id,
                             .dataset_prefix = prefixes.size() == 1 ? prefixes.front() : "",
                             .cyclic = cyclic_,
                             .data = data_identity(),
                             .unseen = unseen_.get(),
                             .padded_vocabulary_size = trainer_->shape().padded_vocab_size,
                             .num_parameters = trainer_->shape().num_parameters(),
                             .num_iterations = schedule_.num_iterations(),
                             .train_samples = schedule_.num_train_samples(),
                             .valid_samples = sizes_.valid_samples,
                             .test_samples = sizes_.test_samples,
                             .resumed_iteration = iteration(),
                             .resumed_samples = consumed_samples(),
                             .resumed_tokens = position().consumed.tokens,
                             .segments_json = run_segments_json_,
                             .resumed_valid_samples = consumed_valid_samples_,
                             .makes_up_evaluation = makes_up_evaluation_});
}

}  // namespace weft
