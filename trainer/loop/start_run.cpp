// The start of a run, from its options to the first step.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "indexed_dataset/order/blends/blend_json.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/command_line/option_text.h"
#include "trainer/log/banner.h"
#include "trainer/log/log_lines.h"
#include "trainer/log/run_starts.h"
#include "trainer/loop/live_model.h"
#include "trainer/loop/run.h"
#include "trainer/plan/limits.h"
#include "trainer/profile/profiling_backend.h"
#include "trainer/ranks/agreement.h"

namespace weft {

namespace {

// This is longer than the kernel takes to end a killed process that holds a GPU's memory, so that a
// run that is restarted at once does not meet the lock of its predecessor.
constexpr std::chrono::seconds kLockPatience{10};

void create_folder(const char* flag, const std::string& folder) {
  if (folder.empty()) return;
  try {
    std::filesystem::create_directories(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    throw std::system_error(error.code(),
                            fmt::format("{} {}: cannot create this folder", flag, folder));
  }
}

// Two runs that save into one folder would tear each other's checkpoints and metrics. The first
// rank locks, as it writes for all.
std::deque<LockFile> lock_folders(const RunStart& start) {
  std::deque<LockFile> locks;
  if (!start.is_first_rank()) return locks;
  std::set<std::filesystem::path> folders;
  create_folder("--tensorboard-dir", start.config.tensorboard_dir);
  for (const auto& [flag, folder] :
       {std::pair{"--save", start.config.save}, {"--run-dir", start.config.run_folder()}}) {
    create_folder(flag, folder);
    if (!folder.empty()) folders.insert(std::filesystem::canonical(folder));
  }
  for (const std::filesystem::path& folder : folders) {
    try {
      locks.emplace_back(folder / "weft-train.lock", kLockPatience);
    } catch (const std::system_error& error) {
      // Some parallel file systems are mounted without locks. To train there is worth more than the
      // lock.
      const int code = error.code().value();
      if (code != ENOSYS && code != EOPNOTSUPP && code != ENOLCK) throw;
      start.print(fmt::format("WARNING: {}: nothing keeps a second run out of it\n", error.what()));
    }
  }
  return locks;
}

// Everything that decides what a rank computes.
Facts facts_of(const Config& config, const RunInputs& inputs) {
  Facts facts;
  for (const auto& [name, value] : resolved_options(config)) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    facts.emplace_back(flag, value);
  }
  facts.emplace_back("the program's checksum", program_checksum());
  facts.emplace_back("the file of --unsee", inputs.unseen ? inputs.unseen->sha256() : "");
  const RunVocabulary& vocabulary = inputs.vocabulary;
  facts.emplace_back("the vocabulary",
                     fmt::format("{} tokens, {} ends documents {}", vocabulary.num_tokens,
                                 vocabulary.end_of_document, id_of(vocabulary.tokenizer)));
  facts.emplace_back("the blends of the datasets",
                     to_json(inputs.blends)
                         .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  for (const DatasetIdentity& dataset : inputs.data_watch.identities())
    facts.emplace_back("the dataset " + dataset.prefix, describe(dataset));
  return facts;
}

// The first rank writes for all: it clears up before the others look.
std::optional<CheckpointChoice> choose_checkpoint_of_all_ranks(const RunStart& start) {
  const Config& config = start.config;
  if (start.is_first_rank() && loads_from_its_save_folder(config)) remove_leftovers(config.save);
  start.ranks.all_gather("");
  const std::optional<CheckpointChoice> checkpoint = checkpoint_to_load(config);
  const std::string iteration = checkpoint ? std::to_string(checkpoint->iteration) : "none";
  check_ranks_agree(start.ranks, {{"the iteration of the checkpoint in --load", iteration}});
  if (start.is_first_rank()) check_save_folder(config, checkpoint.has_value());
  return checkpoint;
}

}  // namespace

void RunStart::print(const std::string& text) const {
  if (!is_first_rank()) return;
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

RunDevice open_device(const RunStart& start, const DeviceChoice& choice, const RunInputs& inputs) {
  const Config& config = start.config;
  const bool is_gpu = choice.kind == DeviceKind::kCuda;
  RunDevice device{.backend = create_backend(choice.kind, local_rank(start.ranks)),
                   .results_in_flight = is_gpu ? size_t{1} : 0};
  if (config.profiled_steps()) {
    auto wrapper = std::make_unique<ProfilingBackend>(std::move(device.backend));
    device.profiled = wrapper.get();
    device.backend = std::move(wrapper);
  }
  if (config.optimizer_offload && !is_gpu)
    start.print("WARNING: --optimizer-offload has no effect: a CPU has the host's memory alone\n");
  const std::string description = device.backend->description();
  check_ranks_agree(start.ranks, {{"the device", is_gpu ? description : "a CPU"}});
  std::string where;
  const ModelShape shape = model_shape(config, inputs.vocabulary.num_tokens);
  const Topology topology = topology_of(config, shape);
  device.groups = create_groups(topology, config, start.ranks, *device.backend, where);
  if (device.profiled)
    device.groups = with_profile(std::move(device.groups), device.profiled->recorder());
  start.print(where + fmt::format("> device: {} ({})\n", description, choice.why));
  if (is_gpu) start.print(attention_line(shape, topology));
  return device;
}

Run start_run(const RunStart& start, const std::vector<std::string>& notes) {
  using Clock = RunStart::Clock;
  const Config& config = start.config;
  BatchSchedule schedule(config);
  RunVocabulary vocabulary = find_run_vocabulary(config);
  SplitBlends blends = resolve_data_paths(config.paths);
  DataWatch data_watch(blends.prefixes());
  RunInputs inputs{std::move(vocabulary), std::move(blends), std::move(data_watch),
                   read_unseen_documents(config)};
  check_padding(config, inputs.vocabulary);
  RunTexts texts = read_run_texts(config, inputs.vocabulary);
  const std::string doubt =
      start.is_first_rank() ? check_document_ends(config, inputs.vocabulary) : std::string();
  check_threads(
      plan_loaders(config, schedule.largest_global_batch_size(), target_sizes(config, schedule))
          .num_threads(config.num_workers));
  // This comes first: the folder of a live run gets no failure.json of this one.
  std::deque<LockFile> locks = lock_folders(start);
  if (!config.run_folder().empty()) start.ranks.set_failure_folder(config.run_folder());
  check_ranks_agree(start.ranks, facts_of(config, inputs));
  const std::optional<CheckpointChoice> checkpoint = choose_checkpoint_of_all_ranks(start);
  if (start.is_first_rank() && !config.run_folder().empty() && !config.skip_train) {
    start.print(begin_start(config.run_folder(),
                            loads_from_its_save_folder(config) && !config.finetune,
                            checkpoint ? checkpoint->iteration : 0));
  }
  const DeviceChoice choice = choose_device(config.device);
  // A terminal shows what is worth reading; a log is searched for the rest.
  const bool shows_all = config.verbose || isatty(fileno(start.out)) == 0;
  start.print(start_banner(config, notes, schedule, inputs.vocabulary, shows_all));
  if (!doubt.empty()) start.print("WARNING: " + doubt + "\n");
  auto device = std::make_unique<RunDevice>(open_device(start, choice, inputs));
  const Clock::time_point initialized = Clock::now();
  start.print(fmt::format("time to initialize megatron (seconds): {:.3f}\n",
                          ms_between(start.process_start, initialized) / 1e3) +
              datetime_line("after megatron is initialized", timestamp_now()));

  RunModel model = build_model(start, inputs, checkpoint, *device, schedule);
  RunProfile profile = start_profile(start, model.iteration(), schedule.num_iterations(), *device);
  const Clock::time_point model_built = Clock::now();
  start.print(datetime_line("after model, optimizer, and learning rate scheduler are built",
                            timestamp_now()));

  std::unique_ptr<RunData> data = open_data(start, inputs, schedule, *device, model);
  const Timer timers[] = {
      {"model-and-optimizer-setup", ms_between(initialized, model_built)},
      {"train/valid/test-data-iterators-setup", ms_between(model_built, Clock::now())}};
  start.print(datetime_line("after dataloaders are built", timestamp_now()) +
              "done with setup ...\n" + timer_line(LogFormat::kMegatron2021, timers));

  Run run{start,
          std::move(inputs),
          std::move(texts),
          std::move(schedule),
          std::move(locks),
          std::move(device),
          std::move(model),
          std::move(profile),
          std::move(data)};
  run.log = open_log(run);
  return run;
}

}  // namespace weft
