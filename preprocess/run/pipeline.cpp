#include "preprocess/run/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/storage/lock_file.h"
#include "preprocess/ledger/journal.h"
#include "preprocess/ledger/local_ledger.h"
#include "preprocess/run/disk_space_check.h"
#include "preprocess/run/earlier_work.h"
#include "preprocess/run/finish_run.h"
#include "preprocess/run/planned_run.h"
#include "preprocess/run/rank.h"
#include "preprocess/run/run_files.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/run/shared_folder.h"
#include "preprocess/run/work_folder.h"
#include "preprocess/web/open_input.h"

namespace weft {
namespace {

RankSettings rank_settings(const PlannedRun& run) {
  const PipelineConfig& config = run.config;
  RankSettings settings;
  settings.rules = config.rules;
  settings.read_limits = {config.chunk_bytes, config.rules.max_line_bytes, config.max_output_bytes,
                          config.allow_http};
  settings.num_workers = config.num_workers;
  settings.long_line_bytes = std::max(config.long_line_bytes, 2 * config.chunk_bytes);
  settings.max_held_bytes = config.max_held_bytes_per_worker * config.num_workers;
  settings.sync_interval = config.sync_interval;
  settings.windows = config.windows.value_or(window_sizes_for(config.num_workers));
  settings.on_first_window_wait = [&run, total = settings.windows.total](int64_t bytes) {
    run.note(
        fmt::format("note: inputs wait for each other: some need a window of {} MiB to be "
                    "decompressed, and at a time all may take {} MiB; --decoder-memory gives them "
                    "more",
                    bytes >> 20, total >> 20));
  };
  return settings;
}

Ledger::Limits ledger_limits(const PlannedRun& run) {
  const PipelineConfig& config = run.config;
  std::vector<std::string> paths;
  for (size_t k = 0; k < config.output_prefixes.size(); ++k) {
    paths.push_back(RunFiles::path_in(run.folder, k, ""));
  }
  return {config.max_bad_lines,
          config.num_ranks(),
          config.max_output_bytes,
          run.plan.compressed_inputs(),
          config.max_spilled_bytes >= 0
              ? config.max_spilled_bytes
              : spill_limit_bytes(run.folder.parent_path(), run.folder, run.need_bytes()),
          estimated_task_bytes(run.plan, run.type),
          WrittenFiles{paths, run.type, config.rules.keeps_origins()}};
}

void warn_of_lack_of_space(const PlannedRun& run, const Ledger::Limits& limits) {
  const bool is_in_order = run.config.num_workers == 1 && run.config.num_ranks() == 1;
  const int64_t spilled_bytes =
      is_in_order ? 0 : most_spilled_bytes(limits.output_bytes, limits.max_spill_bytes);
  const auto lack =
      lack_of_space(run.folder.parent_path(), run.folder, run.need_bytes(), spilled_bytes);
  if (lack) run.note(*lack);
}

RunFiles open_files(const PlannedRun& run, bool make) {
  return {run.folder, run.config.output_prefixes.size(), run.type, make,
          run.config.rules.keeps_origins()};
}

void compare_ranks(const PlannedRun& run) {
  if (!run.config.ranks) return;
  const auto differs = [](const std::string& rank_0, const std::string& other) {
    return difference(rank_0, other, "rank 0 has", "that rank has").text;
  };
  run.config.ranks->compare(rank_identity(run.config, run.identity), differs,
                            [&run] { return run.stop_requested(); });
}

// Tells the caller of the pipeline how far the ledger is.
class Progress {
 public:
  Progress(const PlannedRun& run, LocalLedger& ledger, PipelineReport& report)
      : run_(run), ledger_(ledger), report_(report) {}

  void tell() {
    PipelineTotals seen;
    std::vector<BadLine> bad_lines;
    int64_t num_begun = 0;
    ledger_.with_ledger([&](Ledger& ledger) {
      seen = ledger.seen();
      bad_lines = ledger.take_bad_lines();
      const int64_t handed_out = ledger.num_tasks_handed_out();
      if (handed_out > 0)
        num_begun = ledger.tasks()[static_cast<size_t>(handed_out - 1)].input_idx + 1;
    });
    const PipelineEvents& events = run_.events;
    for (; num_inputs_begun_ < num_begun; ++num_inputs_begun_) {
      if (!events.on_input) continue;
      events.on_input(display_name(run_.config.inputs[static_cast<size_t>(num_inputs_begun_)]));
    }
    for (BadLine& bad_line : bad_lines) {
      if (events.on_bad_line) events.on_bad_line(bad_line);
      report_.shown_bad_lines.push_back(std::move(bad_line));
    }
    if (events.on_progress) events.on_progress(seen);
  }

