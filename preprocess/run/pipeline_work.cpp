#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "preprocess/datasets/dataset_manifest.h"
#include "preprocess/run/commit_run.h"
#include "preprocess/run/pipeline_run.h"
#include "preprocess/run/run_identity.h"
#include "preprocess/run/spill_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

}  // namespace

// Of this run, or of one that differs in an --origin-key which nobody asked for: --report asks for
// origins, and need not make a dataset again.
bool PipelineRun::is_hash_of_finished(const std::string& hash) const {
  if (hash == report_.run_hash) return true;
  if (!config_.is_origin_key_default) return false;
  const std::string other = config_.rules.keeps_origins() ? std::string(kNoOriginKey) : "auto";
  return hash == run_hash(run_identity_with(config_, other, type(), plan_.identities));
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
    if (!fs::exists(prefix.string() + ".idx")) continue;
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

// Work of other options or other files is somebody's, or somebody mistyped; of inputs that have
// changed nothing can be used.
void PipelineRun::check_work_is_ours(const std::optional<Journal::Content>& work) const {
  if (!work || work->identity == identity_ || config_.overwrite) return;
  // A run that failed at its first line leaves nothing that would be missed.
  const auto holds_documents = [](const auto& task) {
    return task.second.counts.totals.num_documents > 0;
  };
  if (std::none_of(work->progress.begin(), work->progress.end(), holds_documents)) return;
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
