// weft-data verify checks that a dataset and what stands beside it is what was written; weft-data
// repair makes a lost or damaged .idx again; weft-data merge makes one dataset of several.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/progress_line.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/merge/merge.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/repair/repair.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/verify.h"
#include "preprocess/commands/commands.h"
#include "preprocess/inspect/text/prefix_options.h"
#include "preprocess/vocabulary/load_vocabulary.h"

namespace weft {
namespace {

// fmt::print would throw when the reader has gone: the exit code must still tell.
void print_problems(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems)
    std::fprintf(stdout, "%s\n", escape_message(problem).c_str());
}

class VerifyCommand final : public Command {
 public:
  VerifyCommand()
      : Command("verify", "check every byte of a dataset against its checksums, and its structure",
                "weft-data verify my_text_document") {}
  void declare(OptionSet& options) override {
    options_.declare(options);
    threads_.declare(options);
  }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const std::filesystem::path prefix = without_suffix(options_.prefix);
    check_index_is_there(prefix);
    const auto manifest = read_dataset_manifest(prefix);
    int64_t vocabulary_size = manifest ? manifest->vocabulary.size : 0;
    if (options_.vocabulary.are_given()) {
      vocabulary_size = load_vocabulary(options_.vocabulary.files())->size();
    }
    VerifyResult result = [&] {
      ProgressLine line;
      return verify_dataset_files(prefix, vocabulary_size, threads_.resolved(), line.report());
    }();
    if (result.structure_problems.empty()) {
      const DatasetReader reader(prefix);
      if (manifest) compare(reader, *manifest, result.structure_problems);
      check_sources(reader, result.structure_problems);
    }
    return print(prefix, result, vocabulary_size);
  }

 private:
  static void check_index_is_there(const std::filesystem::path& prefix) {
    if (std::filesystem::exists(prefix.string() + ".idx")) return;
    if (!std::filesystem::exists(prefix.string() + ".bin")) DatasetReader reader(prefix);  // throws
    throw std::system_error(ENOENT, std::generic_category(),
                            fmt::format("'{}.idx' is missing, its .bin is there; see whether "
                                        "weft-data repair {} can make it again",
                                        prefix.string(), prefix.string()));
  }

  static void compare(const DatasetReader& reader, const StoredManifest& manifest,
                      std::vector<std::string>& problems) {
    const auto compare_count = [&](const char* what, int64_t said, int64_t held) {
      if (said == held) return;
      problems.push_back(fmt::format("{}: says {} {}, the index holds {}",
                                     dataset_manifest_path(reader.prefix()).string(), said, what,
                                     held));
    };
    compare_count("documents", manifest.num_documents, reader.num_documents());
    compare_count("tokens", manifest.num_tokens, reader.num_tokens());
  }

  static void check_sources(const DatasetReader& reader, std::vector<std::string>& problems) {
    try {
      const auto sources = open_source_map_of(reader);
      for (int64_t i = 0; sources && i < sources->num_documents(); ++i) sources->entry(i);
    } catch (const std::system_error&) {
      throw;
    } catch (const std::runtime_error& error) {
      problems.push_back(error.what());
    }
  }

  static int print(const std::filesystem::path& prefix, const VerifyResult& result,
                   int64_t vocabulary_size) {
    print_problems(result.structure_problems);
    print_problems(result.checksum_problems);
    const int64_t num_problems =
        std::ssize(result.structure_problems) + std::ssize(result.checksum_problems);
    if (num_problems > 0) {
      print_message("error: " + prefix.string() + ": " + counted(num_problems, "problem"));
      return static_cast<int>(result.checksum_problems.empty() ? ExitCode::kBadInput
                                                               : ExitCode::kChecksumMismatch);
    }
    const DatasetReader reader(prefix);
    fmt::print("{}: sound; {} documents, {} tokens{}{}\n", escape_message(prefix.string()),
               reader.num_documents(), reader.num_tokens(),
               vocabulary_size > 0 ? fmt::format(", all ids below {}", vocabulary_size) : "",
               result.has_checksums ? ", every block as its checksum" : "");
    if (!result.has_checksums) {
      fmt::print("{}: not there: only the structure was checked, not every bit\n",
                 escape_message(checksums_path(prefix).string()));
    }
    return 0;
  }

  PrefixOptions options_;
  ThreadsOption threads_;
};

