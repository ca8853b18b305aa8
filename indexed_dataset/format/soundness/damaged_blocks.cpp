#include "indexed_dataset/format/soundness/damaged_blocks.h"

#include <algorithm>
#include <fstream>

#include "indexed_dataset/base/process/partition_point.h"
#include "indexed_dataset/base/storage/little_endian.h"
#include "indexed_dataset/format/pair/sources_layout.h"
#include "indexed_dataset/format/soundness/problem_list.h"

namespace weft {
namespace {

// "documents 3 to 5 lie there"
std::string range_of(const std::string& what, int64_t first, int64_t last) {
  if (first == last) return what + " " + std::to_string(first);
  return what + "s " + std::to_string(first) + " to " + std::to_string(last);
}

// The elements of an array at `array_at` that [begin, end) touches.
struct Elements {
  Elements(int64_t array_at, int64_t element_bytes, int64_t count, int64_t begin, int64_t end)
      : first(std::max<int64_t>(0, (begin - array_at) / element_bytes)),
        last(std::min(count - 1, (end - 1 - array_at) / element_bytes)),
        any(end > array_at && first <= last) {}
  int64_t first, last;
  bool any;
};

}  // namespace

// Where the version of the sources is damaged, so is what is said of their first block; the version
// is in that one.
DatasetPlaces::DatasetPlaces(const IndexView* index, const std::filesystem::path& sources)
    : index_(index) {
  char header[kSourceHeaderBytes] = {};
  std::ifstream(sources, std::ios::binary).read(header, sizeof header);
  has_origins_ = load_number<uint32_t>(header + kHasOriginsAt) != 0;
}

std::string DatasetPlaces::describe(const std::string& suffix, int64_t begin, int64_t end) const {
  // Its length is not known here, so that the list of inputs behind the entries may count as
  // entries: never more than there are documents.
  if (suffix == ".sources" && index_ != nullptr) {
    const int64_t num_documents =
        index_->num_bounds == 1 ? index_->num_sequences : index_->num_bounds - 1;
    const Elements entries(kSourceHeaderBytes, source_entry_bytes(has_origins_), num_documents,
                           begin, end);
    return entries.any ? "the sources of " + range_of("document", entries.first, entries.last) +
                             " lie there"
                       : "no document's source lies there";
  }
  if (suffix == ".sources" || index_ == nullptr)
    return "which documents lie there is not known, the index is damaged";
  return suffix == ".bin" ? in_bin(begin, end) : in_idx(begin, end);
}

std::string DatasetPlaces::documents_of_sequences(int64_t first, int64_t last) const {
  return range_of("document", document_of_sequence(*index_, first),
                  document_of_sequence(*index_, last));
}

std::string DatasetPlaces::in_bin(int64_t begin, int64_t end) const {
  // The last sequence that begins before or at `offset`.
  const auto sequence_at = [this](int64_t offset) {
    return partition_point(1, index_->num_sequences,
                           [&](int64_t i) { return index_->offset_bytes(i) <= offset; }) -
           1;
  };
  if (index_->num_sequences == 0) return "no document lies there";
  return documents_of_sequences(sequence_at(begin), sequence_at(end - 1)) + " lie" +
         (sequence_at(begin) == sequence_at(end - 1) ? "s" : "") + " there";
}

std::string DatasetPlaces::in_idx(int64_t begin, int64_t end) const {
  const int64_t num_sequences = index_->num_sequences;
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (begin < kIndexHeaderBytes) add("the header");
  const Elements lengths(kIndexHeaderBytes, 4, num_sequences, begin, end);
  if (lengths.any) add("lengths of " + documents_of_sequences(lengths.first, lengths.last));
  const Elements offsets(kIndexHeaderBytes + 4 * num_sequences, 8, num_sequences, begin, end);
  if (offsets.any) add("offsets of " + documents_of_sequences(offsets.first, offsets.last));
  const Elements bounds(kIndexHeaderBytes + 12 * num_sequences, 8, index_->num_bounds, begin, end);
  if (bounds.any) {
    add("bounds of " + range_of("document", std::max<int64_t>(0, bounds.first - 1),
                                std::max<int64_t>(0, bounds.last - 1)));
  }
  return text + " lie there";
}

void compare_blocks(const std::filesystem::path& path, const FileChecksums& expected,
                    const FileChecksums& found, const DatasetPlaces& places,
                    std::vector<std::string>& problems) {
  if (found.size_bytes != expected.size_bytes) {
    problems.push_back(path.string() + ": has " + std::to_string(found.size_bytes) +
                       " bytes; when the checksums were made it had " +
                       std::to_string(expected.size_bytes));
  }
  ProblemList damaged(path);
  for (size_t i = 0; i < std::min(expected.blocks.size(), found.blocks.size()); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * kChecksumBlockBytes;
    const int64_t end = std::min(begin + kChecksumBlockBytes, found.size_bytes);
    // A block that was longer or shorter cannot be compared; the sizes already differ.
    if (end != std::min(begin + kChecksumBlockBytes, expected.size_bytes)) continue;
    if (expected.blocks[i] == found.blocks[i]) continue;
    damaged.add([&] {
      return "block " + std::to_string(i) + " (bytes " + std::to_string(begin) + " to " +
             std::to_string(end - 1) + ") differs from its checksum; " +
             places.describe(expected.suffix, begin, end);
    });
  }
  damaged.move_to(problems);
}

}  // namespace weft
