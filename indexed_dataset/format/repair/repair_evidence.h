// Gathers what is known of a dataset whose .idx is lost or damaged. A repair goes by this evidence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/format/repair/rebuild_index.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"

namespace weft {

// Holds what is known of the dataset without its .idx.
struct Evidence {
  ExpectedCounts counts;
  std::string append_eod;                  // --append-eod in the manifest; "" if it is not known
  std::optional<FileChecksums> checksums;  // those of the .idx
  std::vector<std::string> problems;       // what is wrong with the evidence itself
};

// Reads what stands beside the pair. Throws std::system_error.
Evidence gather_evidence(const std::filesystem::path& prefix);

// Tells the lines of empty documents by .sources, as those that are shorter than all others. The end
// of the last document of an input is not known: its line is taken for a long one.
class ShortestLines {
 public:
  // Returns nothing if there is no .sources of so many documents, or if it has not exactly `count`
  // lines that are shorter than all others.
  static std::optional<ShortestLines> find(const std::filesystem::path& path, int64_t num_documents,
                                           int64_t count);

  bool contains(int64_t document) const { return bytes_of(document) <= longest_bytes_; }

 private:
  static constexpr int64_t kLongLine = INT64_MAX;

  explicit ShortestLines(const std::filesystem::path& path) : sources_(path) {}
  int64_t bytes_of(int64_t document) const;

  SourceMap sources_;
  int64_t longest_bytes_ = 0;
};

// Divides what is wrong with the dataset into faults of the .idx and others. The checksum of the .idx
// decides; without one an .idx that contradicts itself or the size of .bin is at fault.
struct Blame {
  bool idx_is_sound = true;
  std::vector<std::string> others;
};

Blame find_blame(const std::filesystem::path& prefix, bool idx_has_checksum, int num_threads);

}  // namespace weft