class RepairCommand final : public Command {
 public:
  RepairCommand()
      : Command("repair",
                "make a lost or damaged .idx again from the .bin and what stands beside it",
                "weft-data repair my_text_document") {}
  void declare(OptionSet& options) override {
    options.text("PREFIX", prefix_, "the dataset: its path without .bin and .idx");
    options.integer(
        "--eod-id", config_.end_of_document,
        "the token that ends every document; without it: the one that the manifest names", 0,
        INT32_MAX);
    options.integer("--token-bytes", config_.token_bytes,
                    "2 or 4, for a dataset without manifest: bytes of a token in .bin", 2, 4);
    threads_.declare(options);
  }
  void validate(OptionSet& options) const override {
    if (prefix_.empty()) options.problem("give the dataset: its path without .bin and .idx");
    if (config_.token_bytes == 3) options.problem("--token-bytes: 3 is neither 2 nor 4");
  }

  int run(const OptionSet&) override {
    config_.prefix = without_suffix(prefix_);
    config_.num_threads = threads_.resolved();
    const RepairReport report = [&] {
      ProgressLine line;
      config_.on_progress = line.report();
      return repair_dataset(config_);
    }();
    const std::string idx = escape_message(config_.prefix.string()) + ".idx";
    if (report.was_sound) {
      fmt::print("{}: is sound, nothing was done\n", idx);
    } else {
      fmt::print("{}: {}; {}\n", idx, report.how,
                 report.is_proven ? "it fits its checksum: these are the bytes that were lost"
                                  : "there is no checksum to prove it: compare the counts with "
                                    "what you know (weft-data info)");
    }
    print_problems(report.other_problems);
    if (report.other_problems.empty()) return 0;
    print_message(
        fmt::format("error: {}: only an .idx can be made again; the rest needs the corpus",
                    config_.prefix.string()));
    return static_cast<int>(ExitCode::kChecksumMismatch);
  }

 private:
  std::string prefix_;
  RepairConfig config_;
  ThreadsOption threads_;
};

class MergeCommand final : public Command {
 public:
  MergeCommand()
      : Command("merge", "make one dataset of several, in the order of the command line",
                "weft-data merge a_text_document b_text_document --output-prefix ab") {}
  void declare(OptionSet& options) override {
    options.texts("PREFIX", prefixes_, "the datasets: their paths without .bin and .idx");
    options.text("--output-prefix", output_prefix_,
                 "writes PREFIX.bin, .idx and what goes with them");
    options.text("--drop", drop_list_,
                 "leave out the documents of a list of duplicates, which report --duplicates made "
                 "of these datasets in this order");
    threads_.declare(options);
    options.flag("--overwrite", overwrite_, "replace a finished dataset of other parts");
  }
  void validate(OptionSet& options) const override {
    if (prefixes_.empty()) options.problem("give the datasets: their paths without .bin and .idx");
    if (output_prefix_.empty()) options.problem("--output-prefix is required");
    // `merge part*` names the two files of every pair: each would be taken twice.
    std::map<std::string, std::string> suffix_of;
    for (const std::string& given : prefixes_) {
      const std::string prefix = without_suffix(given).string();
      const std::string suffix = given.substr(prefix.size());
      if (suffix.empty()) continue;
      const auto [place, is_new] = suffix_of.emplace(prefix, suffix);
      if (!is_new && place->second != suffix) {
        options.problem(
            fmt::format("'{}' is given twice, as .bin and as .idx: give one of them", prefix));
      }
    }
  }

  int run(const OptionSet& options) override {
    install_stop_signals();
    const auto start = std::chrono::steady_clock::now();
    MergeConfig config;
    for (const std::string& prefix : prefixes_) config.prefixes.push_back(without_suffix(prefix));
    config.output_prefix = without_suffix(output_prefix_);
    config.num_threads = threads_.resolved();
    config.overwrite = overwrite_;
    config.drop_list = drop_list_;
    config.program_version = WEFT_VERSION;
    config.options = options.resolved();
    const auto check = [] {
      if (stop_signal() != 0) throw StoppedBySignal(stop_signal());
    };
    const MergeReport report = [&] {
      ProgressLine line;
      return merge_datasets(config, check, line.report());
    }();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const std::string& note : report.notes) print_message("note: " + note);
    fmt::print("{} {}.bin and .idx: {}, {} documents, {} tokens",
               report.was_there ? "is there already:" : "wrote",
               escape_message(config.output_prefix.string()),
               counted(std::ssize(config.prefixes), "part"), report.num_documents,
               report.num_tokens);
    if (!drop_list_.empty()) fmt::print(" ({} left out)", counted(report.num_dropped, "duplicate"));
    if (!report.was_there) fmt::print(", {} bytes in {:.2f} s", report.num_bytes, seconds);
    fmt::print("\n");
    return 0;
  }

 private:
  std::vector<std::string> prefixes_;
  std::string output_prefix_, drop_list_;
  ThreadsOption threads_;
  bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

std::unique_ptr<Command> make_repair_command() { return std::make_unique<RepairCommand>(); }

std::unique_ptr<Command> make_merge_command() { return std::make_unique<MergeCommand>(); }

}  // namespace weft
