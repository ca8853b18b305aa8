#include "preprocess/run/earlier_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/verify.h"
#include "preprocess/ledger/ledger_link.h"
#include "preprocess/rank/run_files.h"
#include "preprocess/rank/spill_file.h"
#include "preprocess/run/finish_run.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/run/work_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool holds_documents(const Journal::Content& work) {
  return std::any_of(work.progress.begin(), work.progress.end(),
                     [](const auto& task) { return task.second.counts.totals.num_documents > 0; });
}

// True for the hash of this run, or of one with another --origin-key if none was given: --report
// asks for origins, and need not make a dataset again.
bool is_hash_of_finished(const PlannedRun& run, const std::string& hash) {
  if (hash == run.hash) return true;
  if (!run.config.is_origin_key_default) return false;
  PipelineConfig other = run.config;
  other.rules.origin_key = run.config.rules.keeps_origins() ? std::string(kNoOriginKey) : "auto";
  return hash == run_hash(run_identity(other, run.type, run.plan.inputs));
}

// Why a finished dataset is not what this run makes.
std::string origin_of_finished(const PlannedRun& run, const fs::path& prefix) {
  const auto manifest = read_dataset_manifest(prefix);
  if (!manifest) return "which has no manifest: it was not made by this command";
  if (manifest->run_identity.empty()) return "made from other inputs or with other options";
  const IdentityDifference differs = difference(manifest->run_identity, run.journal_identity);
  if (!differs.same_options) return "made with other options (" + differs.text + ")";
  if (!differs.text.empty()) return "made from other inputs (" + differs.text + ")";
  return run.plan.can_resume() ? "other files of which are missing"
                               : "made from an input of which nobody knows whether it is the same "
                                 "(standard input, or a pipe)";
}

// Drops work of another run, with a note. Throws if it may be wanted, because of other options or
// other files, or if an option was mistyped. Work on inputs whose content has changed is of no use.
void drop_work_of_others(const PlannedRun& run, const Journal::Content& work) {
  const IdentityDifference differs = difference(work.identity, run.journal_identity);
  const bool is_of_use = !differs.is_lost && !(differs.same_options && differs.same_inputs);
  if (is_of_use && holds_documents(work) && !run.config.overwrite) {
    if (differs.has_moved && differs.same_options) {
      throw NetworkError("'" + run.folder.string() + "' holds unfinished work: " + differs.text +
                         "; give --overwrite to drop it");
    }
    throw UsageError("'" + run.folder.string() + "' holds the unfinished work of a run " +
                     (differs.same_options ? "of other inputs (" : "with other options (") +
                     differs.text + "); run with those to go on, or give --overwrite to drop it");
  }
  run.events.on_note("the work in " + run.folder.string() + " is dropped: " + differs.text);
}

// Says what is wrong with the files of dataset `k`, of which some have their names already; nothing
// if they are those that the run has written. Their bytes say so wherever they lie: network file
// systems may number files anew at each mount, and set their times after the last write.
std::optional<std::string> find_difference(const PlannedRun& run, size_t k) {
  const auto path_of = [&](const std::string& suffix) {
    const fs::path unfinished = RunFiles::path_in(run.folder, k, suffix);
    return fs::exists(unfinished) ? unfinished
                                  : fs::path(run.config.output_prefixes[k].string() + suffix);
  };
  const auto is_missing = [](const fs::path& path) {
    return fmt::format("'{}' is missing", path.string());
  };
  const auto written = read_block_checksums(path_of(".checksums"));
  if (!written) return is_missing(path_of(".checksums"));
  std::vector<DatasetFile> files;
  for (const FileChecksums& file : *written) {
    files.push_back({file.suffix, path_of(file.suffix)});
    if (!fs::exists(files.back().path)) return is_missing(files.back().path);
  }
  run.events.on_note("comparing the files of " + run.config.output_prefixes[k].string() +
                     " with their checksums, since a run ended while it gave them their names");
  const auto stop_if_asked = [&](size_t, int64_t, std::span<const std::byte>) {
    if (run.events.stop_requested()) throw RankStopped{};
  };
  const auto found = compute_block_checksums(files, run.config.num_workers, stop_if_asked);
  for (size_t i = 0; i < files.size(); ++i) {
    if (found[i] == (*written)[i]) continue;
    // No other program writes to the run's folder: then the checksums are another program's, unless
    // they lie there, too.
    const bool is_in_folder = files[i].path.parent_path() == run.folder &&
                              path_of(".checksums").parent_path() != run.folder;
    return fmt::format("'{}' is not what the run wrote: another program's, or damaged",
                       (is_in_folder ? path_of(".checksums") : files[i].path).string());
  }
  return std::nullopt;
}

