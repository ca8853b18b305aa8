#include "preprocess/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/block_checksums.h"
#include "indexed_dataset/crash_point.h"
#include "indexed_dataset/deal_pair.h"
#include "indexed_dataset/exit_code.h"
#include "indexed_dataset/lock_file.h"
#include "preprocess/commit_run.h"
#include "preprocess/dataset_manifest.h"
#include "preprocess/ledger_host.h"
#include "preprocess/rank_worker.h"
#include "preprocess/run_files.h"
#include "preprocess/run_identity.h"
#include "preprocess/run_ranks.h"
#include "preprocess/source_map.h"
#include "preprocess/space_need.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What comes before the suffix of dealt files in the work folder.
const std::string kDealt = ".dealt";

class PipelineRun {
 public:
  PipelineRun(const PipelineConfig& config, std::shared_ptr<const Vocabulary> vocabulary,
              const PipelineEvents& events)
      : config_(config),
        vocabulary_(std::move(vocabulary)),
        events_(events),
        work_prefix_(config.work_prefix.empty() ? config.output_prefixes.at(0)
                                                : config.work_prefix),
        folder_(work_folder(work_prefix_)) {}

  PipelineReport run();

 private:
  void plan();
  PipelineReport lead();
  PipelineReport follow();
  RunRanks run_ranks() const;
  bool stop_requested() const { return events_.stop_requested && events_.stop_requested(); }
  bool find_finished();
  void check_outputs_are_free() const;
  std::unique_ptr<LedgerClient> join();
  std::optional<Journal::Content> find_work();
  void check_work_is_ours(const std::optional<Journal::Content>& work) const;
  Ledger restored_ledger(const std::optional<Journal::Content>& work);
  void work(RunFiles& files, LedgerHost& host);
  void on_round(LedgerHost& host);
  void report_inputs(const Ledger& ledger);
  void note_input_parts(const Ledger& ledger);
  void check_any_document() const;
  void check_inputs_have_not_changed() const;
  void commit(RunFiles& files, const std::vector<DatasetCounts>& totals);
  void deal_documents(const RunFiles& files, size_t k) const;
  RankSettings rank_settings() const;
  std::vector<std::string> input_names() const;
  TokenType type() const { return token_type(config_.rules, vocabulary_->size()); }
  void note(const std::string& text) const {
    if (events_.on_note) events_.on_note(text);
  }

  const PipelineConfig& config_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  const PipelineEvents& events_;
  fs::path work_prefix_, folder_;
  WorkPlan plan_;
  std::string identity_;
  PipelineReport report_;
  InputParts input_parts_;  // of a part of the work
  int64_t num_inputs_begun_ = 0;
};

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
  report_.run_hash = run_hash(identity_);
  report_.identities = plan_.identities;
  if (config_.ranks.num_ranks > 1 && !plan_.can_resume()) {
    throw std::invalid_argument(
        "several ranks cannot share standard input or a pipe; give files, or start one process");
  }
}

// Ranks other than 0 read, tokenize and write, and know nothing of the whole.
PipelineReport PipelineRun::follow() {
  plan();
  report_.is_leader = false;
  const auto ledger = join();
  if (!ledger) return std::move(report_);
  RunFiles files(folder_, config_.output_prefixes.size(), type(), /*make=*/false);
  const RankSettings settings = rank_settings();
  RankWorker worker(settings, plan_, vocabulary_, files, *ledger);
  try {
    worker.run([this] { return stop_requested(); }, [] {});
  } catch (const RankStopped&) {
    throw PipelineStopped{true};
  } catch (const PeerLost&) {
    if (stop_requested()) throw PipelineStopped{true};  // rank 0 was told first, and has gone
    throw;
  }
  return std::move(report_);
}

