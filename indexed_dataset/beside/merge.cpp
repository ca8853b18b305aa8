#include "indexed_dataset/beside/merge.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/beside/dataset_locks.h"
#include "indexed_dataset/beside/dataset_manifest.h"
#include "indexed_dataset/beside/merge_checks.h"
#include "indexed_dataset/beside/merge_manifest.h"
#include "indexed_dataset/beside/output_conflicts.h"
#include "indexed_dataset/beside/part_versions.h"
#include "indexed_dataset/beside/source_map.h"
#include "indexed_dataset/pair/dataset_files.h"
#include "indexed_dataset/pair/merge_pairs.h"
#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/parallel_for.h"
#include "indexed_dataset/soundness/block_checksums.h"
#include "indexed_dataset/soundness/verify.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/free_space.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Holds the output files under their part names, and removes them unless they were committed.
class OutputParts {
 public:
  // Part files that are there are a killed merge's, which has left its lock, too. Throws
  // std::invalid_argument for those of others.
  OutputParts(fs::path prefix, const DatasetLocks& lock) : prefix_(std::move(prefix)) {
    for (const char* suffix : kDatasetSuffixes) {
      if (lock.was_left_behind() || !fs::exists(part(suffix))) continue;
      throw std::invalid_argument("'" + part(suffix).string() +
                                  "' was not left by a merge, and would be overwritten; move it "
                                  "away, or choose another --output-prefix");
    }
    remove();
  }
  ~OutputParts() { remove(); }
  OutputParts(const OutputParts&) = delete;

  fs::path part(const std::string& suffix) const { return prefix_.string() + suffix + ".part"; }

  void commit() {
    // An older dataset of this name ends here, so that its .idx never stands beside new files.
    remove_file(prefix_.string() + ".idx");
    for (const char* suffix : kDatasetSuffixes) {
      const fs::path name = prefix_.string() + suffix;
      if (fs::exists(part(suffix))) {
        commit_rename(part(suffix), name);
      } else {
        remove_file(name);
      }
    }
  }

 private:
  void remove() noexcept {
    std::error_code ignored;
    for (const char* suffix : kDatasetSuffixes) {
      fs::remove(part(suffix), ignored);
      fs::remove(part(suffix).string() + ".part", ignored);  // of write_file_atomically
    }
  }

  fs::path prefix_;
};

// True if an earlier merge has made the output of these parts, none of which is younger. Throws
// std::invalid_argument if there is a dataset of other parts.
bool is_there_already(const MergeConfig& config, const std::string& manifest) {
  const fs::path index = config.output_prefix.string() + ".idx";
  const fs::path bin = config.output_prefix.string() + ".bin";
  if (config.overwrite) return false;
  if (!fs::exists(index)) {
    // A merge that was killed while it gave names had the index still before it.
    if (!fs::exists(bin) || fs::exists(index.string() + ".part")) return false;
    throw std::invalid_argument("'" + bin.string() +
                                "' is there without its .idx, which weft-data repair may be able "
                                "to make again, or the end of the run that was giving it its name; "
                                "give --overwrite to replace it, or another --output-prefix");
  }
  std::string why = difference_from_merged(dataset_manifest_path(config.output_prefix), manifest);
  if (!fs::exists(bin)) why = "of which the .bin is missing";
  for (const fs::path& prefix : config.prefixes) {
    const fs::path part = prefix.string() + ".idx";
    if (why.empty() && fs::last_write_time(part) > fs::last_write_time(index))
      why = "made before '" + part.string() + "' was";
  }
  if (why.empty()) {
    check_file_sizes(config.output_prefix);
    return true;
  }
  throw std::invalid_argument("'" + index.string() + "' is a finished dataset, " + why +
                              "; give --overwrite to replace it, or another --output-prefix");
}

// Adds up the parts of one input of the merged source map.
class MergedInput {
 public:
  // Returns what must be added to the offsets of a part's entries; nothing if that cannot be known,
  // because what lies before the part in the input was not added last.
  std::optional<int64_t> add(const std::optional<InputPart>& part) {
    is_whole_ |= !part;
    if (!part) return 0;
    if (!sum_ || sum_->is_empty()) {
      if (is_whole_ && !part->counts_from_input) return std::nullopt;
      sum_ = part;
      return 0;
    }
    if (part->is_empty()) return 0;
    const bool follows = sum_->file_end == part->file_begin;
    if (part->counts_from_input ? !sum_->counts_from_input : !follows) return std::nullopt;
    // If the text before a part of a compressed input is known, entries count from the input's
    // begin.
    const int64_t text_begin = sum_->counts_from_input ? sum_->file_begin : 0;
    const int64_t shift = part->counts_from_input ? 0 : text_begin + sum_->num_bytes;
    if (!follows) {
      sum_ = part;
    } else {
      sum_->file_end = part->file_end;
      if (__builtin_add_overflow(sum_->num_bytes, part->num_bytes, &sum_->num_bytes))
        return std::nullopt;
    }
    return shift;
  }

