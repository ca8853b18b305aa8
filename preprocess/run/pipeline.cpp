#include "preprocess/run/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "indexed_dataset/format/sidecars/dataset_locks.h"
#include "preprocess/ledger/journal.h"
#include "preprocess/ledger/local_ledger.h"
#include "preprocess/rank/rank.h"
#include "preprocess/rank/run_files.h"
#include "preprocess/rank/spill_file.h"
#include "preprocess/run/disk_space_check.h"
#include "preprocess/run/earlier_work.h"
#include "preprocess/run/finish_run.h"
#include "preprocess/run/planned_run.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/run/work_folder.h"

namespace weft {
namespace {

Ledger::Limits ledger_limits(const PlannedRun& run) {
  const PipelineConfig& config = run.config;
  std::vector<std::string> paths;
  for (size_t k = 0; k < config.output_prefixes.size(); ++k) {
    paths.push_back(RunFiles::path_in(run.folder, k, ""));
  }
  std::vector<DocumentUnit> units;
  for (const bool has_rows : run.plan.inputs_with_rows()) {
    units.push_back(has_rows                                    ? DocumentUnit::kRow
                    : config.rules.split_at() == SplitAt::kLine ? DocumentUnit::kLine
                                                                : DocumentUnit::kText);
  }
  return {config.max_bad_lines,
          config.num_ranks(),
          config.max_output_bytes,
          run.plan.compressed_inputs(),
          config.max_spilled_bytes >= 0 ? config.max_spilled_bytes
                                        : spill_limit_bytes(run.folder, run.need_bytes()),
          estimated_task_bytes(run.plan, run.type),
          WrittenFiles{paths, run.type, config.rules.keeps_origins()},
          units};
}

void warn_of_lack_of_space(const PlannedRun& run, const Ledger::Limits& limits) {
  const bool is_in_order = run.config.num_workers == 1 && run.config.num_ranks() == 1;
  const int64_t spilled_bytes =
      is_in_order ? 0 : most_spilled_bytes(limits.output_bytes, limits.max_spill_bytes);
  const auto lack = lack_of_space(run.folder, run.need_bytes(), spilled_bytes);
  if (lack) run.events.on_note(*lack);
}

RunFiles open_files(const PlannedRun& run, bool make) {
  return {run.folder, run.config.output_prefixes.size(), run.type, make,
          run.config.rules.keeps_origins()};
}

void compare_ranks(const PlannedRun& run) {
  if (!run.config.ranks) return;
  const auto differs = [](const std::string& rank_0, const std::string& other) {
    return difference(rank_0, other, Compared::kRanks).text;
  };
  run.config.ranks->compare(rank_identity(run.config, run.identity), differs,
                            run.events.stop_requested);
}

// Reports to the caller of the pipeline how far the run is.
void report_progress(const PlannedRun& run, LocalLedger& ledger, int64_t& num_inputs_begun,
                     PipelineReport& report) {
  PipelineTotals seen;
  std::vector<BadLine> bad_lines;
  int64_t num_begun = 0;
  LastPasses::BytesRead read_back;
  ledger.with_ledger([&](Ledger& books) {
    seen = books.seen();
    read_back = books.last_passes().bytes_read();
    bad_lines = books.take_bad_lines();
    const auto handed_out = static_cast<size_t>(books.num_tasks_handed_out());
    if (handed_out > 0) num_begun = books.tasks()[handed_out - 1].input_idx + 1;
  });
  for (; num_inputs_begun < num_begun; ++num_inputs_begun) {
    run.events.on_input(run.plan.inputs[static_cast<size_t>(num_inputs_begun)]->name());
  }
  for (BadLine& bad_line : bad_lines) {
    run.events.on_bad_line(bad_line);
    report.shown_bad_lines.push_back(std::move(bad_line));
  }
  run.events.on_progress(seen);
  if (read_back.all > 0) run.events.on_read_back(read_back.done, read_back.all);
}

// Closes the journal of a run that fails. What cannot be written there is a note beside its error.
void close_journal_of_failure(const PlannedRun& run, LocalLedger& ledger) {
  const std::string why = ledger.close_journal_after_failure();
  if (why.empty()) return;
  run.events.on_note("the journal of the work could not be written to its end (" + why +
                     "): the same command does again what it does not know of");
}

// Returns when all tasks are in the output and the last passes over them are done. If that fails,
// the other ranks say what they have written before the journal is closed.
void work(const PlannedRun& run, std::shared_ptr<const Vocabulary> vocabulary, RunFiles& files,
          const std::shared_ptr<LocalLedger>& ledger, PipelineReport& report) {
  RunRanks* const ranks = run.config.ranks;
  Rank rank(run.config, run.plan, std::move(vocabulary), files, *ledger);
  int64_t num_inputs_begun = 0;
  const auto report_now = [&] { report_progress(run, *ledger, num_inputs_begun, report); };
  bool has_begun_last_passes = false;
  // Before serve() an error reaches the other ranks through RunRanks::end().
  const std::string token = ranks ? publish_work_folder(run.folder) : "";
  ledger->keep_journal(2 * run.config.sync_interval);
  try {
    if (ranks) ranks->serve(ledger, token);
    rank.run(run.events.stop_requested, [&] {
      report_now();
      if (has_begun_last_passes || run.events.stop_requested()) return;
      has_begun_last_passes = begin_last_passes(run, files, *ledger, report);
    });
    ledger->close_journal();
    if (ranks) ranks->end_work();
  } catch (const RankStopped&) {
    if (ranks) ranks->end_work(stopped_on_request());
    ledger->close_journal();
    throw;
  } catch (const std::exception& error) {
    if (ranks) ranks->end_work(failure_of(error));
    report_now();
    close_journal_of_failure(run, *ledger);
    throw;
  }
  report_now();
}

// Rank 0 has the ledger, and makes, prepares and commits the files.
void lead(PlannedRun& run, std::shared_ptr<const Vocabulary> vocabulary, PipelineReport& report) {
  const LockFile lock(run.lock_path());
  check_work_folder(run.folder);
  run.look_at_inputs();
  report.run_identity = run.identity;
  report.run_hash = run.hash;
  compare_ranks(run);
  {
    const DatasetLocks datasets(run.config.output_prefixes, run.lock_path());
    resume_earlier_commit(run);
    if (auto finished = find_finished(run)) {
      report.outputs = std::move(*finished);
      report.was_there = true;
      // The rest that a crash behind the commit left goes; the work of a run with other options
      // stays.
      const auto left = Journal::read(run.folder / "journal");
      if (!left || left->identity == run.journal_identity) remove_work_folder(run.folder);
      return;
    }
    check_outputs_are_free(run);
  }
  const auto earlier = find_work(run);
  const Ledger::Limits limits = ledger_limits(run);
  warn_of_lack_of_space(run, limits);
  try {
    make_work_folder(run.folder);
    Ledger restored = restored_ledger(run, earlier, limits);
    run.events.on_begin(num_file_bytes(run.plan), restored.seen());
    const auto ledger = std::make_shared<LocalLedger>(
        std::move(restored), Journal(run.folder / "journal", run.journal_identity),
        [&run](int64_t task, const SpillFile& file) {
          crash_point("spill_unneeded");
          remove_file(spill_path(run.folder, task, file.process_id));
        });
    crash_point("journal_begun");
    RunFiles files = open_files(run, /*make=*/true);
    work(run, std::move(vocabulary), files, ledger, report);
    complete_datasets(run, files, *ledger, report);
    // Another program may have made a dataset of one of these names since the run began.
    const DatasetLocks datasets(run.config.output_prefixes, run.lock_path());
    check_outputs_are_free(run);
    commit_run(run.folder, run.hash, run.config.output_prefixes);
  } catch (const RankStopped&) {
    if (!run.plan.can_resume()) try_remove_work_folder(run.folder);
    throw;
  } catch (...) {
    if (!is_work_of_use(run)) try_remove_work_folder(run.folder);
    throw;
  }
}

// The other ranks read, tokenize and write what rank 0 hands out.
void follow(PlannedRun& run, std::shared_ptr<const Vocabulary> vocabulary) {
  RunRanks& ranks = *run.config.ranks;
  run.look_at_inputs();
  const auto token =
      ranks.wait_for_work(rank_identity(run.config, run.identity), run.events.stop_requested);
  if (!token) return;
  check_sees_work_folder(run.folder, *token, ranks.name_of(0), run.events.stop_requested);
  check_work_folder(run.folder);
  RunFiles files = open_files(run, /*make=*/false);
  Rank(run.config, run.plan, std::move(vocabulary), files, ranks)
      .run(run.events.stop_requested, [] {});
}

}  // namespace

PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events) {
  PlannedRun run(config, events, *vocabulary);
  PipelineReport report;
  report.is_leader = config.rank() == 0;
  try {
    if (config.num_ranks() > 1 && !config.allow_incoherent_file_system) {
      check_file_system(run.folder);
    }
    if (report.is_leader) {
      lead(run, std::move(vocabulary), report);
    } else {
      follow(run, std::move(vocabulary));
    }
  } catch (const std::system_error& error) {
    if (!is_lack_of_space(error.code())) throw;
    throw OutOfSpace(error.code(), error.what() + how_to_go_on(run.folder, run.plan.can_resume()));
  } catch (const RankStopped&) {
    throw PipelineStopped{run.plan.can_resume()};
  } catch (const RunFailed& failed) {  // of another rank, which says what and where
    if (failed.exit_code == static_cast<int>(ExitCode::kStoppedOnRequest)) {
      throw PipelineStopped{true};
    }
    if (failed.exit_code != static_cast<int>(ExitCode::kNoSpace)) throw;
    throw RunFailed(failed.exit_code, failed.what() + how_to_go_on(run.folder, true));
  }
  return report;
}

}  // namespace weft
