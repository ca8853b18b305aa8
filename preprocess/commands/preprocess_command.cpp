// weft-data preprocess has the options and the output of Megatron-LM's tools/preprocess_data.py.
#include <fmt/format.h>
#include <stdio_ext.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/progress_line.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/sidecars/output_conflicts.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/find_vocabulary.h"
#include "preprocess/commands/preprocess_options.h"
#include "preprocess/commands/progress.h"
#include "preprocess/inputs/input_list.h"
#include "preprocess/inputs/work_plan.h"
#include "preprocess/inspect/report/gather_report.h"
#include "preprocess/ledger/run_ranks.h"
#include "preprocess/run/pipeline.h"
#include "preprocess/run/run_manifest.h"
#include "preprocess/run/work_folder.h"
#include "preprocess/stream/byte_source.h"
#include "preprocess/vocabulary/load_vocabulary.h"
#include "preprocess/web/url.h"
#include "tokenizer/unicode/unicode_version.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Prints progress: one refreshed line on a terminal; in a log a line each 10 s, Megatron's or ours.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(int64_t log_interval)
      : log_interval_(log_interval), text_(log_interval) {}

  void begin(int64_t num_file_bytes, const PipelineTotals& before) {
    text_ = ProgressText(log_interval_, num_file_bytes, before);
  }
  void update(const PipelineTotals& totals) {
    if (is_reading_back_) return;
    if (!live_line_.is_terminal()) {
      std::fputs(text_.log_line(totals, seconds()).c_str(), stderr);
    } else if (live_line_.is_due()) {
      live_line_.show(text_.live_line(totals, seconds()));
    }
  }
  void update_read_back(int64_t num_bytes, int64_t num_all_bytes) {
    if (!std::exchange(is_reading_back_, true)) {
      read_back_start_ = Clock::now();
      num_bytes_before_ = num_bytes;
    }
    if (!live_line_.is_due()) return;
    const double seconds = std::max(seconds_since(read_back_start_), 1e-9);
    live_line_.show(
        "checked " +
        progress_fields(static_cast<double>(num_bytes), static_cast<double>(num_all_bytes),
                        static_cast<double>(num_bytes - num_bytes_before_) / seconds, "B"));
  }
  // Prints a message on a line of its own.
  void print_line(const std::string& line) {
    live_line_.clear();
    print_message(line);
  }
  void print_summary(const PipelineTotals& totals) {
    print_line(text_.summary_line(totals, seconds()));
    if (totals.num_dropped_bytes > 0) print_line(dropped_bytes_warning(totals.num_dropped_bytes));
  }
  double seconds() const { return seconds_since(start_); }

 private:
  int64_t log_interval_;
  ProgressText text_;
  LiveLine live_line_;
  Clock::time_point start_ = Clock::now();
  bool is_reading_back_ = false;
  Clock::time_point read_back_start_;
  int64_t num_bytes_before_ = 0;  // were read when the last tasks were done
};

