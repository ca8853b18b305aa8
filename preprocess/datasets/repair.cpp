#include "preprocess/datasets/repair.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/soundness/block_checksums.h"
#include "indexed_dataset/soundness/rebuild_index.h"
#include "indexed_dataset/soundness/verify.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/lock_file.h"
#include "preprocess/datasets/dataset_manifest.h"
#include "preprocess/datasets/source_map.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// What is known of the dataset without its .idx.
struct Evidence {
  ExpectedCounts counts;
  std::optional<bool> has_end_of_document;  // by --append-eod in the manifest
  std::optional<FileChecksums> checksums;   // of the .idx
  std::vector<std::string> problems;        // with the evidence itself
};

Evidence gather_evidence(const fs::path& prefix) {
  Evidence evidence;
  try {
    if (const auto manifest = read_dataset_manifest(prefix)) {
      evidence.counts = {manifest->num_documents, manifest->num_tokens};
      const auto json = parse_json<nlohmann::json>(read_file(manifest_path(prefix)));
      if (json.contains("options") && json["options"].contains("append-eod")) {
        const auto& value = json["options"]["append-eod"];
        evidence.has_end_of_document = value == "true" || value == true;
      }
    }
    if (const auto stored = read_block_checksums(checksums_path(prefix))) {
      for (const FileChecksums& file : *stored) {
        if (file.suffix == ".idx") evidence.checksums = file;
      }
    }
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    evidence.problems.push_back(error.what());
  }
  return evidence;
}

// Candidates in the order of trust; the first one that is not refused is written.
class Repair {
 public:
  Repair(const RepairConfig& config, Evidence evidence)
      : config_(config),
        evidence_(std::move(evidence)),
        bin_(config.prefix.string() + ".bin"),
        part_(config.prefix.string() + ".idx.part"),
        bin_bytes_(InputFile(bin_).size_bytes()) {}
  ~Repair() {
    std::error_code ignored;
    fs::remove(part_, ignored);
  }
  Repair(const Repair&) = delete;

  // True once PREFIX.idx.part holds an index that is as good as the evidence allows.
  bool try_mending(const fs::path& damaged) {
    const MappedFile bytes(damaged);
    const bool is_mended =
        mend_index(bytes.bytes(), bin_bytes_, evidence_.counts,
                   [&](RebuiltIndex index) { return accept_mended(std::move(index)); });
    if (!is_mended) {
      refuse("too much of " + damaged.string() +
             " is gone, or it contradicts the manifest or its checksum");
    }
    return is_mended;
  }

  bool try_end_of_documents() {
    const auto type = token_type();
    if (!type) return false;
    if (evidence_.has_end_of_document == false && !config_.end_of_document) {
      refuse(
          "the dataset was made without --append-eod (manifest): nothing in .bin says where "
          "documents end");
      return false;
    }
    const auto eod = config_.end_of_document ? config_.end_of_document : last_token(bin_, *type);
    std::optional<std::vector<int32_t>> lengths = std::vector<int32_t>{};
    if (bin_bytes_ > 0)
      lengths = lengths_by_end_of_document(bin_, *type, eod.value_or(-1), config_.num_threads);
    if (!lengths) {
      refuse(bin_.string() + ": does not end with token " + std::to_string(eod.value_or(-1)) +
             ", so its documents cannot be told by it");
      return false;
    }
    const int64_t num_sequences = std::ssize(*lengths);
    const int64_t num_empty =
        evidence_.counts.num_documents < 0 ? 0 : evidence_.counts.num_documents - num_sequences;
    const std::string counts = std::to_string(num_sequences) + " documents by token " +
                               std::to_string(eod.value_or(-1)) + ", the manifest says " +
                               std::to_string(evidence_.counts.num_documents);
    if (num_empty < 0) {
      refuse(bin_.string() + ": " + counts + ": that token stands within documents, too");
      return false;
    }
    std::vector<int64_t> empty_documents;
    if (num_empty > 0) {
      const auto found = shortest_lines(num_empty);
      if (!found) {
        refuse(bin_.string() + ": " + counts +
               ": where the empty documents stand cannot be told (by .sources they are not "
               "exactly the shortest lines)");
        return false;
      }
      empty_documents = *found;
    }
    const auto bounds = bounds_with_empty_documents(num_sequences, empty_documents);
    return accept(
        {*type, std::move(*lengths), bounds},
        "made anew from " + std::to_string(num_sequences) + " end-of-document tokens (" +
            std::to_string(eod.value_or(-1)) + ")" +
            (num_empty > 0 ? " and the sources of " + std::to_string(num_empty) + " empty documents"
                           : ""),
        num_empty > 0);
  }

