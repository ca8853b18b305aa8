#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "indexed_dataset/soundness/verify.h"
#include "preprocess/datasets/dataset_manifest.h"
#include "preprocess/run/commit_run.h"
#include "preprocess/run/pipeline_run.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/run/spill_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool holds_documents(const Journal::Content& work) {
  return std::any_of(work.progress.begin(), work.progress.end(),
                     [](const auto& task) { return task.second.counts.totals.num_documents > 0; });
}

}  // namespace

// Of this run, or of one that differs in an --origin-key which nobody asked for: --report asks for
// origins, and need not make a dataset again.
bool PipelineRun::is_hash_of_finished(const std::string& hash) const {
  if (hash == report_.run_hash) return true;
  if (!config_.is_origin_key_default) return false;
  const std::string other = config_.rules.keeps_origins() ? std::string(kNoOriginKey) : "auto";
  return hash == run_hash(run_identity_with(config_, other, type(), plan_.identities));
}

// A commit of other options or inputs is not carried out: it would give names to files that this run
// was not asked for.
void PipelineRun::resume_commit() {
  const auto commit = InterruptedCommit::find(folder_, config_.output_prefixes);
  if (!commit) return;
  if (is_hash_of_finished(commit->run_hash())) {
    commit->resume();
    note("finished the commit of an earlier run");
    return;
  }
  if (config_.overwrite) return;
  const auto work = Journal::read(folder_ / "journal");
  throw std::invalid_argument(
      "'" + folder_.string() + "' holds the finished work of another run (" +
      (work ? difference(work->identity, identity_).text : "its journal is gone") +
      "), which ended while its files were given their names; run with its inputs and options to "
      "end that, or give --overwrite to drop it");
}

// A finished dataset of the same identity, which is not to be replaced.
bool PipelineRun::find_finished() {
  if (!plan_.can_resume() || config_.overwrite) return false;
  std::vector<OutputReport> outputs;
  for (const fs::path& prefix : config_.output_prefixes) {
    if (!fs::exists(prefix.string() + ".idx") || !fs::exists(prefix.string() + ".bin"))
      return false;
    const auto manifest = read_dataset_manifest(prefix);
    if (!manifest || !is_hash_of_finished(manifest->run_hash)) return false;
    check_file_sizes(prefix);
    outputs.push_back({prefix, manifest->num_documents, manifest->num_tokens});
  }
  report_.outputs = std::move(outputs);
  report_.was_there = true;
  return true;
}

void PipelineRun::check_outputs_are_free() const {
  for (const fs::path& prefix : config_.output_prefixes) {
    if (prefix.filename().string().find('\n') != std::string::npos) {
      throw std::invalid_argument("'" + prefix.string() +
                                  "': names of datasets cannot have line ends in them");
    }
    if (config_.overwrite) continue;
    if (!fs::exists(prefix.string() + ".idx")) {
      if (!fs::exists(prefix.string() + ".bin")) continue;
      throw std::invalid_argument("'" + prefix.string() +
                                  ".bin' is there without its .idx, which weft-data repair may be "
                                  "able to make again; give --overwrite to replace it, or another "
                                  "--output-prefix");
    }
    throw std::invalid_argument("'" + prefix.string() + ".idx' is a finished dataset, " +
                                origin_of_finished(prefix) +
                                "; give --overwrite to replace it, or another --output-prefix");
  }
}

// Why a finished dataset is not what this run makes.
std::string PipelineRun::origin_of_finished(const fs::path& prefix) const {
  const auto manifest = read_dataset_manifest(prefix);
  if (!manifest) return "which has no manifest: it was not made by this command";
  if (manifest->run_identity.empty()) return "made from other inputs or with other options";
  const IdentityDifference differs = difference(manifest->run_identity, identity_);
  if (!differs.same_options) return "made with other options (" + differs.text + ")";
  if (!differs.text.empty()) return "made from other inputs (" + differs.text + ")";
  return plan_.can_resume() ? "other files of which are missing"
                            : "made from an input of which nobody knows whether it is the same "
                              "(standard input, or a pipe)";
}

std::optional<Journal::Content> PipelineRun::find_work() {
  auto work = Journal::read(folder_ / "journal");
  if (work && work->identity == identity_ && plan_.can_resume()) {
    if (work->progress.empty() || RunFiles::are_there(folder_, config_.output_prefixes.size())) {
      return work;
    }
    note("the work in " + folder_.string() + " is dropped: files are missing there");
  }
  check_work_is_ours(work);
  if (work && work->identity != identity_) {
    note("the work in " + folder_.string() +
         " is dropped: " + difference(work->identity, identity_).text);
  }
  remove_work_folder(folder_);
  return std::nullopt;
}

// True if a run after this one, which has failed, can go on with the work in the folder.
bool PipelineRun::is_work_of_use() const noexcept {
  if (!plan_.can_resume()) return false;
  try {
    const auto work = Journal::read(folder_ / "journal");
    return work && holds_documents(*work);
  } catch (const std::exception&) {  // a disk that fails may work again
    return true;
  }
}

// Work of other options or other files is somebody's, or somebody mistyped; of inputs that have
// changed nothing can be used.
void PipelineRun::check_work_is_ours(const std::optional<Journal::Content>& work) const {
  if (!work || work->identity == identity_ || config_.overwrite) return;
  if (!holds_documents(*work)) return;
  const IdentityDifference differs = difference(work->identity, identity_);
  if (differs.is_lost || (differs.same_options && differs.same_inputs)) return;
  throw std::invalid_argument(
      "'" + folder_.string() + "' holds the unfinished work of a run " +
      (differs.same_options ? "of other inputs (" : "with other options (") + differs.text +
      "); run with those to go on, or give --overwrite to drop it");
}

Ledger PipelineRun::restored_ledger(const std::optional<Journal::Content>& work,
                                    const Ledger::Limits& limits) {
  Ledger ledger(plan_.tasks, input_names(), config_.output_prefixes.size(), limits);
  // A shard that begins within an input knows at which byte of it if nothing was decompressed.
  if (!plan_.tasks.empty() && plan_.tasks.front().begin > 0) {
    const Task& first = plan_.tasks.front();
    const bool is_compressed = plan_.compressed_inputs()[static_cast<size_t>(first.input_idx)];
    ledger.begin_within(is_compressed ? std::nullopt : std::optional(first.begin));
  }
  if (!work) return ledger;
  remove_stale_stages(folder_, work->progress);
  int64_t num_done = 0;
  for (const auto& [number, progress] : work->progress) {
    // Bad lines that a run with --on-bad-line skip left out are to be met again.
    const bool has_bad_line = config_.rules.on_bad_line == OnBadLine::kStop &&
                              progress.counts.totals.bad_lines.total() > 0;
    if (has_bad_line || !has_stage(folder_, number, progress.stage)) continue;
    ledger.restore(number, progress);
    num_done += progress.is_done() ? 1 : 0;
  }
  note(fmt::format("going on with the work in {}: {} of {} parts are done, {} documents",
                   folder_.string(), num_done, plan_.tasks.size(), ledger.seen().num_documents));
  return ledger;
}

}  // namespace weft
