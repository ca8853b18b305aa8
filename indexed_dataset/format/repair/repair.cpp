#include "indexed_dataset/format/repair/repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/repair/rebuild_index.h"
#include "indexed_dataset/format/sidecars/dataset_locks.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/problem_list.h"
#include "indexed_dataset/format/soundness/token_id_check.h"
#include "indexed_dataset/format/soundness/verify.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// What the files beside the pair say of it; -1: not known.
struct Evidence {
  bool has_manifest = false;
  int64_t num_documents = -1, num_tokens = -1, end_of_document = -1;
  std::optional<FileChecksums> checksums;  // those of the .idx
  std::string problems;                    // what is wrong with these files themselves
};

Evidence gather_evidence(const fs::path& prefix) {
  Evidence evidence;
  try {
    if (const auto manifest = read_dataset_manifest(prefix)) {
      evidence.has_manifest = true;
      evidence.num_documents = manifest->num_documents;
      evidence.num_tokens = manifest->num_tokens;
      evidence.end_of_document = manifest->vocabulary.end_of_document;
    } else if (fs::exists(sources_path(prefix))) {
      evidence.num_documents = SourceMap(sources_path(prefix)).num_documents();
    }
    if (const auto stored = read_block_checksums(checksums_path(prefix))) {
      for (const FileChecksums& file : *stored) {
        if (file.suffix == ".idx") evidence.checksums = file;
      }
    }
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    evidence.problems = std::string("\n  ") + error.what();
  }
  return evidence;
}

class Repair {
 public:
  Repair(const RepairConfig& config, Evidence evidence)
      : config_(config),
        evidence_(std::move(evidence)),
        idx_(config.prefix.string() + ".idx"),
        bin_(config.prefix.string() + ".bin"),
        bin_bytes_(InputFile(bin_).size_bytes()),
        draft_(OutputFile::create_part(idx_)) {}
  ~Repair() {
    std::error_code ignored;
    fs::remove(draft_.path(), ignored);
  }
  Repair(const Repair&) = delete;

  // Writes the draft and returns how it was made. Throws std::runtime_error if it cannot be made.
  std::string make() {
    const TokenType type = token_type();
    const int64_t end = end_of_document();
    if (evidence_.num_tokens < 0) check_tokens_of(type);
    const auto num_rebuilt =
        rebuild_index(bin_, type, end, config_.num_threads, draft_, config_.on_progress);
    if (!num_rebuilt) {
      refuse(fmt::format("{} does not end with token {}, so its documents cannot be told by it",
                         bin_.string(), end));
    }
    const int64_t num_found = *num_rebuilt, num_expected = evidence_.num_documents;
    if (num_expected >= 0 && num_found != num_expected) {
      refuse(fmt::format("{}: {} documents by token {}, the manifest or .sources says {}: {}",
                         bin_.string(), num_found, end, num_expected,
                         num_found > num_expected
                             ? "that token stands within documents, too"
                             : "where the empty documents stand cannot be told"));
    }
    std::string how = fmt::format("made anew from {} end-of-document tokens ({})", num_found, end);
    const std::vector<DatasetFile> files = {{".idx", draft_.path()}};
    if (evidence_.checksums &&
        compute_block_checksums(files, config_.num_threads)[0] != *evidence_.checksums)
      refuse(how + ": is not what its checksum says was lost");
    return how;
  }

  void commit() {
    if (fs::exists(idx_)) {
      const MappedFile damaged(idx_);
      OutputFile copy(idx_.string() + ".damaged");
      copy.write_at(damaged.bytes().data(), damaged.bytes().size(), 0);
      copy.sync();
      copy.close();
    }
    commit_rename(draft_.path(), idx_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::runtime_error(idx_.string() + ": cannot be made again:" + evidence_.problems +
                             "\n  " + why + "\n  tokenize the corpus anew");
  }

  TokenType token_type() const {
    const int64_t num_tokens = evidence_.num_tokens;
    if (num_tokens >= 0 && num_tokens * config_.token_bytes.value_or(2) != bin_bytes_ &&
        num_tokens * config_.token_bytes.value_or(4) != bin_bytes_) {
      refuse(
          fmt::format("{}: its {} bytes do not fit the {} tokens of the manifest: it is damaged, "
                      "too",
                      bin_.string(), bin_bytes_, num_tokens));
    }
    if (num_tokens < 0 && !config_.token_bytes)
      refuse("there is no manifest: give --token-bytes and --eod-id");
    const int64_t token_bytes =
        config_.token_bytes.value_or(num_tokens > 0 ? bin_bytes_ / num_tokens : 2);
    return token_bytes == 2 ? TokenType::kUInt16 : TokenType::kInt32;
  }

  int64_t end_of_document() const {
    if (config_.end_of_document) return *config_.end_of_document;
    if (!evidence_.has_manifest) refuse("there is no manifest: give --token-bytes and --eod-id");
    if (evidence_.end_of_document < 0) {
      refuse(
          "by the manifest no token ends the documents (it was made without --append-eod): nothing in "
          ".bin says where they end (if one does, give --eod-id)");
    }
    return evidence_.end_of_document;
  }

  // Ids that no vocabulary has come from reading tokens of another size.
  void check_tokens_of(TokenType type) const {
    constexpr int64_t kLargestVocabulary = 1 << 24;
    TokenIdCheck ids(type, kLargestVocabulary);
    const std::vector<DatasetFile> files = {{".bin", bin_}};
    compute_block_checksums(files, config_.num_threads,
                            [&](size_t, int64_t offset_bytes, std::span<const std::byte> bytes) {
                              ids.see(offset_bytes, bytes);
                            });
    ProblemList bad_ids(bin_);
    ids.move_to(bad_ids);
    std::vector<std::string> problems;
    bad_ids.move_to(problems);
    if (problems.empty()) return;
    refuse(problems[0] + " if a token has " + std::to_string(size_bytes(type)) +
           " bytes: give the right --token-bytes");
  }

  const RepairConfig& config_;
  const Evidence evidence_;
  fs::path idx_, bin_;
  int64_t bin_bytes_;
  OutputFile draft_;
};

}  // namespace

RepairReport repair_dataset(const RepairConfig& config) {
  const fs::path idx = config.prefix.string() + ".idx", bin = config.prefix.string() + ".bin";
  if (!fs::exists(bin)) {
    throw std::system_error(ENOENT, std::generic_category(),
                            "'" + bin.string() +
                                "' is not there: the tokens cannot be made again from anything "
                                "beside them; tokenize the corpus anew");
  }
  const DatasetLocks lock({config.prefix});
  RepairReport report;
  if (fs::exists(idx)) {
    const VerifyResult found =
        verify_dataset_files(config.prefix, 0, config.num_threads, config.on_progress);
    if (found.index_is_sound) {
      report.was_sound = true;
      report.other_problems = found.problems();
      return report;
    }
    if (const fs::path kept = idx.string() + ".damaged"; fs::exists(kept)) {
      throw UsageError(kept.string() +
                       " is there already, which an earlier repair kept (or somebody "
                       "else); move it away, then give the command again");
    }
  }
  Evidence evidence = gather_evidence(config.prefix);
  report.is_proven = evidence.checksums.has_value();
  Repair repair(config, std::move(evidence));
  report.how = repair.make();
  repair.commit();
  report.other_problems =
      verify_dataset_files(config.prefix, 0, config.num_threads, config.on_progress).problems();
  return report;
}

}  // namespace weft
