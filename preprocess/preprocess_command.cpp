// weft-data preprocess: the options and the output of Megatron-LM's tools/preprocess_data.py.
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <set>

#include "indexed_dataset/exit_code.h"
#include "preprocess/byte_source.h"
#include "preprocess/commands.h"
#include "preprocess/data_report.h"
#include "preprocess/dataset_manifest.h"
#include "preprocess/download.h"
#include "preprocess/find_vocabulary.h"
#include "preprocess/output_guard.h"
#include "preprocess/pipeline.h"
#include "preprocess/progress.h"
#include "preprocess/run_files.h"
#include "preprocess/sha256.h"
#include "preprocess/stop_signal.h"
#include "preprocess/url.h"
#include "preprocess/work_plan.h"
#include "tokenizer/unicode_classes.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct PreprocessOptions {
  std::vector<std::string> inputs;
  std::string output_prefix;
  std::vector<std::string> json_keys{"text"};
  std::string tokenizer_type = "GPT2BPETokenizer";
  std::string vocab_file, merge_file;
  bool append_eod = false;
  bool allow_http = false;
  int64_t num_workers = 1;
  int64_t log_interval = 1000;
  std::string special = "literal";
  std::string empty_docs = "record";
  std::string on_bad_line = "stop";
  int64_t max_bad_lines = -1;
  int64_t max_line_bytes = int64_t{256} << 20;
  int64_t max_output = kDefaultMaxOutputBytes;
  std::string shard;
  std::string dtype = "auto";
  int64_t num_partitions = 1;
  bool keep_sequential_samples = false;
  bool overwrite = false;
  std::string report;
  std::string ranks = "auto";
  int64_t peer_timeout_s = 60;

  void declare(OptionSet& options) {
    options.texts("--input", inputs,
                  "JSONL files or https URLs in this order, '-' is standard input; gzip, xz, zstd "
                  "and bzip2 are decompressed on the fly, URLs while they are downloaded");
    options.flag("--allow-http", allow_http,
                 "accept unencrypted http URLs (never by a redirect from https)");
    options.text("--output-prefix", output_prefix, "writes PREFIX_KEY_document.bin and .idx");
    options.texts("--json-keys", json_keys, "keys whose strings are tokenized; one dataset each");
    options.choice("--tokenizer-type", tokenizer_type, {"GPT2BPETokenizer"}, "as in Megatron-LM");
    options.text("--vocab-file", vocab_file,
                 "vocab.json; without it: $WEFT_GPT2_DIR, ~/.cache/weft/gpt2, download");
    options.text("--merge-file", merge_file, "merges.txt");
    options.flag("--append-eod", append_eod,
                 "end every document that has a token with <|endoftext|>");
    options.integer("--workers", num_workers, "threads that parse and tokenize", 1, 1024);
    options.integer("--log-interval", log_interval,
                    "documents between two lines of progress in a log", 1);
    options.choice("--special", special, {"literal", "token", "error"},
                   "what <|endoftext|> in a text is: its letters, the token, or a bad line");
    options.choice(
        "--empty-docs", empty_docs, {"record", "skip"},
        "texts without a token: an empty document (Megatron-Core), or nothing (older Megatron)");
    options.choice("--on-bad-line", on_bad_line, {"stop", "skip"},
                   "what is no document ends the run, or is left out and counted");
    options.integer("--max-bad-lines", max_bad_lines,
                    "with --on-bad-line skip: more than this end the run; -1: any number", -1);
    options.integer("--max-line-bytes", max_line_bytes, "longer lines are bad lines", 1,
                    (int64_t{1} << 31) - 8);
    options.integer("--max-output", max_output,
                    "bytes that one compressed input may give; more are taken for a bomb", 1);
    options.text("--shard", shard,
                 "I/N: only part I (from 0) of N of the work; weft-data merge puts the parts "
                 "together, in their order");
    options.choice("--dtype", dtype, {"auto", "uint16", "int32"},
                   "type of the token ids; auto: as Megatron-LM, uint16 below 65500 entries");
    options.integer("--partitions", num_partitions,
                    "as in Megatron-LM: document i goes to partition i mod P, and the partitions "
                    "stand one after another in one dataset",
                    1, 1024);
    options.flag("--keep-sequential-samples", keep_sequential_samples,
                 "with --partitions: documents keep the order of the input");
    options.text("--report", report,
                 "also write a report on the data, FILE.html or FILE.json: lengths, duplicates, "
                 "repetition, bad lines");
    options.choice("--ranks", ranks, {"auto", "off"},
                   "processes that srun or mpirun started together make one output; off: each "
                   "is on its own");
    options.integer("--peer-timeout", peer_timeout_s,
                    "seconds after which a silent rank is given up and its work done by others", 1,
                    86400);
    options.flag("--overwrite", overwrite,
                 "replace a finished dataset, and drop unfinished work, of other options");
  }

  void validate(OptionSet& options) const {
    if (inputs.empty())
      options.problem("--input is required: give one or more JSONL files, or '-'");
    if (output_prefix.empty()) options.problem("--output-prefix is required");
    if (json_keys.empty()) options.problem("--json-keys: give at least one key");
    if (vocab_file.empty() != merge_file.empty())
      options.problem("--vocab-file and --merge-file belong together: give both or none");
    if (max_bad_lines >= 0 && on_bad_line == "stop")
      options.problem("--max-bad-lines needs --on-bad-line skip: without it the first one stops");
    for (const std::string& path : inputs) {
      if (!looks_like_url(path)) continue;
      try {
        check_url(path, allow_http);
      } catch (const std::invalid_argument& error) {
        options.problem(error.what());
      }
    }
    if (num_dealt_partitions() > 1 && empty_docs == "skip")
      options.problem("--partitions: needs --empty-docs record, for Megatron-LM deals empty texts");
    if (num_dealt_partitions() > 1 && !shard.empty())
      options.problem("--partitions: a part of the work (--shard) does not know the lines before");
    if (!report.empty() && !report_format(report))
      options.problem("--report: '" + report + "' ends in neither .html nor .json");
    int64_t index = 0, count = 1;
    if (!shard.empty() && !parse_shard(shard, index, count))
      options.problem("--shard: '" + shard + "' is not I/N with 0 <= I < N <= 1000000, as in 3/16");
    std::set<std::string> seen;
    for (const std::string& key : json_keys) {
      if (!seen.insert(key).second) options.problem("--json-keys: '" + key + "' is given twice");
      if (key.find('/') != std::string::npos)
        options.problem("--json-keys: '" + key + "' cannot be part of a file name");
    }
  }

  int64_t num_dealt_partitions() const { return keep_sequential_samples ? 1 : num_partitions; }

  // What the file system lacks, and what would be lost, found before anything is made. Throws
  // std::system_error, and std::invalid_argument if an output is an input.
  void check_files() const {
    check_inputs_can_be_opened(inputs);
    if (!vocab_file.empty()) check_inputs_can_be_opened({vocab_file, merge_file});
    guard_outputs(output_prefixes(), output_prefix + ".lock", report_files(), inputs);
  }

  std::vector<std::filesystem::path> output_prefixes() const {
    std::vector<std::filesystem::path> prefixes;
    for (const std::string& key : json_keys)
      prefixes.push_back(output_prefix + "_" + key + "_document");
    return prefixes;
  }

  // Of each dataset: FILE.html, and with several keys FILE.KEY.html.
  std::vector<std::filesystem::path> report_files() const {
    if (report.empty()) return {};
    if (json_keys.size() == 1) return {report};
    std::vector<std::filesystem::path> files;
    const std::string extension = std::filesystem::path(report).extension().string();
    for (const std::string& key : json_keys)
      files.push_back(std::filesystem::path(report).replace_extension("." + key + extension));
    return files;
  }

  RankEnvironment rank_environment() const {
    return ranks == "auto" ? find_rank_environment() : RankEnvironment{};
  }

  PipelineConfig pipeline_config() const {
    PipelineConfig config;
    config.inputs = inputs;
    config.output_prefixes = output_prefixes();
    config.rules.json_keys = json_keys;
    config.rules.append_eod = append_eod;
    config.rules.special_tokens = special == "literal" ? SpecialTokens::kLiteral
                                  : special == "token" ? SpecialTokens::kToken
                                                       : SpecialTokens::kError;
    config.rules.empty_documents =
        empty_docs == "skip" ? EmptyDocuments::kSkip : EmptyDocuments::kRecord;
    config.rules.on_bad_line = on_bad_line == "skip" ? OnBadLine::kSkip : OnBadLine::kStop;
    config.rules.max_line_bytes = static_cast<size_t>(max_line_bytes);
    if (dtype != "auto")
      config.rules.token_type = dtype == "uint16" ? TokenType::kUInt16 : TokenType::kInt32;
    config.num_partitions = num_dealt_partitions();
    config.max_bad_lines = max_bad_lines;
    config.work_prefix = output_prefix;
    config.overwrite = overwrite;
    config.max_output_bytes = max_output;
    config.allow_http = allow_http;
    config.ranks = rank_environment();
    config.peer_timeout = std::chrono::seconds(peer_timeout_s);
    if (!shard.empty()) parse_shard(shard, config.shard_idx, config.num_shards);
    config.num_workers = static_cast<int>(num_workers);
    return config;
  }
};