  // Returns the part of the input that the merged dataset has.
  std::optional<InputPart> part() const {
    return is_whole_ || !sum_ || sum_->is_whole() ? std::nullopt : sum_;
  }

 private:
  std::optional<InputPart> sum_;  // the last parts that follow each other, as one
  bool is_whole_ = false;
};

// Makes one map of the sources of all parts. Inputs of one name in several parts are one input; the
// second of a name in one part is the second of that name in others.
class SourcesMerge {
 public:
  // Returns nothing if a part has no sources; a note says which.
  static std::optional<SourcesMerge> open(const PairMerge& pairs, std::vector<std::string>& notes) {
    const char* what = "the result has no source map: ";
    if (!pairs.has_bounds()) {
      notes.push_back(std::string(what) + "no part has document bounds");
      return std::nullopt;
    }
    SourcesMerge merge;
    for (const PairMerge::Part& part : pairs.parts()) {
      const std::string path = sources_path(part.reader.prefix()).string();
      auto map = open_source_map_of(part.reader);
      if (!map) {
        notes.push_back(what + path + " is not there");
        return std::nullopt;
      }
      const std::string lost = merge.add({std::move(*map), part.documents_before, {}});
      if (lost.empty()) continue;
      notes.push_back(
          what + path + " counts the bytes of " + lost +
          " from the begin of its part, and the part before it does not come before it");
      return std::nullopt;
    }
    for (const MergedInput& input : merge.merged_inputs_)
      merge.input_parts_.push_back(input.part());
    return merge;
  }

  int64_t size_bytes() const {
    return source_entry_at(num_documents_, has_origins_) + footer_bytes_;
  }

  // Returns the checksum of all entries, which begin at source_entry_at(0, ...).
  Crc32 write(const fs::path& path, int num_threads, const std::function<void()>& check) const {
    constexpr int64_t kEntries = int64_t{1} << 18;  // 3 MB a piece, 12 with origins
    struct Piece {
      const OnePart* part;
      int64_t first, count;
      Crc32 crc;
    };
    std::vector<Piece> pieces;
    for (const OnePart& part : parts_) {
      for (int64_t i = 0; i < part.map.num_documents(); i += kEntries)
        pieces.push_back({&part, i, std::min(kEntries, part.map.num_documents() - i), {}});
    }
    OutputFile file(path);
    file.truncate(source_entry_at(num_documents_, has_origins_));
    parallel_for(static_cast<int64_t>(pieces.size()), num_threads, [&](int64_t i) {
      check();
      auto& [part, first, count, crc] = pieces[static_cast<size_t>(i)];
      std::vector<std::byte> bytes;
      bytes.reserve(static_cast<size_t>(source_entry_bytes(has_origins_) * count));
      for (int64_t k = first; k < first + count; ++k) {
        SourceEntry entry = part->map.entry(k);
        const NewInput& input = part->new_inputs[entry.input_idx];
        entry.input_idx = input.idx;
        if (__builtin_add_overflow(entry.offset_bytes, input.shift_bytes, &entry.offset_bytes)) {
          throw std::runtime_error(part->map.path().string() +
                                   ": a document beyond the end of all files: it is damaged");
        }
        append_source_entry(bytes, entry, has_origins_);
      }
      crc.add(bytes);
      file.write_at(bytes.data(), bytes.size(),
                    source_entry_at(part->documents_before + first, has_origins_));
    });
    file.close();
    seal_source_map(path, num_documents_, inputs_, input_parts_, has_origins_);
    Crc32 entries;
    for (const Piece& piece : pieces) entries.append(piece.crc);
    return entries;
  }
  int64_t entries_begin() const { return source_entry_at(0, has_origins_); }

 private:
  struct NewInput {
    uint32_t idx;
    int64_t shift_bytes;
  };
  struct OnePart {
    SourceMap map;
    int64_t documents_before;
    std::vector<NewInput> new_inputs;
  };

