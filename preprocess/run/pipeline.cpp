#include "preprocess/run/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/lock_file.h"
#include "preprocess/run/commit_run.h"
#include "preprocess/run/disk_space_check.h"
#include "preprocess/run/pipeline_run.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/web/open_input.h"

namespace weft {

PipelineReport PipelineRun::run() {
  try {
    return config_.ranks.rank == 0 ? lead() : follow();
  } catch (const std::system_error& error) {
    if (!is_lack_of_space(error.code())) throw;
    throw OutOfSpace(error.code(),
                     error.what() + how_to_go_on(folder_.parent_path(), plan_.can_resume()));
  } catch (const RunFailed& failed) {  // of another rank, which says what and where
    if (failed.exit_code != static_cast<int>(ExitCode::kNoSpace)) throw;
    throw RunFailed(failed.exit_code, failed.what() + how_to_go_on(folder_.parent_path(), true));
  }
}

void PipelineRun::plan() {
  plan_ = plan_work(config_.inputs, config_.task_bytes, config_.allow_http);
  if (config_.num_shards > 1) {
    plan_ = shard_of(std::move(plan_), config_.shard_idx, config_.num_shards);
  }
  identity_ = run_identity(config_, type(), plan_.identities);
  report_.run_identity = identity_;
  report_.run_hash = run_hash(identity_);
  report_.identities = plan_.identities;
  report_.launch_id = config_.ranks.launch_id;
  if (config_.ranks.num_ranks > 1 && !plan_.can_resume()) {
    throw std::invalid_argument(
        "several ranks cannot share standard input or a pipe; give files, or start one process");
  }
}

// Ranks other than 0 read, tokenize and write, and know nothing of the whole.
PipelineReport PipelineRun::follow() {
  report_.is_leader = false;
  note_earlier_indexes();
  plan();
  const auto ledger = join();
  if (!ledger) return std::move(report_);
  try {
    RunFiles files(folder_, config_.output_prefixes.size(), type(), /*make=*/false,
                   config_.rules.keeps_origins());
    const RankSettings settings = rank_settings();
    Rank worker(settings, plan_, vocabulary_, files, *ledger);
    worker.run([this] { return stop_requested(); }, [] {});
  } catch (const RankStopped&) {
    throw PipelineStopped{true};
  } catch (const std::exception& error) {
    // One that slept through the end of the run finds nobody, and its files renamed.
    if (others_have_done_all()) {
      note(fmt::format("rank {} has nothing left to do, the others have done its work ({})",
                       config_.ranks.rank, error.what()));
      return std::move(report_);
    }
    const bool is_lost = dynamic_cast<const PeerLost*>(&error) != nullptr;
    if (is_lost && stop_requested()) {  // rank 0 was told first, and has gone
      throw PipelineStopped{true};
    }
    throw;
  }
  return std::move(report_);
}

// For a rank that was in the run: whether all is in the output, as the folder says it.
bool PipelineRun::others_have_done_all() {
  if (is_committing(folder_) || find_finished()) return true;
  const auto work = Journal::read(folder_ / "journal");
  return work && work->identity == identity_ && work->progress.size() == plan_.tasks.size() &&
         std::all_of(work->progress.begin(), work->progress.end(),
                     [](const auto& task) { return task.second.is_done(); });
}

// Rank 0's ledger; null if the dataset is there already.
std::unique_ptr<LedgerClient> PipelineRun::join() {
  WaitingRank waiting;
  waiting.is_finished = [this] { return find_finished(); };
  waiting.is_over = [this] { return is_committing(folder_) || find_finished(); };
  waiting.stop_requested = [this] { return stop_requested(); };
  waiting.check_rank_0_can_begin = [this] {
    if (is_committing(folder_)) return;
    check_outputs_are_free();
    check_work_is_ours(Journal::read(folder_ / "journal"));
  };
  waiting.note = [this](const std::string& text) { note(text); };
  try {
    return join_run(run_ranks(), waiting);
  } catch (const RankStopped&) {
    throw PipelineStopped{true};
  } catch (const ConfigurationDiffers& error) {
    const auto work = Journal::read(folder_ / "journal");
    if (!work) throw;
    const std::string text = difference(work->identity, identity_, "there", "here").text;
    if (text.empty()) throw;
    throw ConfigurationDiffers(std::string(error.what()) + " (" + text + ")");
  }
}

RunRanks PipelineRun::run_ranks() const {
  return {folder_, config_.ranks, report_.run_hash, config_.peer_timeout};
}

PipelineReport PipelineRun::lead() {
  const LockFile lock(work_prefix_.string() + ".lock");
  check_work_folder(folder_);
  if (resume_commit(folder_)) note("finished the commit of an earlier run");
  plan();
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
  const bool is_in_order = config_.num_workers == 1 && config_.ranks.num_ranks == 1;
  const auto lack =
      lack_of_space(folder_.parent_path(), folder_, need_bytes(), is_in_order ? 0 : staged_bytes);
  if (lack) note(*lack);
  std::filesystem::create_directory(folder_);
  sync_folder(folder_.has_parent_path() ? folder_.parent_path() : ".");
  try {
    crash_point("folder_made");
    Ledger restored = restored_ledger(earlier, limits);
    if (events_.on_begin) events_.on_begin(num_file_bytes(plan_), restored.seen());
    LocalLedger local_ledger(std::move(restored), Journal(folder_ / "journal", identity_));
    crash_point("journal_begun");
    RunFiles files(folder_, config_.output_prefixes.size(), type(), /*make=*/true,
                   config_.rules.keeps_origins());
    work(files, local_ledger);
    std::vector<DatasetCounts> totals;
    local_ledger.with_ledger([&](const Ledger& ledger) {
      totals = ledger.end().datasets;
      report_inputs(ledger);
      note_input_parts(ledger);
    });
    check_any_document();
    check_inputs_have_not_changed();
    commit(files, totals);
  } catch (...) {
    if (!plan_.can_resume()) remove_work_folder(folder_);
    throw;
  }
  return std::move(report_);
}

void PipelineRun::work(RunFiles& files, LocalLedger& local_ledger) {
  const RankSettings settings = rank_settings();
  std::optional<RankServer> server;
  if (config_.ranks.num_ranks > 1) {
    server.emplace(run_ranks(), local_ledger, [this](const std::string& text) { note(text); });
  }
  Rank worker(settings, plan_, vocabulary_, files, local_ledger);
  JournalThread journal(local_ledger, 2 * config_.sync_interval);
  try {
    worker.run([this] { return stop_requested(); }, [&] { on_round(local_ledger); });
    if (const auto error = journal.end()) std::rethrow_exception(error);
    local_ledger.write_journal();  // says that all is done to ranks that come too late to be told
    if (server) server->let_all_leave();
  } catch (const RankStopped&) {
    if (server) server->let_all_leave();
    local_ledger.write_journal();
    throw PipelineStopped{plan_.can_resume()};
  } catch (const std::exception& error) {
    local_ledger.fail({static_cast<int>(exit_code_for(error)), error.what(), {}});
    if (server) server->let_all_leave();
    on_round(local_ledger);
    if (const auto journal_error = journal.end()) std::rethrow_exception(journal_error);
    local_ledger.write_journal();
    throw;
  }
  on_round(local_ledger);
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
  return {config_.max_bad_lines,
          config_.ranks.num_ranks,
          config_.max_output_bytes,
          plan_.compressed_inputs(),
          config_.max_staged_bytes >= 0
              ? config_.max_staged_bytes
              : stage_limit_bytes(folder_.parent_path(), folder_, need_bytes()),
          estimated_task_bytes(plan_, type())};
}

std::vector<std::string> PipelineRun::input_names() const {
  std::vector<std::string> names;
  for (const std::string& input : config_.inputs) names.push_back(display_name(input));
  return names;
}

PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events) {
  return PipelineRun(config, std::move(vocabulary), events).run();
}

}  // namespace weft
