#include "preprocess/run/finish_run.h"

#include <stdexcept>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/run/work_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "weft-commit 3 ";

fs::path commit_path(const fs::path& folder) { return folder / "commit"; }

void report_work(const PlannedRun& run, const Ledger& ledger, PipelineReport& report) {
  for (const auto& input : run.plan.inputs) {
    report.inputs.push_back(
        {utf8_name(*input), input->identity().version, input->layout().format, 0, 0, 0});
  }
  for (const Task& task : ledger.tasks()) {
    const PipelineTotals& totals = ledger.counts(task.number).totals;
    InputReport& input = report.inputs[static_cast<size_t>(task.input_idx)];
    input.num_file_bytes += totals.num_file_bytes;
    input.num_bytes += totals.num_bytes;
    input.num_lines += totals.num_lines;
    report.totals.add(totals);
  }
  report.where = run.config.rules.where;
}

// The range of each input that a shard has read, so that merge can tell where its lines begin.
InputParts input_parts(const PlannedRun& run, const Ledger& ledger) {
  InputParts parts;
  if (run.config.num_shards == 1) return parts;
  const std::vector<bool> is_compressed = run.plan.compressed_inputs();
  for (const auto& input : run.plan.inputs) {
    parts.push_back(InputPart{0, 0, input->layout().file_bytes, 0, true});
  }
  for (const Task& task : ledger.tasks()) {
    const auto i = static_cast<size_t>(task.input_idx);
    InputPart& part = *parts[i];
    if (part.num_bytes == 0 && part.is_empty()) part.file_begin = task.begin;
    part.file_end = task.end;
    part.num_bytes += ledger.counts(task.number).num_range_bytes;
    part.counts_from_input = part.file_begin == 0 || !is_compressed[i];
  }
  return parts;
}

Locators locators(const WorkPlan& plan) {
  Locators locators;
  for (const bool has_rows : plan.inputs_with_rows())
    locators.push_back(has_rows ? Locator::kRow : Locator::kByte);
  return locators;
}

// An empty corpus is one; a corpus of bad lines only is a mistake, in --json-keys for one, and so
// is a --where that leaves out everything. A shard may have had nothing else.
void check_any_document(const PlannedRun& run, const PipelineTotals& totals) {
  if (totals.num_lines == 0 && run.config.num_shards == 1)
    run.events.on_note(run.config.rules.split_texts_at ? "note: there is no text in the input"
                                                       : "note: there is no line in the input");
  const int64_t num_left_out = totals.left_out.total();
  if (totals.num_documents == 0 && num_left_out > 0 && run.config.num_shards == 1) {
    throw std::runtime_error(
        "no document is left: " + totals.left_out.summary(run.config.rules.where) +
        "; nothing was written");
  }
  if (totals.num_documents + num_left_out > 0 || totals.bad_lines.total() == 0) return;
  throw std::runtime_error("no line of the input is a document: " + totals.bad_lines.summary() +
                           "; nothing was written");
}

// Bytes of two versions of a file must not become one dataset.
void check_inputs_have_not_changed(const WorkPlan& plan) {
  if (const Input* changed = find_changed_input(plan)) {
    throw std::runtime_error(
        "'" + changed->name() +
        "' has changed since the run began; nothing was written: run again when "
        "nobody writes to it any more");
  }
}

}  // namespace

bool begin_last_passes(const PlannedRun& run, RunFiles& files, LocalLedger& ledger,
                       PipelineReport& report) {
  std::vector<DatasetCounts> totals;
  InputParts parts;
  ledger.with_ledger([&](const Ledger& books) {
    if (!books.tasks_done() || books.failure()) return;
    totals = books.end().datasets;
    report_work(run, books, report);
    parts = input_parts(run, books);
  });
  if (totals.empty()) return false;
  check_any_document(run, report.totals);
  check_inputs_have_not_changed(run.plan);
  std::vector<DatasetFrame> frames;
  for (size_t k = 0; k < totals.size(); ++k) {
    frames.push_back(files.prepare(k, totals[k], run.input_names(), parts, locators(run.plan)));
    crash_point("dataset_prepared");
  }
  ledger.with_ledger([&](Ledger& books) { books.complete_last_passes(frames); });
  return true;
}

void complete_datasets(const PlannedRun& run, const RunFiles& files, LocalLedger& ledger,
                       PipelineReport& report) {
  ledger.with_ledger([&](const Ledger& books) {
    const std::vector<DatasetCounts>& totals = books.end().datasets;
    for (size_t k = 0; k < totals.size(); ++k) {
      report.outputs.push_back(
          {run.config.output_prefixes[k], totals[k].num_documents, totals[k].num_tokens});
      write_block_checksums(files.path_of(k, ".checksums"), books.last_passes().checksums(k));
      crash_point("checksums_written");
    }
  });
  for (size_t k = 0; k < report.outputs.size(); ++k) {
    run.events.write_manifest(report, k, files.path_of(k, ".manifest.json"));
  }
  crash_point("last_passes");
  if (run.events.stop_requested()) throw RankStopped{};
}

void commit_run(const fs::path& folder, const std::string& run_hash,
                const std::vector<fs::path>& prefixes) {
  crash_point("commit_begin");
  write_file_atomically(commit_path(folder), kMagic + run_hash + "\n");
  crash_point("commit_written");
  resume_commit(folder, prefixes);
}

std::optional<std::string> find_interrupted_commit(const fs::path& folder) {
  if (!fs::exists(fs::symlink_status(commit_path(folder)))) return std::nullopt;
  const std::string text = read_regular_file(commit_path(folder), Links::kRefuse);
  const size_t begin = std::size(kMagic) - 1;
  if (!text.starts_with(kMagic) || text.find('\n') != text.size() - 1 || text.size() < begin + 2) {
    throw std::runtime_error(commit_path(folder).string() +
                             ": not a commit file of this version of weft-data; remove " +
                             folder.string() + " to start anew");
  }
  return text.substr(begin, text.size() - begin - 1);
}

bool has_begun_renaming(const fs::path& folder) {
  return !fs::exists(RunFiles::path_in(folder, 0, kDatasetSuffixes[0]));
}

void resume_commit(const fs::path& folder, const std::vector<fs::path>& prefixes) {
  for (size_t k = 0; k < prefixes.size(); ++k) {
    if (!fs::exists(RunFiles::path_in(folder, k, ".idx"))) continue;
    crash_point("commit_replace");
    remove_file(prefixes[k].string() + ".idx");
  }
  for (const char* suffix : kDatasetSuffixes) {
    for (size_t k = 0; k < prefixes.size(); ++k) {
      const fs::path from = RunFiles::path_in(folder, k, suffix);
      if (!fs::exists(from)) continue;  // it has its name already
      crash_point("commit_rename");
      commit_rename(from, prefixes[k].string() + suffix);
    }
  }
  crash_point("commit_done");
  remove_work_folder(folder);
}

}  // namespace weft
