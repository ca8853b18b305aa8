// Finds the blocks that differ from their checksums, and the documents that lie in them. Internal
// to this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/index_view.h"
#include "indexed_dataset/format/soundness/block_checksums.h"

namespace weft {

// Says what a byte range of one of a dataset's files holds.
class DatasetPlaces {
 public:
  // Without a sound index (null) nothing is known of .bin and .idx. `sources`: PREFIX.sources,
  // which need not be there.
  DatasetPlaces(const IndexView* index, const std::filesystem::path& sources);
  // "documents 10 to 19 lie there". [begin, end) is not empty and within the file.
  std::string describe(const std::string& suffix, int64_t begin, int64_t end) const;

 private:
  std::string in_bin(int64_t begin, int64_t end) const;
  std::string in_idx(int64_t begin, int64_t end) const;
  std::string documents_of_sequences(int64_t first, int64_t last) const;

  const IndexView* index_;
  bool has_origins_ = false;  // in .sources
};

// Adds one problem for every block of `found` that `expected` does not have, the first few in
// words, and one for another size.
void compare_blocks(const std::filesystem::path& path, const FileChecksums& expected,
                    const FileChecksums& found, const DatasetPlaces& places,
                    std::vector<std::string>& problems);

}  // namespace weft
