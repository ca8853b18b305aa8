// weft-data verify checks that a dataset and what stands beside it is what was written.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/pair/reader.h"
#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/soundness/block_checksums.h"
#include "indexed_dataset/soundness/verify.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/messages.h"
#include "preprocess/datasets/dataset_manifest.h"
#include "preprocess/datasets/dataset_text.h"
#include "preprocess/datasets/source_map.h"
#include "preprocess/terminal/prefix_options.h"
#include "preprocess/terminal/terminal_text.h"
#include "tokenizer/vocabulary.h"

namespace weft {
namespace {

class VerifyCommand final : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string description() const override {
    return "check every byte of a dataset against its checksums, and its structure";
  }
  void declare(OptionSet& options) override {
    options_.declare(options);
    threads_.declare(options);
  }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const std::filesystem::path prefix = without_suffix(options_.prefix);
    check_index_is_there(prefix);
    const auto manifest = read_dataset_manifest(prefix);
    int64_t vocabulary_size = manifest ? manifest->vocabulary_size : 0;
    if (!options_.vocabulary.vocab_file.empty()) {
      vocabulary_size =
          Vocabulary::load(options_.vocabulary.vocab_file, options_.vocabulary.merge_file)->size();
    }
    VerifyResult result = verify_dataset_files(prefix, vocabulary_size, threads_.resolved());
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
    const std::string path = manifest_path(reader.prefix()).string();
    if (reader.num_documents() != manifest.num_documents) {
      problems.push_back(fmt::format("{}: says {} documents, the index holds {}", path,
                                     manifest.num_documents, reader.num_documents()));
    }
    if (reader.num_tokens() != manifest.num_tokens) {
      problems.push_back(fmt::format("{}: says {} tokens, the index holds {}", path,
                                     manifest.num_tokens, reader.num_tokens()));
    }
  }

  static void check_sources(const DatasetReader& reader, std::vector<std::string>& problems) {
    const std::filesystem::path path = sources_path(reader.prefix());
    if (!std::filesystem::exists(path)) return;
    try {
      const SourceMap sources(path);
      if (sources.num_documents() != reader.num_documents()) {
        problems.push_back(fmt::format("{}: holds the sources of {} documents, the index {}",
                                       path.string(), sources.num_documents(),
                                       reader.num_documents()));
      }
      for (int64_t i = 0; i < sources.num_documents(); ++i) sources.entry(i);
    } catch (const std::system_error&) {
      throw;
    } catch (const std::runtime_error& error) {
      problems.push_back(error.what());
    }
  }

  static int print(const std::filesystem::path& prefix, const VerifyResult& result,
                   int64_t vocabulary_size) {
    // fmt::print would throw when the reader has gone: the exit code must still tell.
    for (const auto* problems : {&result.structure_problems, &result.checksum_problems}) {
      for (const std::string& problem : *problems)
        std::fprintf(stdout, "%s\n", escape_message(problem).c_str());
    }
    const size_t num_problems = result.structure_problems.size() + result.checksum_problems.size();
    if (num_problems > 0) {
      print_message(fmt::format("error: {}: {} problem{}", prefix.string(), num_problems,
                                num_problems == 1 ? "" : "s"));
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

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace weft
