// The start of a run, from its options to the first step: locks, model, checkpoint, data. --dry-run
// does the same without a device's memory.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <system_error>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/config/options.h"
#include "trainer/log/banner.h"
#include "trainer/log/log_lines.h"
#include "trainer/log/run_manifest.h"
#include "trainer/train_loop.h"

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

void check_padding(const Config& config, const VocabularySize& vocabulary) {
  const int64_t padded = config.padded_vocab_size(vocabulary.num_tokens);
  if (padded >= vocabulary.num_tokens) return;
  throw std::invalid_argument(
      fmt::format("--pad-vocab-size-to {} is smaller than the vocabulary of {} ({})", padded,
                  vocabulary.num_tokens, vocabulary.source));
}

// Prints lines of the constructor, before there is a RunLog.
void print_to(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

}  // namespace

TrainLoop::TrainLoop(const Config& config, const std::vector<std::string>& notes,
                     Clock::time_point process_start, std::FILE* out)
    : config_(config),
      process_start_(process_start),
      out_(out),
      schedule_(config),
      vocabulary_(find_vocabulary_size(config)),
      lr_(lr_settings(config)) {
  check_padding(config_, vocabulary_);
  lock_folders();
  const DeviceChoice device = choose_device(config_);
  print_to(out_, start_banner(config_, notes, schedule_, vocabulary_));
  backend_ = create_backend(device.kind, config_);
  print_to(out_, fmt::format("> device: {} ({})\n", backend_->description(), device.why));
  // The CPU executes in place, so there is nothing to overlap, and a result that waits is a log
  // line that is late.
  results_in_flight_ = device.kind == DeviceKind::kCuda ? 1 : 0;
  const Clock::time_point initialized = Clock::now();
  print_to(out_, fmt::format("time to initialize megatron (seconds): {:.3f}\n",
                             ms_between(process_start_, initialized) / 1e3) +
                     datetime_line("after megatron is initialized", timestamp_now()));

  load_or_initialize();
  const Clock::time_point model_built = Clock::now();
  print_to(out_, datetime_line("after model, optimizer, and learning rate scheduler are built",
                               timestamp_now()));
  open_data();
  start_loaders();
  print_to(out_,
           datetime_line("after dataloaders are built", timestamp_now()) + "done with setup ...\n" +
               print_timers({{"model-and-optimizer-setup", ms_between(initialized, model_built)},
                             {"train/valid/test-data-iterators-setup",
                              ms_between(model_built, Clock::now())}}));

  if (!config_.run_folder().empty()) write_manifest();
  log_ = std::make_unique<RunLog>(RunLog::Options{.config = config_,
                                                  .shape = trainer_->shape(),
                                                  .device = backend_->description(),
                                                  .num_iterations = schedule_.num_iterations(),
                                                  .resumed_iteration = iteration(),
                                                  .resumed_samples = consumed_samples()},
                                  out_);
}

// Two runs that save into one folder would tear each other's checkpoints and metrics.
void TrainLoop::lock_folders() {
  std::set<std::filesystem::path> folders;
  for (const std::string& folder : {config_.save, config_.run_folder()}) {
    if (folder.empty()) continue;
    std::filesystem::create_directories(folder);
    folders.insert(std::filesystem::canonical(folder));
  }
  for (const std::filesystem::path& folder : folders) {
    try {
      locks_.emplace_back(folder / "weft-train.lock", kLockPatience);
    } catch (const std::system_error& error) {
      // Some parallel file systems are mounted without locks. To train there is worth more than the
      // lock.
      const int code = error.code().value();
      if (code != ENOSYS && code != EOPNOTSUPP && code != ENOLCK) throw;
      print_to(out_,
               fmt::format("WARNING: {}: nothing keeps a second run out of it\n", error.what()));
    }
  }
}

void TrainLoop::warn_of_overwriting() const {
  if (config_.save.empty()) return;
  const std::optional<int64_t> latest = latest_iteration(config_.save);
  if (!latest) return;
  print_to(out_, fmt::format("WARNING: --save {} holds checkpoints, the latest of iteration {}; "
                             "this run loads none of them, starts anew and overwrites them\n",
                             config_.save, *latest));
}