// Prints progress: one refreshed line on a terminal, Megatron's lines in a log.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(int64_t log_interval)
      : log_interval_(log_interval),
        text_(log_interval),
        is_terminal_(::isatty(STDERR_FILENO) == 1) {}

  void begin(int64_t num_file_bytes, const PipelineTotals& before) {
    text_ = ProgressText(log_interval_, num_file_bytes, before);
  }
  void update(const PipelineTotals& totals) {
    const double seconds = seconds_since(start_);
    if (!is_terminal_) {
      std::fputs(text_.log_lines(totals, seconds).c_str(), stderr);
    } else if (seconds - last_shown_s_ > 0.2) {
      last_shown_s_ = seconds;
      std::fprintf(stderr, "\r\033[K%s", text_.live_line(totals, seconds).c_str());
      std::fflush(stderr);
    }
  }
  // For a line of its own: the live line makes place, and comes back with the next update.
  void print_line(const std::string& line) {
    std::fprintf(stderr, "%s%s\n", is_terminal_ ? "\r\033[K" : "", line.c_str());
  }
  void print_summary(const PipelineTotals& totals) {
    print_line(text_.summary_line(totals, seconds()));
  }
  double seconds() const { return seconds_since(start_); }

 private:
  int64_t log_interval_;
  ProgressText text_;
  bool is_terminal_;
  Clock::time_point start_ = Clock::now();
  double last_shown_s_ = -1;
};

