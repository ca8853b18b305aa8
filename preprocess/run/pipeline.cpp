#include "preprocess/run/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/file_system.h"
#include "indexed_dataset/storage/lock_file.h"
#include "preprocess/datasets/output_conflicts.h"
#include "preprocess/run/commit_run.h"
#include "preprocess/run/disk_space_check.h"
#include "preprocess/run/pipeline_run.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/web/open_input.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// In the work folder: tells whether another rank sees the same one.
constexpr char kRanksFileName[] = "ranks";
constexpr std::chrono::seconds kFileIsSeenWithin{10};

}  // namespace

PipelineReport PipelineRun::run() {
  try {
    check_file_system();
    return config_.rank() == 0 ? lead() : follow();
  } catch (const std::system_error& error) {
    if (!is_lack_of_space(error.code())) throw;
    throw OutOfSpace(error.code(),
                     error.what() + how_to_go_on(folder_.parent_path(), plan_.can_resume()));
  } catch (const RankStopped&) {
    throw PipelineStopped{true};
  } catch (const RunFailed& failed) {  // of another rank, which says what and where
    if (failed.exit_code == static_cast<int>(ExitCode::kStoppedOnRequest)) {
      throw PipelineStopped{true};
    }
    if (failed.exit_code != static_cast<int>(ExitCode::kNoSpace)) throw;
    throw RunFailed(failed.exit_code, failed.what() + how_to_go_on(folder_.parent_path(), true));
  }
}

void PipelineRun::plan() {
  plan_ = plan_work(config_.inputs, config_.task_bytes, config_.allow_http);
  if (config_.num_shards > 1) {
    plan_ = shard_of(std::move(plan_), config_.shard_idx, config_.num_shards);
  }
  identity_ = run_identity(config_, type(), plan_.identities, IdentityFor::kJournal);
  report_.run_identity = run_identity(config_, type(), plan_.identities);
  report_.run_hash = run_hash(report_.run_identity);
  report_.identities = plan_.identities;
  if (config_.num_ranks() > 1 && !plan_.can_resume()) {
    throw std::invalid_argument(
        "several ranks cannot share standard input or a pipe; give files, or start one process");
  }
}

// Bytes that a neighbour's page wrote over would be lost without a word.
void PipelineRun::check_file_system() const {
  if (config_.num_ranks() == 1 || config_.allow_incoherent_file_system) return;
  const std::filesystem::path folder = folder_of(folder_);
  const auto name = incoherent_file_system(folder);
  if (!name) return;
  throw std::invalid_argument(
      "'" + folder.string() + "' is on " + *name +
      ", where computers that write to one file can overwrite each other's bytes unnoticed; give "
      "each process a part of the work with --shard I/N and put the parts together with weft-data "
      "merge, or write to Lustre, GPFS, BeeGFS, CephFS or a local disk. If all ranks run on one "
      "computer, --allow-incoherent-file-system is safe");
}

// Ranks other than 0 read, tokenize and write, and know nothing of the whole.
PipelineReport PipelineRun::follow() {
  report_.is_leader = false;
  plan();
  const auto word = config_.ranks->wait_for_work(rank_identity(config_, report_.run_identity),
                                                 [this] { return stop_requested(); });
  if (!word) return std::move(report_);
  check_sees_work_folder(*word);
  check_work_folder(folder_);
  RunFiles files(folder_, config_.output_prefixes.size(), type(), /*make=*/false,
                 config_.rules.keeps_origins());
  const RankSettings settings = rank_settings();
  Rank worker(settings, plan_, vocabulary_, files, *config_.ranks);
  worker.run([this] { return stop_requested(); }, [] {});
  return std::move(report_);
}

void PipelineRun::compare_ranks() const {
  if (!config_.ranks) return;
  const auto differs = [](const std::string& rank_0, const std::string& other) {
    return difference(rank_0, other, "rank 0 has", "that rank has").text;
  };
  config_.ranks->compare(rank_identity(config_, report_.run_identity), differs,
                         [this] { return stop_requested(); });
}