  void commit(const fs::path& idx) {
    if (fs::exists(idx)) {
      const InputFile damaged(idx);
      OutputFile copy(idx.string() + ".damaged");
      copy.copy_at(damaged, 0, damaged.size_bytes(), 0);
      copy.sync();
      copy.close();
    }
    commit_rename(part_, idx);
  }

  const std::string& how() const { return how_; }
  bool is_proven() const { return evidence_.checksums.has_value(); }
  const std::vector<std::string>& evidence_problems() const { return evidence_.problems; }
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  void refuse(const std::string& why) {
    if (std::find(refusals_.begin(), refusals_.end(), why) == refusals_.end())
      refusals_.push_back(why);
  }

  bool accept_mended(RebuiltIndex index) {
    const std::string how = "mended from what is left of it";
    if (!index.bounds.empty() && accept(index, how, /*needs_proof=*/false)) return true;
    const int64_t num_empty = evidence_.counts.num_documents - std::ssize(index.lengths);
    if (num_empty <= 0) return false;
    const auto empty_documents = shortest_lines(num_empty);
    if (!empty_documents) return false;
    index.bounds = bounds_with_empty_documents(std::ssize(index.lengths), *empty_documents);
    return accept(index, how + " and the sources of the empty documents", /*needs_proof=*/true);
  }

  bool accept(const RebuiltIndex& index, const std::string& how, bool needs_proof) {
    if (index.bounds.empty()) {
      refuse(how + ": the empty documents do not fit");
      return false;
    }
    write_index(part_, index);
    if (evidence_.checksums) {
      const std::vector<DatasetFile> files = {{".idx", part_}};
      const auto found = compute_block_checksums(files, config_.num_threads)[0];
      if (found.size_bytes != evidence_.checksums->size_bytes ||
          found.blocks != evidence_.checksums->blocks) {
        refuse(how + ": is not what its checksum says was lost");
        return false;
      }
    } else if (needs_proof) {
      refuse(how + ": is a guess that only a checksum of the .idx could prove");
      return false;
    }
    how_ = how;
    return true;
  }

  std::optional<TokenType> token_type() {
    std::optional<int64_t> item_bytes = config_.token_bytes;
    const int64_t num_tokens = evidence_.counts.num_tokens;
    if (!item_bytes && num_tokens > 0 && bin_bytes_ % num_tokens == 0)
      item_bytes = bin_bytes_ / num_tokens;
    if (!item_bytes && num_tokens == 0 && bin_bytes_ == 0) item_bytes = 2;
    if (item_bytes == 2) return TokenType::kUInt16;
    if (item_bytes == 4) return TokenType::kInt32;
    refuse(num_tokens < 0
               ? "there is no manifest: give --token-bytes and --eod-id"
               : bin_.string() + ": its " + std::to_string(bin_bytes_) + " bytes do not fit the " +
                     std::to_string(num_tokens) + " tokens of the manifest: it is damaged, too");
    return std::nullopt;
  }