class PreprocessCommand final : public Command {
 public:
  PreprocessCommand()
      : Command("preprocess", "tokenize JSONL files into Megatron datasets",
                "weft-data preprocess --input 'corpus/*.jsonl.zst' --output-prefix my --append-eod "
                "--workers 16 --report my.html") {}
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet& options) override {
    install_stop_signals();
    if (!options_.joins_ranks) return run_rank(options);
    const auto print_problem = [](const std::string& message) {
      print_message("error: " + message);
    };
    ranks_ = RunRanks::join({std::chrono::seconds(options_.peer_timeout_s), print_problem});
    if (!ranks_) return run_rank(options);
    is_leader_ = ranks_->rank() == 0;
    try {
      const int exit_code = run_rank(options);
      return ranks_->end(exit_code, "");
    } catch (const StoppedBySignal& stopped) {
      return ranks_->end(128 + stopped.signal, stopped.what());
    } catch (const std::exception& error) {
      return ranks_->end(static_cast<int>(exit_code_for(error)), message_of(error));
    }
  }

 private:
  // Does the work of this process, alone or as one of the ranks. Returns the exit code.
  int run_rank(const OptionSet& options) {
    const Clock::time_point start = Clock::now();
    find_inputs();
    options_.check_files();
    if (is_leader_) print_configuration(options);
    print_to_log("Opening " + make_input(options_.config.inputs[0])->name());

    const FoundVocabulary found = find_or_download_vocabulary(options_.vocabulary);
    ManifestOrigin origin;
    origin.program_version = WEFT_VERSION;
    origin.unicode_version = name_of(UnicodeVersion::k16);
    if (found.vocabulary->normalizer() == Normalizer::kNfc) origin.nfc_version = kNfcVersion;
    origin.options = options.resolved();
    for (auto& [name, value] : origin.options) {
      if (name == "origin-key") value = options_.resolved_origin_key();
    }
    origin.vocabulary = {found.vocabulary->size(), found.files,
                         choose_end_of_document(*found.vocabulary)};
    if (is_leader_ && !is_gpt2(found.files)) {
      for (const std::string& line : describe_tokenizer(found, origin.vocabulary.end_of_document))
        print_message(line);
    }
    print_to_log("Time to startup: " + python_float(seconds_since(start)));

    ProgressPrinter progress(options_.log_interval);
    try {
      const PipelineReport made = run_reported(found.vocabulary, progress, origin);
      report(made, progress);
      write_reports(made, found.files, progress);
    } catch (const PipelineStopped& stopped) {
      if (!stopped.work_is_kept) {
        progress.print_line("stopped: nothing was written");
        throw StoppedBySignal(stop_signal());
      }
      if (is_leader_) {
        progress.print_line("stopped: the work so far is kept in " +
                            work_folder(options_.output_prefix).string() +
                            "; the same command goes on with it");
      }
      return static_cast<int>(ExitCode::kStoppedOnRequest);
    } catch (const std::system_error& error) {
      fail_with_hint(error);
    } catch (const NetworkError& error) {
      fail_with_hint(error);
    }
    return 0;
  }

  void find_inputs() {
    StoredInputs stored(options_.inputs.http, stop_flag());
    try {
      if (!is_leader_)
        stored.take_text(ranks_->wait_for_listing([] { return stop_signal() != 0; }));
      options_.find_inputs(stored);
    } catch (const ReadCancelled&) {
      throw StoppedBySignal(stop_signal());
    } catch (const RankStopped&) {
      throw StoppedBySignal(stop_signal());
    }
    if (ranks_ && is_leader_) ranks_->send_listing(stored.to_text());
  }

  // Returns the token that --append-eod appends; -1 without. The rules name it only if it is not
  // the vocabulary's own.
  int32_t choose_end_of_document(const Vocabulary& vocabulary) {
    TokenizeRules& rules = options_.config.rules;
    if (!rules.append_eod) return -1;
    const int32_t chosen = resolve_end_of_document(vocabulary, options_.eod_token);
    if (!vocabulary.has_end_of_document() || chosen != vocabulary.end_of_document())
      rules.end_of_document = chosen;
    return chosen;
  }

  // Prints one of Megatron's lines on standard output. A log that cannot be written is no reason to
  // lose the dataset: what does not fit is dropped, so that it does not fail at the end either.
  void print_to_log(const std::string& line) const {
    if (!is_leader_) return;
    std::printf("%s\n", escape_message(line).c_str());
    if (std::fflush(stdout) == 0) return;
    ::__fpurge(stdout);
    std::clearerr(stdout);
  }

  // Ends the run after an error outside the data passes, with a word that nothing is lost.
  [[noreturn]] void fail_with_hint(const std::exception& error) const {
    const std::filesystem::path folder = work_folder(options_.output_prefix);
    std::error_code no_folder;
    if (!std::filesystem::exists(folder / "journal", no_folder)) throw;
    throw RunFailed(static_cast<int>(exit_code_for(error)),
                    std::string(error.what()) + "\n  the work so far is kept in " +
                        folder.string() + "; the same command goes on with it");
  }

  void print_configuration(const OptionSet& options) const {
    print_message("weft-data preprocess " + options.command_line());
    for (const std::string& note : options_.notes()) print_message("note: " + note);
    if (ranks_)
      print_message(fmt::format("{} ranks make one output together", ranks_->num_ranks()));
  }

  PipelineReport run_reported(const std::shared_ptr<const Vocabulary>& vocabulary,
                              ProgressPrinter& progress, ManifestOrigin& origin) {
    PipelineConfig config = options_.pipeline_config();
    config.ranks = ranks_.get();
    config.vocabulary_id = id_of(origin.vocabulary.tokenizer);
    PipelineEvents events;
    bool is_first_input = true;
    events.on_input = [&](const std::string& input) {
      if (!is_first_input) print_to_log("Opening " + input);
      is_first_input = false;
    };
    events.on_begin = [&](int64_t num_file_bytes, const PipelineTotals& before) {
      progress.begin(num_file_bytes, before);
    };
    events.on_progress = [&](const PipelineTotals& totals) { progress.update(totals); };
    events.on_read_back = [&](int64_t num_bytes, int64_t num_all_bytes) {
      progress.update_read_back(num_bytes, num_all_bytes);
    };
    events.on_bad_line = [&](const BadLine& bad_line) {
      progress.print_line("bad line: " + bad_line.message());
    };
    events.on_note = [&](const std::string& note) { progress.print_line(note); };
    events.stop_requested = [] { return stop_signal() != 0; };
    events.write_manifest = [&](const PipelineReport& report, size_t k,
                                const std::filesystem::path& path) {
      origin.seconds = progress.seconds();
      weft::write_manifest(path, report, k, origin);
    };
    return run_pipeline(config, vocabulary, events);
  }

  static void report(const PipelineReport& report, ProgressPrinter& progress) {
    if (!report.is_leader) return;
    for (const OutputReport& output : report.outputs) {
      progress.print_line(fmt::format("{} {}.bin and .idx: {} documents, {} tokens",
                                      report.was_there ? "is there already:" : "wrote",
                                      output.prefix.string(), output.num_documents,
                                      output.num_tokens));
    }
    if (report.was_there) return;
    if (!report.where.empty()) progress.print_line(report.totals.left_out.summary(report.where));
    progress.print_summary(report.totals);
  }

  void write_reports(const PipelineReport& report, const TokenizerFiles& files,
                     ProgressPrinter& progress) const {
    if (options_.report.empty() || !report.is_leader) return;
    const std::vector<std::filesystem::path> paths = options_.report_files();
    for (size_t k = 0; k < report.outputs.size(); ++k) {
      ProgressLine line("tokens");
      write_report(report.outputs[k].prefix, paths.at(k),
                   {files, options_.config.num_workers, line.report()});
      progress.print_line("wrote " + paths.at(k).string());
    }
  }

  PreprocessOptions options_;
  std::unique_ptr<RunRanks> ranks_;  // null: this process is alone
  bool is_leader_ = true;
};

}  // namespace

std::unique_ptr<Command> make_preprocess_command() { return std::make_unique<PreprocessCommand>(); }

}  // namespace weft