// Says why the commit that was interrupted cannot be carried on: something has a name that it would
// give, or is not there any more. --overwrite allowed to replace what stood there when the commit
// began.
std::optional<std::string> find_obstacle(const PlannedRun& run) {
  const bool may_replace = run.config.overwrite;
  if (may_replace && !has_begun_renaming(run.folder)) return std::nullopt;
  for (size_t k = 0; k < run.config.output_prefixes.size(); ++k) {
    if (!fs::exists(RunFiles::path_in(run.folder, k, ".idx"))) continue;  // it is complete
    const fs::path prefix = run.config.output_prefixes[k];
    const fs::path idx = prefix.string() + ".idx", bin = prefix.string() + ".bin";
    const auto is_in_the_way = [](const fs::path& path) {
      return fmt::format("'{}' is in the way", path.string());
    };
    if (fs::exists(idx)) return is_in_the_way(idx);
    if (!fs::exists(RunFiles::path_in(run.folder, k, ".bin"))) {
      if (const auto differs = find_difference(run, k)) return differs;
    } else if (fs::exists(bin) && !may_replace) {
      return is_in_the_way(bin);
    }
  }
  return std::nullopt;
}

}  // namespace

void resume_earlier_commit(const PlannedRun& run) {
  const auto hash = find_interrupted_commit(run.folder);
  if (!hash) return;
  if (is_hash_of_finished(run, *hash)) {
    if (const auto obstacle = find_obstacle(run)) {
      if (run.config.overwrite) return;
      throw UsageError(*obstacle +
                       " (a run ended while it gave its files their names); give "
                       "--overwrite to make everything anew, or another "
                       "--output-prefix");
    }
    resume_commit(run.folder, run.config.output_prefixes);
    run.events.on_note("finished the commit of an earlier run");
    return;
  }
  if (run.config.overwrite) return;
  const auto work = Journal::read(run.folder / "journal");
  throw UsageError(
      "'" + run.folder.string() + "' holds the finished work of another run (" +
      (work ? difference(work->identity, run.journal_identity).text : "its journal is gone") +
      "), which ended while its files were given their names; run with its inputs and options to "
      "end that, or give --overwrite to drop it");
}

std::optional<std::vector<OutputReport>> find_finished(const PlannedRun& run) {
  if (!run.plan.can_resume() || run.config.overwrite) return std::nullopt;
  std::vector<OutputReport> outputs;
  for (const fs::path& prefix : run.config.output_prefixes) {
    if (!fs::exists(prefix.string() + ".idx") || !fs::exists(prefix.string() + ".bin"))
      return std::nullopt;
    const auto manifest = read_dataset_manifest(prefix);
    if (!manifest || !is_hash_of_finished(run, manifest->run_hash)) return std::nullopt;
    check_file_sizes(prefix);
    outputs.push_back({prefix, manifest->num_documents, manifest->num_tokens});
  }
  return outputs;
}

void check_outputs_are_free(const PlannedRun& run) {
  for (const fs::path& prefix : run.config.output_prefixes) {
    if (run.config.overwrite) continue;
    if (!fs::exists(prefix.string() + ".idx")) {
      if (!fs::exists(prefix.string() + ".bin")) continue;
      throw UsageError("'" + prefix.string() +
                       ".bin' is there without its .idx, which weft-data repair may be "
                       "able to make again; give --overwrite to replace it, or another "
                       "--output-prefix");
    }
    throw UsageError("'" + prefix.string() + ".idx' is a finished dataset, " +
                     origin_of_finished(run, prefix) +
                     "; give --overwrite to replace it, or another --output-prefix");
  }
}

std::optional<Journal::Content> find_work(const PlannedRun& run) {
  auto work = Journal::read(run.folder / "journal");
  if (work && work->identity != run.journal_identity) {
    drop_work_of_others(run, *work);
  } else if (work && run.plan.can_resume()) {
    const size_t num_datasets = run.config.output_prefixes.size();
    if (work->progress.empty() || RunFiles::are_there(run.folder, num_datasets)) return work;
    run.events.on_note("the work in " + run.folder.string() +
                       " is dropped: files are missing there");
  }
  remove_work_folder(run.folder);
  return std::nullopt;
}

bool is_work_of_use(const PlannedRun& run) noexcept {
  if (!run.plan.can_resume()) return false;
  try {
    const auto work = Journal::read(run.folder / "journal");
    return work && holds_documents(*work);
  } catch (const std::exception&) {  // a disk that fails may work again
    return true;
  }
}

Ledger restored_ledger(const PlannedRun& run, const std::optional<Journal::Content>& work,
                       const Ledger::Limits& limits) {
  Ledger ledger(run.plan.tasks, run.input_names(), run.config.output_prefixes.size(), limits);
  if (!work) return ledger;
  if (work->is_damaged) {
    run.events.on_note(
        fmt::format("warning: {} is damaged at byte {}: what its later lines know of is done again",
                    (run.folder / "journal").string(), work->num_bytes));
  }
  remove_stale_spills(run.folder, work->progress);
  int64_t num_done = 0;
  for (const auto& [number, progress] : work->progress) {
    // Bad lines that a run with --on-bad-line skip left out are to be met again.
    const bool has_bad_line = run.config.rules.on_bad_line == OnBadLine::kStop &&
                              progress.counts.totals.bad_lines.total() > 0;
    if (has_bad_line || !has_spills(run.folder, number, progress.spill)) continue;
    ledger.restore(number, progress);
    num_done += progress.is_done() ? 1 : 0;
  }
  run.events.on_note(fmt::format(
      "going on with the work in {}: {} of {} parts are done, {} documents", run.folder.string(),
      num_done, run.plan.tasks.size(), ledger.seen().num_documents));
  return ledger;
}

}  // namespace weft