  // The documents with the `count` shortest lines, if no other line is as short.
  std::optional<std::vector<int64_t>> shortest_lines(int64_t count) const {
    const fs::path path = sources_path(config_.prefix);
    if (!fs::exists(path)) return std::nullopt;
    const SourceMap sources(path);
    const int64_t num_documents = sources.num_documents();
    if (num_documents != evidence_.counts.num_documents) return std::nullopt;
    // Of the last document of an input the end is not known: it is taken for a long one.
    std::vector<std::pair<int64_t, int64_t>> lines;  // bytes, document
    for (int64_t i = 0; i + 1 < num_documents; ++i) {
      const SourceEntry entry = sources.entry(i), next = sources.entry(i + 1);
      if (entry.input_idx == next.input_idx && next.offset_bytes > entry.offset_bytes)
        lines.emplace_back(next.offset_bytes - entry.offset_bytes, i);
    }
    if (std::ssize(lines) <= count) return std::nullopt;
    std::nth_element(lines.begin(), lines.begin() + count, lines.end());
    const auto longest_taken = std::max_element(lines.begin(), lines.begin() + count);
    if (longest_taken->first == lines[static_cast<size_t>(count)].first) return std::nullopt;
    std::vector<int64_t> documents;
    for (int64_t i = 0; i < count; ++i) documents.push_back(lines[static_cast<size_t>(i)].second);
    std::sort(documents.begin(), documents.end());
    return documents;
  }

  const RepairConfig& config_;
  const Evidence evidence_;
  fs::path bin_, part_;
  int64_t bin_bytes_;
  std::string how_;
  std::vector<std::string> refusals_;
};

// What is wrong with the dataset, parted by whose fault it is. The checksum of the .idx knows best;
// without it an .idx that contradicts itself or the size of .bin is to blame.
struct Blame {
  bool idx_is_sound = true;
  std::vector<std::string> others;
};

Blame find_blame(const fs::path& prefix, bool idx_has_checksum, int num_threads) {
  const VerifyResult result = verify_dataset_files(prefix, 0, num_threads);
  const std::string idx = prefix.string() + ".idx: ", bin_size = prefix.string() + ".bin: has ";
  Blame blame;
  for (const std::string& problem : result.checksum_problems) {
    if (problem.starts_with(idx)) {
      blame.idx_is_sound = false;
    } else {
      blame.others.push_back(problem);
    }
  }
  for (const std::string& problem : result.structure_problems) {
    if (!idx_has_checksum && (problem.starts_with(idx) || problem.starts_with(bin_size))) {
      blame.idx_is_sound = false;
    } else if (!problem.starts_with(idx)) {
      blame.others.push_back(problem);
    }
  }
  return blame;
}

}  // namespace

RepairReport repair_dataset(const RepairConfig& config) {
  const fs::path idx = config.prefix.string() + ".idx", bin = config.prefix.string() + ".bin";
  if (!fs::exists(bin)) {
    throw std::system_error(ENOENT, std::generic_category(),
                            "'" + bin.string() +
                                "' is not there: the tokens cannot be made again from anything "
                                "beside them; tokenize the corpus anew");
  }
  const LockFile lock(config.prefix.string() + ".lock");
  RepairReport report;
  Evidence evidence = gather_evidence(config.prefix);
  const bool has_idx = fs::exists(idx), has_checksum = evidence.checksums.has_value();
  if (has_idx) {
    const Blame blame = find_blame(config.prefix, has_checksum, config.num_threads);
    report.was_sound = blame.idx_is_sound;
    report.other_problems = blame.others;
    if (report.was_sound) return report;
  }
  Repair repair(config, std::move(evidence));
  const bool is_made = (has_idx && repair.try_mending(idx)) || repair.try_end_of_documents();
  if (!is_made) {
    std::string message = idx.string() + ": cannot be made again:";
    for (const std::string& problem : repair.evidence_problems()) message += "\n  " + problem;
    for (const std::string& refusal : repair.refusals()) message += "\n  " + refusal;
    throw std::runtime_error(message + "\ntokenize the corpus anew");
  }
  repair.commit(idx);
  report.how = repair.how();
  report.is_proven = repair.is_proven();
  report.other_problems = find_blame(config.prefix, has_checksum, config.num_threads).others;
  return report;
}

}  // namespace weft