  // Returns the name of an input whose entries have no place in the merged map; "" if there is
  // none.
  std::string add(OnePart one) {
    std::map<std::string, int> num_seen;
    for (size_t i = 0; i < one.map.inputs().size(); ++i) {
      const std::string& input = one.map.inputs()[i];
      const auto [place, is_new] = index_of_input_.emplace(std::pair(input, num_seen[input]++),
                                                           static_cast<uint32_t>(inputs_.size()));
      if (is_new) {
        inputs_.push_back(input);
        merged_inputs_.emplace_back();
        footer_bytes_ += static_cast<int64_t>(input.size()) + 160;  // with a part's numbers
      }
      const auto shift_bytes = merged_inputs_[place->second].add(one.map.parts()[i]);
      if (!shift_bytes) return input;
      one.new_inputs.push_back({place->second, *shift_bytes});
    }
    num_documents_ += one.map.num_documents();
    has_origins_ |= one.map.has_origins();
    parts_.push_back(std::move(one));
    return "";
  }

  std::vector<OnePart> parts_;
  std::vector<std::string> inputs_;
  std::vector<MergedInput> merged_inputs_;  // beside inputs_
  InputParts input_parts_;
  std::map<std::pair<std::string, int>, uint32_t> index_of_input_;  // by name and how many before
  int64_t num_documents_ = 0, footer_bytes_ = 32;
  bool has_origins_ = false;  // true if any part has origins; those of the others are empty then
};

// The entries of a source map are compared; its header and list of inputs are checked by reading.
void check_opens(const fs::path& sources) {
  try {
    SourceMap{sources};
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw ChecksumMismatch(std::string("what was written to it was lost: ") + error.what());
  }
}

}  // namespace

MergeReport merge_datasets(const MergeConfig& config, const std::function<void()>& check) {
  std::vector<fs::path> inputs;
  for (const fs::path& prefix : config.prefixes) {
    for (const char* suffix : {".bin", ".idx"}) inputs.emplace_back(prefix.string() + suffix);
  }
  guard_outputs({config.output_prefix}, {}, {}, inputs);
  const DatasetLocks lock({config.output_prefix});
  const PairMerge pairs(config.prefixes);
  MergeReport report;
  report.notes = compare_part_versions(pairs);
  const auto sources = SourcesMerge::open(pairs, report.notes);
  const auto [manifest, note] = merged_manifest(pairs, config.program_version, config.options);
  if (!note.empty()) report.notes.push_back(note);
  report.num_documents = pairs.num_documents();
  report.num_tokens = pairs.num_tokens();
  report.was_there = is_there_already(config, manifest);
  if (report.was_there) return report;

  OutputParts parts(config.output_prefix, lock);
  const int64_t pair_bytes = pairs.bin_bytes() + pairs.idx_bytes();
  // Checksums: 17 bytes for each 16 MiB.
  require_free_space(config.output_prefix, pair_bytes + (sources ? sources->size_bytes() : 0) +
                                               pair_bytes / 900000 +
                                               static_cast<int64_t>(manifest.size()));
  const PartChecks part_checks(pairs, config.num_threads);
  const auto see_part = [&](size_t part, int64_t at, std::span<const std::byte> bytes) {
    check();
    part_checks.compare(part, at, bytes);
  };
  const auto [bin, idx] =
      pairs.write(parts.part(".bin"), parts.part(".idx"), config.num_threads, see_part);
  std::vector<DatasetFile> files = {{".bin", parts.part(".bin")}, {".idx", parts.part(".idx")}};
  std::vector<WrittenFile> written = {{files[0].path, 0, bin}, {files[1].path, 0, idx}};
  if (sources) {
    files.push_back({".sources", parts.part(".sources")});
    const Crc32 entries = sources->write(files[2].path, config.num_threads, check);
    written.push_back({files[2].path, sources->entries_begin(), entries});
  }
  ReadBack read_back(std::move(written));
  const auto see_result = [&](size_t file, int64_t at, std::span<const std::byte> bytes) {
    check();
    read_back.see(file, at, bytes);
  };
  const auto checksums = compute_block_checksums(files, config.num_threads, see_result);
  read_back.check();
  if (sources) check_opens(parts.part(".sources"));
  write_block_checksums(parts.part(".checksums"), checksums);
  write_file_atomically(parts.part(".manifest.json"), manifest);
  check();
  parts.commit();

  report.num_bytes = pair_bytes;
  return report;
}

}  // namespace weft