// Ranks that write to different files of one name, each on its own disk, would go unnoticed: what
// rank 0 writes here is what the others must read. Returns it.
std::string PipelineRun::publish_work_folder() const {
  std::random_device random;
  const std::string word = fmt::format("{:08x}{:08x}", random(), random());
  write_file_atomically(folder_ / kRanksFileName, word);
  return word;
}

void PipelineRun::check_sees_work_folder(const std::string& word) const {
  const fs::path path = folder_ / kRanksFileName;
  // Clients of shared file systems may know for some seconds that a new file is not there.
  const auto deadline = std::chrono::steady_clock::now() + kFileIsSeenWithin;
  while (!fs::exists(path) || read_file(path) != word) {
    if (stop_requested()) throw PipelineStopped{true};
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::invalid_argument(
          "'" + folder_.string() + "' is not the folder of that name of " +
          config_.ranks->name_of(0) +
          "; give an --output-prefix on a file system that all ranks share");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

PipelineReport PipelineRun::lead() {
  const LockFile lock(work_prefix_.string() + ".lock");
  check_work_folder(folder_);
  plan();
  compare_ranks();
  resume_commit();
  if (find_finished()) {
    // What a crash behind the commit left goes, the work of a run with other options stays.
    const auto left = Journal::read(folder_ / "journal");
    if (!left || left->identity == identity_) remove_work_folder(folder_);
    return std::move(report_);
  }
  check_outputs_are_free();
  const auto earlier = find_work();
  const Ledger::Limits limits = ledger_limits();
  const int64_t staged_bytes = most_staged_bytes(limits.output_bytes, limits.max_stage_bytes);
  const bool is_in_order = config_.num_workers == 1 && config_.num_ranks() == 1;
  const auto lack =
      lack_of_space(folder_.parent_path(), folder_, need_bytes(), is_in_order ? 0 : staged_bytes);
  if (lack) note(*lack);
  try {
    make_work_folder(folder_);
    Ledger restored = restored_ledger(earlier, limits);
    if (events_.on_begin) events_.on_begin(num_file_bytes(plan_), restored.seen());
    const auto local_ledger =
        std::make_shared<LocalLedger>(std::move(restored), Journal(folder_ / "journal", identity_));
    crash_point("journal_begun");
    RunFiles files(folder_, config_.output_prefixes.size(), type(), /*make=*/true,
                   config_.rules.keeps_origins());
    work(files, local_ledger);
    commit(files, *local_ledger);
  } catch (const PipelineStopped&) {
    if (!plan_.can_resume()) try_remove_work_folder(folder_);
    throw;
  } catch (...) {
    if (!is_work_of_use()) try_remove_work_folder(folder_);
    throw;
  }
  return std::move(report_);
}

void PipelineRun::work(RunFiles& files, const std::shared_ptr<LocalLedger>& local_ledger) {
  const RankSettings settings = rank_settings();
  Rank worker(settings, plan_, vocabulary_, files, *local_ledger);
  JournalThread journal(*local_ledger, 2 * config_.sync_interval);
  try {
    if (config_.ranks) config_.ranks->serve(local_ledger, publish_work_folder());
    worker.run([this] { return stop_requested(); },
               [&] {
                 on_round(*local_ledger);
                 complete_last_passes(files, *local_ledger);
               });
    if (const auto error = journal.end()) std::rethrow_exception(error);
    local_ledger->write_journal();
    if (config_.ranks) config_.ranks->wait_for_others();
    if (config_.ranks) config_.ranks->throw_if_failed();
  } catch (const RankStopped&) {
    end_work_of_all(*local_ledger,
                    {static_cast<int>(ExitCode::kStoppedOnRequest), "stopped on request", {}});
    local_ledger->write_journal();
    throw PipelineStopped{plan_.can_resume()};
  } catch (const std::exception& error) {
    end_work_of_all(*local_ledger, {static_cast<int>(exit_code_for(error)), error.what(), {}});
    on_round(*local_ledger);
    if (const auto journal_error = journal.end()) std::rethrow_exception(journal_error);
    local_ledger->write_journal();
    throw;
  }
  on_round(*local_ledger);
}

// Lets the other ranks tell what they have written before the journal is closed.
void PipelineRun::end_work_of_all(LocalLedger& local_ledger, RunFailure failure) {
  local_ledger.fail(failure);
  if (!config_.ranks) return;
  config_.ranks->fail(std::move(failure));
  config_.ranks->wait_for_others();
}

void PipelineRun::on_round(LocalLedger& local_ledger) {
  PipelineTotals seen;
  std::vector<BadLine> bad_lines;
  int64_t num_begun = 0;
  local_ledger.with_ledger([&](Ledger& ledger) {
    seen = ledger.seen();
    bad_lines = ledger.take_bad_lines();
    const int64_t handed_out = ledger.num_tasks_handed_out();
    if (handed_out > 0)
      num_begun = ledger.tasks()[static_cast<size_t>(handed_out - 1)].input_idx + 1;
  });
  for (; num_inputs_begun_ < num_begun; ++num_inputs_begun_) {
    if (!events_.on_input) continue;
    events_.on_input(display_name(config_.inputs[static_cast<size_t>(num_inputs_begun_)]));
  }
  for (BadLine& bad_line : bad_lines) {
    if (events_.on_bad_line) events_.on_bad_line(bad_line);
    report_.shown_bad_lines.push_back(std::move(bad_line));
  }
  if (events_.on_progress) events_.on_progress(seen);
}

RankSettings PipelineRun::rank_settings() const {
  RankSettings settings;
  settings.rules = config_.rules;
  settings.read_limits = {config_.chunk_bytes, config_.rules.max_line_bytes,
                          config_.max_output_bytes, config_.allow_http};
  settings.num_workers = config_.num_workers;
  settings.long_line_bytes = std::max(config_.long_line_bytes, 2 * config_.chunk_bytes);
  settings.max_held_bytes = config_.max_held_bytes_per_worker * config_.num_workers;
  settings.sync_interval = config_.sync_interval;
  settings.windows = config_.windows.value_or(window_sizes_for(config_.num_workers));
  settings.on_first_window_wait = [this, total = settings.windows.total](int64_t bytes) {
    note(
        fmt::format("note: inputs wait for each other: some need a window of {} MiB to be "
                    "decompressed, and at a time all may take {} MiB; --decoder-memory gives them "
                    "more",
                    bytes >> 20, total >> 20));
  };
  return settings;
}

int64_t PipelineRun::need_bytes() const {
  return estimated_output_bytes(plan_, type(), config_.rules.keeps_origins());
}

Ledger::Limits PipelineRun::ledger_limits() const {
  std::vector<std::string> paths;
  for (size_t k = 0; k < config_.output_prefixes.size(); ++k) {
    paths.push_back(RunFiles::path_in(folder_, k, ""));
  }
  return {config_.max_bad_lines,
          config_.num_ranks(),
          config_.max_output_bytes,
          plan_.compressed_inputs(),
          config_.max_staged_bytes >= 0
              ? config_.max_staged_bytes
              : stage_limit_bytes(folder_.parent_path(), folder_, need_bytes()),
          estimated_task_bytes(plan_, type()),
          WrittenFiles{paths, type(), config_.rules.keeps_origins()}};
}

std::vector<std::string> PipelineRun::input_names() const {
  std::vector<std::string> names;
  for (const std::string& input : config_.inputs) names.push_back(input_name(input));
  return names;
}

PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events) {
  return PipelineRun(config, std::move(vocabulary), events).run();
}

}  // namespace weft