class PreprocessCommand final : public Command {
 public:
  std::string name() const override { return "preprocess"; }
  std::string description() const override { return "tokenize JSONL files into Megatron datasets"; }
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet& options) override {
    const Clock::time_point start = Clock::now();
    options_.check_files();
    install_stop_signals();
    const RankEnvironment ranks = options_.rank_environment();
    is_leader_ = ranks.rank == 0;
    if (is_leader_) print_configuration(options, ranks);
    print_to_log("Opening " + display_name(options_.inputs[0]));

    const VocabularyFiles files = find_vocabulary();
    const auto vocabulary = Vocabulary::load(files.vocab_file, files.merge_file);
    ManifestOrigin origin;
    origin.program_version = WEFT_VERSION;
    origin.unicode_version = kUnicodeVersion;
    origin.options = options.resolved();
    origin.vocab_file = std::filesystem::absolute(files.vocab_file);
    origin.merge_file = std::filesystem::absolute(files.merge_file);
    origin.vocab_sha256 = sha256_of_file(files.vocab_file);
    origin.merge_sha256 = sha256_of_file(files.merge_file);
    origin.vocabulary_size = vocabulary->size();
    print_to_log("Time to startup: " + python_float(seconds_since(start)));

    ProgressPrinter progress(options_.log_interval);
    try {
      const PipelineReport made = run_reported(vocabulary, progress, origin);
      report(made, progress);
      write_reports(made, files, progress);
    } catch (const PipelineStopped& stopped) {
      if (!stopped.work_is_kept) {
        progress.print_line("stopped: nothing was written");
        throw StoppedBySignal(stop_signal());
      }
      progress.print_line("stopped: the work so far is kept in " +
                          work_folder(options_.output_prefix).string() +
                          "; the same command goes on with it");
      return static_cast<int>(ExitCode::kStoppedOnRequest);
    } catch (const std::system_error& error) {
      fail_with_hint(error);
    } catch (const NetworkError& error) {
      fail_with_hint(error);
    }
    return 0;
  }

 private:
  // Megatron's lines on standard output. A log that cannot be written is no reason to lose the
  // dataset: what does not fit is dropped, so that it does not fail at the end either.
  void print_to_log(const std::string& line) const {
    if (!is_leader_) return;
    std::printf("%s\n", line.c_str());
    if (std::fflush(stdout) == 0) return;
    ::__fpurge(stdout);
    std::clearerr(stdout);
  }

  // Trouble outside the data passes; who reads of it should know that nothing is lost.
  [[noreturn]] void fail_with_hint(const std::exception& error) const {
    const std::filesystem::path folder = work_folder(options_.output_prefix);
    std::error_code no_folder;
    if (!std::filesystem::exists(folder / "journal", no_folder)) throw;
    throw RunFailed(static_cast<int>(exit_code_for(error)),
                    std::string(error.what()) + "\n  the work so far is kept in " +
                        folder.string() + "; the same command goes on with it");
  }

  VocabularyFiles find_vocabulary() const {
    const auto print_note = [](const std::string& note) {
      std::fprintf(stderr, "%s\n", note.c_str());
    };
    try {
      return find_or_download_vocabulary(options_.vocab_file, options_.merge_file, print_note,
                                         [] { return stop_signal() != 0; });
    } catch (const DownloadStopped&) {
      throw StoppedBySignal(stop_signal());
    }
  }

  static void print_configuration(const OptionSet& options, const RankEnvironment& ranks) {
    std::fprintf(stderr, "weft-data preprocess %s\n", options.command_line().c_str());
    if (ranks.num_ranks == 1) return;
    std::fprintf(stderr, "%d ranks make one output together (%s)\n", ranks.num_ranks,
                 ranks.source.c_str());
  }

  PipelineReport run_reported(const std::shared_ptr<const Vocabulary>& vocabulary,
                              ProgressPrinter& progress, ManifestOrigin& origin) {
    PipelineConfig config = options_.pipeline_config();
    config.vocabulary_id = origin.vocab_sha256 + " " + origin.merge_sha256;
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
    if (!report.was_there) progress.print_summary(report.totals);
  }

  void write_reports(const PipelineReport& report, const VocabularyFiles& files,
                     ProgressPrinter& progress) const {
    if (options_.report.empty() || !report.is_leader) return;
    const std::vector<std::filesystem::path> paths = options_.report_files();
    for (size_t k = 0; k < report.outputs.size(); ++k) {
      write_report(report.outputs[k].prefix, paths.at(k),
                   {files.vocab_file, files.merge_file, static_cast<int>(options_.num_workers)});
      progress.print_line("wrote " + paths.at(k).string());
    }
  }

  PreprocessOptions options_;
  bool is_leader_ = true;
};

}  // namespace

std::unique_ptr<Command> make_preprocess_command() { return std::make_unique<PreprocessCommand>(); }

}  // namespace weft