 private:
  const PlannedRun& run_;
  LocalLedger& ledger_;
  PipelineReport& report_;
  int64_t num_inputs_begun_ = 0;
};

// Ends the work of all ranks with a failure. The others tell what they have written before the
// journal is closed.
void end_work_of_all(const PlannedRun& run, LocalLedger& ledger, RunFailure failure) {
  ledger.fail(failure);
  if (!run.config.ranks) return;
  run.config.ranks->fail(std::move(failure));
  run.config.ranks->wait_for_others();
}

// Until all tasks are at their places, and the last passes over them are done.
void work(const PlannedRun& run, std::shared_ptr<const Vocabulary> vocabulary, RunFiles& files,
          const std::shared_ptr<LocalLedger>& ledger, PipelineReport& report) {
  RunRanks* const ranks = run.config.ranks;
  const RankSettings settings = rank_settings(run);
  Rank rank(settings, run.plan, std::move(vocabulary), files, *ledger);
  JournalThread journal(*ledger, 2 * run.config.sync_interval);
  Progress progress(run, *ledger, report);
  bool has_begun_last_passes = false;
  try {
    if (ranks) ranks->serve(ledger, publish_work_folder(run));
    rank.run([&run] { return run.stop_requested(); },
             [&] {
               progress.tell();
               if (has_begun_last_passes || run.stop_requested()) return;
               has_begun_last_passes = begin_last_passes(run, files, *ledger, report);
             });
    if (const auto error = journal.end()) std::rethrow_exception(error);
    ledger->write_journal();
    if (ranks) ranks->wait_for_others();
    if (ranks) ranks->throw_if_failed();
  } catch (const RankStopped&) {
    end_work_of_all(run, *ledger,
                    {static_cast<int>(ExitCode::kStoppedOnRequest), "stopped on request", {}});
    ledger->write_journal();
    throw PipelineStopped{run.plan.can_resume()};
  } catch (const std::exception& error) {
    end_work_of_all(run, *ledger, {static_cast<int>(exit_code_for(error)), error.what(), {}});
    progress.tell();
    if (const auto journal_error = journal.end()) std::rethrow_exception(journal_error);
    ledger->write_journal();
    throw;
  }
  progress.tell();
}

// Rank 0 has the ledger, and makes, prepares and commits the files.
void lead(PlannedRun& run, std::shared_ptr<const Vocabulary> vocabulary, PipelineReport& report) {
  const LockFile lock(run.work_prefix.string() + ".lock");
  check_work_folder(run.folder);
  run.look_at_inputs();
  report.run_identity = run.identity;
  report.run_hash = run.hash;
  report.identities = run.plan.identities;
  compare_ranks(run);
  resume_commit(run);
  if (auto finished = find_finished(run)) {
    report.outputs = std::move(*finished);
    report.was_there = true;
    // The rest that a crash behind the commit left goes; the work of a run with other options stays.
    const auto left = Journal::read(run.folder / "journal");
    if (!left || left->identity == run.journal_identity) remove_work_folder(run.folder);
    return;
  }
  check_outputs_are_free(run);
  const auto earlier = find_work(run);
  const Ledger::Limits limits = ledger_limits(run);
  warn_of_lack_of_space(run, limits);
  try {
    make_work_folder(run.folder);
    Ledger restored = restored_ledger(run, earlier, limits);
    if (run.events.on_begin) run.events.on_begin(num_file_bytes(run.plan), restored.seen());
    const auto ledger = std::make_shared<LocalLedger>(
        std::move(restored), Journal(run.folder / "journal", run.journal_identity));
    crash_point("journal_begun");
    RunFiles files = open_files(run, /*make=*/true);
    work(run, std::move(vocabulary), files, ledger, report);
    commit_datasets(run, files, *ledger, report);
  } catch (const PipelineStopped&) {
    if (!run.plan.can_resume()) try_remove_work_folder(run.folder);
    throw;
  } catch (...) {
    if (!is_work_of_use(run)) try_remove_work_folder(run.folder);
    throw;
  }
}

// The other ranks read, tokenize and write, and know nothing of the whole.
void follow(PlannedRun& run, std::shared_ptr<const Vocabulary> vocabulary) {
  RunRanks& ranks = *run.config.ranks;
  const auto stop_requested = [&run] { return run.stop_requested(); };
  run.look_at_inputs();
  const auto word = ranks.wait_for_work(rank_identity(run.config, run.identity), stop_requested);
  if (!word) return;
  check_sees_work_folder(run, *word);
  check_work_folder(run.folder);
  RunFiles files = open_files(run, /*make=*/false);
  const RankSettings settings = rank_settings(run);
  Rank(settings, run.plan, std::move(vocabulary), files, ranks).run(stop_requested, [] {});
}

}  // namespace

PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events) {
  PlannedRun run(config, events, *vocabulary);
  PipelineReport report;
  report.is_leader = config.rank() == 0;
  try {
    check_file_system(run);
    if (report.is_leader) {
      lead(run, std::move(vocabulary), report);
    } else {
      follow(run, std::move(vocabulary));
    }
  } catch (const std::system_error& error) {
    if (!is_lack_of_space(error.code())) throw;
    throw OutOfSpace(error.code(),
                     error.what() + how_to_go_on(run.folder.parent_path(), run.plan.can_resume()));
  } catch (const RankStopped&) {
    throw PipelineStopped{true};
  } catch (const RunFailed& failed) {  // of another rank, which says what and where
    if (failed.exit_code == static_cast<int>(ExitCode::kStoppedOnRequest)) {
      throw PipelineStopped{true};
    }
    if (failed.exit_code != static_cast<int>(ExitCode::kNoSpace)) throw;
    throw RunFailed(failed.exit_code, failed.what() + how_to_go_on(run.folder.parent_path(), true));
  }
  return report;
}

}  // namespace weft