void TrainLoop::load_or_initialize() {
  print_to(out_, "building GPT model ...\n");
  trainer_ = std::make_unique<Trainer>(*backend_, trainer_options(config_, vocabulary_.num_tokens));
  const ParameterTable& parameters = trainer_->parameters();
  print_to(
      out_,
      fmt::format(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): {}\n",
                  parameters.num_parameters()));
  print_to(out_,
           fmt::format(" > weight decay on {} parameters, none on {}\n", parameters.num_decaying(),
                       parameters.num_parameters() - parameters.num_decaying()));
  print_to(out_, fmt::format("> learning rate decay style: {}\n", name_of(lr_.settings().style)));
  const std::optional<int64_t> saved = iteration_to_load(config_);
  std::optional<Resume> resume;
  if (saved)
    resume = plan_resume(read_checkpoint_info(config_.load, *saved), trainer_->shape(), config_);

  check_memory(trainer_->plan(), *backend_);
  trainer_->allocate();
  print_to(out_, trainer_->plan().to_string());
  if (resume) {
    load(*saved, *resume);
  } else {
    if (!config_.load.empty()) {
      print_to(
          out_,
          fmt::format(
              "WARNING: could not find the metadata file {}/latest_checkpointed_iteration.txt \n"
              "    will not load any checkpoints and will start from random\n",
              config_.load));
    }
    warn_of_overwriting();
    trainer_->initialize_parameters();
  }
  lr_consumed_samples_ = consumed_samples();
  first_iteration_ = iteration() + 1;
}

void TrainLoop::load(int64_t saved_iteration, const Resume& resume) {
  const Clock::time_point start = Clock::now();
  print_to(out_, fmt::format(" loading checkpoint from {} at iteration {}\n", config_.load,
                             saved_iteration));
  for (const std::string& warning : resume.warnings) print_to(out_, "WARNING: " + warning + "\n");
  load_checkpoint(config_.load, saved_iteration, trainer_->state_tensors(resume.load_optimizer),
                  *backend_);
  trainer_->parameters_loaded();
  trainer_->set_scalar_state(resume.state.scalars);
  lr_ = resume.state.lr;
  consumed_valid_samples_ = resume.state.consumed_valid_samples;
  if (config_.load == config_.save) saved_iteration_ = iteration();
  if (!resume.load_optimizer)
    print_to(out_, fmt::format(" > weights only: iteration {}, fresh optimizer\n", iteration()));
  print_to(out_, fmt::format("  successfully loaded checkpoint from {} at iteration {}\n",
                             config_.load, saved_iteration) +
                     print_timers({{"load-checkpoint", ms_between(start, Clock::now())}}));
}

void TrainLoop::open_data() {
  print_to(out_, "> building train, validation, and test datasets ...\n");
  sizes_ = target_sizes(config_, schedule_);
  print_to(out_,
           dataset_sizes_lines(sizes_.train_samples, sizes_.valid_samples, sizes_.test_samples));
  datasets_ = build_gpt_datasets(dataset_prefix(config_), config_.split, sizes_, config_.seq_length,
                                 config_.seed);
  const auto samples = [](const std::optional<GptDataset>& dataset) {
    return dataset ? dataset->num_samples() : 0;
  };
  print_to(out_, fmt::format(
                     " > {}: {} documents, {} tokens; samples: train {}, validation {}, test {}\n",
                     dataset_prefix(config_), datasets_.reader->num_documents(),
                     datasets_.reader->num_tokens(), samples(datasets_.train),
                     samples(datasets_.valid), samples(datasets_.test)));
}

void TrainLoop::check_samples_suffice() const {
  int64_t needed = consumed_samples();
  for (int64_t i = iteration(); i < schedule_.num_iterations(); ++i) {
    needed += schedule_.global_batch_size(needed);
    if (!schedule_.ramps_up()) {
      needed += (schedule_.num_iterations() - i - 1) * config_.global_batch();
      break;
    }
  }
  if (needed <= datasets_.train->num_samples()) return;
  throw std::invalid_argument(fmt::format(
      "the run resumes at iteration {} with {} consumed samples and would end at sample {}, "
      "but its training set has {}: "
      "was --global-batch-size changed? Give --train-samples, or the old batch size",
      iteration(), consumed_samples(), needed, datasets_.train->num_samples()));
}

