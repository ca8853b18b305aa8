#include <stdexcept>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/soundness/block_checksums.h"
#include "preprocess/run/commit_run.h"
#include "preprocess/run/pipeline_run.h"
#include "preprocess/run/run_identity.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

}  // namespace

void PipelineRun::report_inputs(const Ledger& ledger) {
  for (size_t i = 0; i < config_.inputs.size(); ++i) {
    report_.inputs.push_back({input_name(config_.inputs[i]), plan_.layouts[i].format, 0, 0, 0});
  }
  for (const Task& task : ledger.tasks()) {
    const PipelineTotals& totals = ledger.counts(task.number).totals;
    InputReport& input = report_.inputs[static_cast<size_t>(task.input_idx)];
    input.num_file_bytes += totals.num_file_bytes;
    input.num_bytes += totals.num_bytes;
    input.num_lines += totals.num_lines;
    report_.totals.add(totals);
  }
}

// What a part of the work has read of each input, so that merge can tell where its lines begin.
void PipelineRun::note_input_parts(const Ledger& ledger) {
  if (config_.num_shards == 1) return;
  const std::vector<bool> is_compressed = plan_.compressed_inputs();
  for (const InputLayout& layout : plan_.layouts) {
    input_parts_.push_back(InputPart{0, 0, layout.file_bytes, 0, true});
  }
  for (const Task& task : ledger.tasks()) {
    const auto i = static_cast<size_t>(task.input_idx);
    InputPart& part = *input_parts_[i];
    if (part.num_bytes == 0 && part.is_empty()) part.file_begin = task.begin;
    part.file_end = task.end;
    part.num_bytes += ledger.counts(task.number).num_range_bytes;
    part.counts_from_input = part.file_begin == 0 || !is_compressed[i];
  }
}

// An empty corpus is one; a corpus of bad lines only is a mistake, in --json-keys for one.
void PipelineRun::check_any_document() const {
  const BadLineCounts& bad_lines = report_.totals.bad_lines;
  if (report_.totals.num_lines == 0 && config_.num_shards == 1)
    note("note: there is no line in the input");
  if (report_.totals.num_documents > 0 || bad_lines.total() == 0) return;
  throw std::runtime_error("no line of the input is a document: " + bad_lines.summary() +
                           "; nothing was written");
}

// Bytes of two versions of a file must not become one dataset.
void PipelineRun::check_inputs_have_not_changed() const {
  if (const auto changed = find_changed_input(plan_)) {
    throw std::runtime_error(
        "'" + *changed +
        "' has changed since the run began; nothing was written: run again when "
        "nobody writes to it any more");
  }
}

// When the last task is done, rank 0 prepares the files, and all ranks share what is left.
void PipelineRun::complete_last_passes(RunFiles& files, LocalLedger& local_ledger) {
  if (has_prepared_files_ || stop_requested()) return;
  std::vector<DatasetCounts> totals;
  local_ledger.with_ledger([&](const Ledger& ledger) {
    if (!ledger.tasks_done() || ledger.failure()) return;
    totals = ledger.end().datasets;
    report_inputs(ledger);
    note_input_parts(ledger);
  });
  if (totals.empty()) return;
  has_prepared_files_ = true;
  check_any_document();
  check_inputs_have_not_changed();
  std::vector<DatasetFrame> frames;
  for (size_t k = 0; k < totals.size(); ++k) {
    frames.push_back(files.prepare(k, totals[k], input_names(), input_parts_));
    crash_point("dataset_prepared");
  }
  local_ledger.with_ledger([&](Ledger& ledger) { ledger.complete_last_passes(frames); });
}

void PipelineRun::commit(RunFiles& files, LocalLedger& local_ledger) {
  std::vector<FinishedFile> others, indexes;
  std::vector<DatasetCounts> totals;
  std::vector<std::vector<FileChecksums>> checksums;
  local_ledger.with_ledger([&](const Ledger& ledger) {
    totals = ledger.end().datasets;
    for (size_t k = 0; k < totals.size(); ++k) {
      checksums.push_back(ledger.last_passes().checksums(k));
    }
  });
  for (size_t k = 0; k < totals.size(); ++k) {
    const fs::path& prefix = config_.output_prefixes[k];
    report_.outputs.push_back({prefix, totals[k].num_documents, totals[k].num_tokens});
    const auto finished = [&](const std::string& suffix) { return files.path_of(k, suffix); };
    write_block_checksums(files.path_of(k, ".checksums"), checksums[k]);
    crash_point("checksums_written");
    for (const char* suffix : {".bin", ".sources"}) {
      others.push_back({finished(suffix).filename(), prefix.string() + suffix});
    }
    for (const char* suffix : {".checksums", ".manifest.json"}) {
      others.push_back({files.path_of(k, suffix).filename(), prefix.string() + suffix});
    }
    indexes.push_back({finished(".idx").filename(), prefix.string() + ".idx"});
  }
  for (size_t k = 0; k < totals.size(); ++k) {
    if (events_.write_manifest) {
      events_.write_manifest(report_, k, files.path_of(k, ".manifest.json"));
    }
  }
  check_stop_at_end();
  commit_run(folder_, report_.run_hash, others, indexes);
}

// The passes over all that was written take minutes for terabytes, and change nothing that a rerun
// could not do again.
void PipelineRun::check_stop_at_end() const {
  crash_point("last_passes");
  if (stop_requested()) throw PipelineStopped{plan_.can_resume()};
}

}  // namespace weft