// Rank 0's ledger; null if the dataset is there already.
std::unique_ptr<LedgerClient> PipelineRun::join() {
  WaitingRank waiting;
  waiting.is_finished = [this] { return find_finished(); };
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
  const int64_t need_bytes = estimated_output_bytes(plan_, type(), config_.num_partitions > 1);
  const auto lack = lack_of_space(folder_.parent_path(), folder_, need_bytes);
  if (lack) note(*lack);
  fs::create_directory(folder_);
  sync_folder(folder_.has_parent_path() ? folder_.parent_path() : ".");
  try {
    crash_point("folder_made");
    Ledger restored = restored_ledger(earlier);
    if (events_.on_begin) events_.on_begin(num_file_bytes(plan_), restored.seen());
    LedgerHost host(std::move(restored), Journal(folder_ / "journal", identity_));
    crash_point("journal_begun");
    RunFiles files(folder_, config_.output_prefixes.size(), type());
    work(files, host);
    host.write_journal();  // what follows may be interrupted as well
    std::vector<DatasetCounts> totals;
    host.with_ledger([&](const Ledger& ledger) {
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

// A finished run of the same identity.
bool PipelineRun::find_finished() {
  if (config_.overwrite || !plan_.can_resume()) return false;
  std::vector<OutputReport> outputs;
  for (const fs::path& prefix : config_.output_prefixes) {
    if (!fs::exists(prefix.string() + ".idx") || !fs::exists(prefix.string() + ".bin"))
      return false;
    const auto manifest = read_dataset_manifest(prefix);
    if (!manifest || manifest->run_hash != report_.run_hash) return false;
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
    throw std::invalid_argument("'" + prefix.string() +
                                ".idx' is a finished dataset, made from other inputs or with other "
                                "options; give --overwrite to replace it, or another "
                                "--output-prefix");
  }
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

Ledger PipelineRun::restored_ledger(const std::optional<Journal::Content>& work) {
  Ledger ledger(plan_.tasks, input_names(), config_.output_prefixes.size(),
                {config_.max_bad_lines, config_.ranks.num_ranks, config_.max_output_bytes,
                 plan_.compressed_inputs()});
  // A shard may begin within an input: at a byte that it knows if nothing was decompressed.
  if (!plan_.tasks.empty()) {
    const Task& first = plan_.tasks.front();
    const bool is_compressed = plan_.compressed_inputs()[static_cast<size_t>(first.input_idx)];
    ledger.begin_at(is_compressed ? 0 : first.begin);
  }
  if (!work) return ledger;
  int64_t num_done = 0;
  for (const auto& [number, progress] : work->progress) {
    // Bad lines that a run with --on-bad-line skip left out are to be met again.
    const bool has_bad_line = config_.rules.on_bad_line == OnBadLine::kStop &&
                              progress.counts.totals.bad_lines.total() > 0;
    if (has_bad_line || !RunFiles::has_stage(folder_, number, progress.num_staged_bytes)) continue;
    ledger.restore(number, progress);
    num_done += progress.is_read && progress.num_staged_bytes == 0 ? 1 : 0;
  }
  note(fmt::format("going on with the work in {}: {} of {} parts are done, {} documents",
                   folder_.string(), num_done, plan_.tasks.size(), ledger.seen().num_documents));
  return ledger;
}

void PipelineRun::work(RunFiles& files, LedgerHost& host) {
  LocalLedgerPort port(host);
  const RankSettings settings = rank_settings();
  std::optional<RankServer> server;
  if (config_.ranks.num_ranks > 1) {
    server.emplace(run_ranks(), host, [this](const std::string& text) { note(text); });
  }
  RankWorker worker(settings, plan_, vocabulary_, files, port);
  JournalThread journal(host, 2 * config_.sync_interval);
  try {
    worker.run([this] { return stop_requested(); }, [&] { on_round(host); });
    if (const auto error = journal.end()) std::rethrow_exception(error);
    if (server) server->let_all_leave();
  } catch (const RankStopped&) {
    if (server) server->let_all_leave();
    host.write_journal();
    throw PipelineStopped{plan_.can_resume()};
  } catch (const std::exception& error) {
    host.fail({static_cast<int>(exit_code_for(error)), error.what(), {}});
    if (server) server->let_all_leave();
    on_round(host);
    if (const auto journal_error = journal.end()) std::rethrow_exception(journal_error);
    host.write_journal();
    throw;
  }
  on_round(host);
}

void PipelineRun::on_round(LedgerHost& host) {
  PipelineTotals seen;
  std::vector<BadLine> bad_lines;
  int64_t num_begun = 0;
  host.with_ledger([&](Ledger& ledger) {
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

void PipelineRun::report_inputs(const Ledger& ledger) {
  for (size_t i = 0; i < config_.inputs.size(); ++i) {
    report_.inputs.push_back(
        {display_name(config_.inputs[i]), plan_.layouts[i].format, 0, 0, 0, {}});
  }
  for (const Task& task : ledger.tasks()) {
    const PipelineTotals& totals = ledger.counts(task.number).totals;
    InputReport& input = report_.inputs[static_cast<size_t>(task.input_idx)];
    input.num_file_bytes += totals.num_file_bytes;
    input.num_bytes += totals.num_bytes;
    input.num_lines += totals.num_lines;
    input.text.add(ledger.counts(task.number).text, totals.num_lines);
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
  if (report_.totals.num_documents > 0 || bad_lines.total() == 0) return;
  remove_work_folder(folder_);
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

void PipelineRun::commit(RunFiles& files, const std::vector<DatasetCounts>& totals) {
  std::vector<FinishedFile> others, indexes;
  const bool is_dealt = config_.num_partitions > 1;
  for (size_t k = 0; k < totals.size(); ++k) {
    const fs::path& prefix = config_.output_prefixes[k];
    report_.outputs.push_back({prefix, totals[k].num_documents, totals[k].num_tokens});
    files.finish(k, totals[k], input_names(), input_parts_);
    crash_point("dataset_finished");
    if (is_dealt) deal_documents(files, k);
    const auto finished = [&](const std::string& suffix) {
      return files.path_of(k, (is_dealt ? kDealt : "") + suffix);
    };
    const std::vector<DatasetFile> covered = {
        {".bin", finished(".bin")}, {".idx", finished(".idx")}, {".sources", finished(".sources")}};
    write_block_checksums(files.path_of(k, ".checksums"), covered, config_.num_workers);
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
  commit_run(folder_, others, indexes);
}

// What was written stays: after a crash the next run deals it again.
void PipelineRun::deal_documents(const RunFiles& files, size_t k) const {
  const auto dealt = [&](const std::string& suffix) { return files.path_of(k, kDealt + suffix); };
  deal_pair(files.path_of(k, ".bin"), files.path_of(k, ".idx"), dealt(".bin"), dealt(".idx"),
            config_.num_partitions, [this] {
              if (stop_requested()) throw PipelineStopped{plan_.can_resume()};
            });
  deal_source_map(files.path_of(k, ".sources"), dealt(".sources"), config_.num_partitions);
  crash_point("documents_dealt");
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
  return settings;
}

std::vector<std::string> PipelineRun::input_names() const {
  std::vector<std::string> names;
  for (const std::string& input : config_.inputs) names.push_back(display_name(input));
  return names;
}

}  // namespace

PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events) {
  return PipelineRun(config, std::move(vocabulary), events).run();
}

}  // namespace weft