std::unique_ptr<DataLoader> TrainLoop::make_loader(const GptDataset& dataset, int64_t first_sample,
                                                   DataLoader::BatchSizes batch_sizes) {
  DataLoaderOptions options{.micro_batch_size = config_.micro_batch_size,
                            .first_sample = first_sample,
                            .vocab_size = vocabulary_.num_tokens,
                            .num_threads = config_.num_workers};
  if (config_.eod_mask_loss) options.end_of_document_id = vocabulary_.end_of_document_id();
  return std::make_unique<DataLoader>(*backend_, dataset, options, std::move(batch_sizes));
}

void TrainLoop::start_loaders() {
  const int64_t batch = config_.global_batch();
  if (datasets_.train) {
    check_samples_suffice();
    train_loader_ = make_loader(
        *datasets_.train, consumed_samples(),
        {[this](int64_t consumed) { return schedule_.global_batch_size(consumed); }, batch});
  }
  if (datasets_.valid) {
    // A run that resumes with a shorter --eval-interval may need more samples than are left. It
    // then starts again with the first one.
    const int64_t evaluations = schedule_.num_iterations() / config_.eval_interval -
                                iteration() / config_.eval_interval + 1;
    const int64_t needed = consumed_valid_samples_ + evaluations * config_.eval_iters * batch;
    if (needed > datasets_.valid->num_samples()) consumed_valid_samples_ = 0;
    valid_loader_ = make_loader(*datasets_.valid, consumed_valid_samples_,
                                {[batch](int64_t) { return batch; }, batch});
  }
}

void TrainLoop::write_manifest() const {
  write_run_manifest(config_.run_folder(),
                     {.config = config_,
                      .device = backend_->description(),
                      .dataset_prefix = dataset_prefix(config_),
                      .vocabulary_size = vocabulary_.num_tokens,
                      .padded_vocabulary_size = trainer_->shape().padded_vocab_size,
                      .num_parameters = trainer_->parameters().num_parameters(),
                      .vocabulary_source = vocabulary_.source,
                      .num_iterations = schedule_.num_iterations(),
                      .train_samples = schedule_.num_train_samples(),
                      .valid_samples = sizes_.valid_samples,
                      .test_samples = sizes_.test_samples,
                      .resumed_iteration = iteration()});
}

void dry_run(const Config& config, const std::vector<std::string>& notes, std::FILE* out) {
  const BatchSchedule schedule(config);
  const VocabularySize vocabulary = find_vocabulary_size(config);
  check_padding(config, vocabulary);
  const DeviceChoice device = choose_device(config);
  const auto backend = create_backend(device.kind, config);
  const Trainer trainer(*backend, trainer_options(config, vocabulary.num_tokens));
  std::string text = start_banner(config, notes, schedule, vocabulary);
  text += fmt::format("> device: {} ({})\n", backend->description(), device.why);
  text +=
      fmt::format(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): {}\n",
                  trainer.parameters().num_parameters());
  text += trainer.plan().to_string();

  constexpr int64_t kRows = 10;
  text += "    iteration  consumed samples  global batch size  learning rate\n";
  const LrSchedule lr(lr_settings(config));
  const int64_t last = schedule.num_iterations();
  for (int64_t row = 0; row <= kRows; ++row) {
    const int64_t iteration = std::max<int64_t>(1, last * row / kRows);
    const int64_t consumed = schedule.consumed_samples_after(iteration - 1);
    text += fmt::format(" {:12d} {:17d} {:18d} {:14.6E}\n", iteration, consumed,
                        schedule.global_batch_size(consumed), lr.at(consumed));
  }
  const DatasetTargetSizes sizes = target_sizes(config, schedule);
  text += dataset_sizes_lines(sizes.train_samples, sizes.valid_samples, sizes.test_samples);
  const DatasetReader reader(dataset_prefix(config));
  text += fmt::format(" > {}: {} documents, {} tokens\n", dataset_prefix(config),
                      reader.num_documents(), reader.num_tokens());
  print_to(out, text);
  check_memory(trainer.plan(), *backend);
}

}  // namespace weft
