#include "indexed_dataset/format/repair/repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/repair/rebuild_index.h"
#include "indexed_dataset/format/repair/repair_evidence.h"
#include "indexed_dataset/format/sidecars/dataset_locks.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/problem_list.h"
#include "indexed_dataset/format/soundness/token_id_check.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Candidates in the order of trust; the first one that is not refused is written.
class Repair {
 public:
  Repair(const RepairConfig& config, Evidence evidence)
      : config_(config),
        evidence_(std::move(evidence)),
        bin_(config.prefix.string() + ".bin"),
        part_(config.prefix.string() + ".idx.part"),
        bin_bytes_(InputFile(bin_).size_bytes()),
        draft_(part_) {}
  ~Repair() {
    std::error_code ignored;
    fs::remove(part_, ignored);
  }
  Repair(const Repair&) = delete;

  // True once PREFIX.idx.part holds an index that is as good as the evidence allows.
  bool try_mending(const fs::path& damaged) {
    const MappedFile bytes(damaged);
    const bool is_mended = mend_index(bytes.bytes(), bin_bytes_, evidence_.counts, draft_,
                                      [&](bool has_bounds) { return accept_mended(has_bounds); });
    if (!is_mended) {
      refuse("too much of " + damaged.string() +
             " is gone, or it contradicts the manifest or its checksum");
    }
    return is_mended;
  }

  bool try_end_of_documents() {
    const auto type = token_type();
    if (!type) return false;
    if (evidence_.append_eod == "false" && !config_.end_of_document) {
      refuse(
          "the dataset was made without --append-eod (manifest): nothing in .bin says where "
          "documents end");
      return false;
    }
    if (evidence_.counts.num_tokens < 0 && !has_tokens_of(*type)) return false;
    const auto eod = config_.end_of_document ? config_.end_of_document : last_token(bin_, *type);
    draft_.restart(*type);
    if (bin_bytes_ > 0 && !add_lengths_by_end_of_document(bin_, *type, eod.value_or(-1),
                                                          config_.num_threads, draft_)) {
      refuse(fmt::format("{}: does not end with token {}, so its documents cannot be told by it",
                         bin_.string(), eod.value_or(-1)));
      return false;
    }
    const int64_t num_sequences = draft_.num_sequences();
    const int64_t num_empty =
        evidence_.counts.num_documents < 0 ? 0 : evidence_.counts.num_documents - num_sequences;
    if (num_empty < 0 || !write_bounds(num_empty)) {
      refuse(fmt::format("{}: {} documents by token {}, the manifest or .sources says {}: {}",
                         bin_.string(), num_sequences, eod.value_or(-1),
                         evidence_.counts.num_documents,
                         num_empty < 0 ? "that token stands within documents, too"
                                       : "where the empty documents stand cannot be told (by "
                                         ".sources they are not exactly the shortest lines)"));
      return false;
    }
    std::string how = fmt::format("made anew from {} end-of-document tokens ({})", num_sequences,
                                  eod.value_or(-1));
    if (num_empty > 0) how += fmt::format(" and the sources of {} empty documents", num_empty);
    return accept(how, /*needs_proof=*/num_empty > 0);
  }

  void commit(const fs::path& idx) {
    if (fs::exists(idx)) {
      const MappedFile damaged(idx);
      OutputFile copy(idx.string() + ".damaged");
      copy.write_at(damaged.bytes().data(), damaged.bytes().size(), 0);
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

  bool accept_mended(bool has_bounds) {
    const std::string how = "mended from what is left of it";
    if (has_bounds && accept(how, /*needs_proof=*/false)) return true;
    const int64_t num_empty = evidence_.counts.num_documents - draft_.num_sequences();
    if (num_empty <= 0 || !write_bounds(num_empty)) return false;
    return accept(how + " and the sources of the empty documents", /*needs_proof=*/true);
  }

  // Documents have one sequence each, but for the empty ones, which have none.
  bool write_bounds(int64_t num_empty) {
    std::optional<ShortestLines> empty_lines;
    if (num_empty > 0) {
      empty_lines = ShortestLines::find(sources_path(config_.prefix),
                                        evidence_.counts.num_documents, num_empty);
      if (!empty_lines) return false;
    }
    int64_t bound = 0, document = -1;  // of the bound
    return draft_.finish(draft_.num_sequences() + num_empty + 1, [&] {
      if (document >= 0 && !(empty_lines && empty_lines->contains(document))) ++bound;
      ++document;
      return bound;
    });
  }

  // Ids that no vocabulary has come from reading tokens of another size.
  bool has_tokens_of(TokenType type) {
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
    if (problems.empty()) return true;
    refuse(problems[0] + " if a token has " + std::to_string(size_bytes(type)) +
           " bytes: give the right --token-bytes");
    return false;
  }

  bool accept(const std::string& how, bool needs_proof) {
    if (evidence_.checksums) {
      const std::vector<DatasetFile> files = {{".idx", part_}};
      if (compute_block_checksums(files, config_.num_threads)[0] != *evidence_.checksums) {
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
               : fmt::format("{}: its {} bytes do not fit the {} tokens of the manifest: it is "
                             "damaged, too",
                             bin_.string(), bin_bytes_, num_tokens));
    return std::nullopt;
  }

  const RepairConfig& config_;
  const Evidence evidence_;
  fs::path bin_, part_;
  int64_t bin_bytes_;
  IndexDraft draft_;
  std::string how_;
  std::vector<std::string> refusals_;
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
  DatasetLocks lock({config.prefix});
  RepairReport report;
  Evidence evidence = gather_evidence(config.prefix);
  const bool has_idx = fs::exists(idx), has_checksum = evidence.checksums.has_value();
  if (has_idx) {
    const Blame blame = find_blame(config.prefix, has_checksum, config.num_threads);
    report.was_sound = blame.idx_is_sound;
    report.other_problems = blame.others;
    if (report.was_sound) {
      lock.remove_left_parts(config.prefix, "repair", {".idx"});
      return report;
    }
  }
  if (const fs::path kept = idx.string() + ".damaged"; has_idx && fs::exists(kept)) {
    throw std::invalid_argument(kept.string() +
                                " is there already, which an earlier repair kept (or somebody "
                                "else); move it away, then give the command again");
  }
  lock.claim_parts(config.prefix, "repair", {".idx"});
  Repair repair(config, std::move(evidence));
  const bool is_made = (has_idx && repair.try_mending(idx)) || repair.try_end_of_documents();
  if (!is_made) {
    std::string message = idx.string() + ": cannot be made again:";
    for (const std::string& problem : repair.evidence_problems()) message += "\n  " + problem;
    for (const std::string& refusal : repair.refusals()) message += "\n  " + refusal;
    throw std::runtime_error(message + "\n  tokenize the corpus anew");
  }
  repair.commit(idx);
  report.how = repair.how();
  report.is_proven = repair.is_proven();
  report.other_problems = find_blame(config.prefix, has_checksum, config.num_threads).others;
  return report;
}

}  // namespace weft
