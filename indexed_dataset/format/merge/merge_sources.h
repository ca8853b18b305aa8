// Makes one source map of those of all parts of a merge. Inputs of one name in several parts are
// one input; the second of a name in one part is the second of that name in others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "indexed_dataset/base/storage/crc32.h"
#include "indexed_dataset/format/merge/merge_pairs.h"
#include "indexed_dataset/format/sidecars/source_map.h"

namespace weft {

// Adds up the parts of one input.
class MergedInput {
 public:
  // Returns what must be added to the offsets of a part's entries; nothing if that cannot be known,
  // because what lies before the part in the input was not added last.
  std::optional<int64_t> add(const std::optional<InputPart>& part);
  // Returns the part of the input that the merged dataset has.
  std::optional<InputPart> part() const;

 private:
  std::optional<InputPart> sum_;  // the last parts that follow each other, as one
  bool is_whole_ = false;
};

class SourcesMerge {
 public:
  // Returns nothing if a part has no sources; a note says which. Throws what SourceMap throws.
  // `pairs` must outlive it.
  static std::optional<SourcesMerge> open(const PairMerge& pairs, std::vector<std::string>& notes);

  int64_t size_bytes() const;
  // Writes and seals the map. `check` is called often, from any thread. Returns the checksum of all
  // entries, which begin at entries_begin(). Throws std::system_error, and std::runtime_error for a
  // damaged entry.
  Crc32 write(const std::filesystem::path& path, int num_threads,
              const std::function<void()>& check) const;
  int64_t entries_begin() const { return source_entry_at(0, has_origins_); }

 private:
  struct NewInput {
    uint32_t idx;
    int64_t shift_bytes;
  };
  struct OnePart {
    SourceMap map;
    int64_t documents_before;
    const DroppedRanges* dropped;  // of its documents
    std::vector<NewInput> new_inputs;

    // The entry of a document as the merged map has it.
    SourceEntry entry(int64_t document_idx) const;
  };

  // Returns the name of an input whose entries have no place in the merged map; "" if there is
  // none.
  std::string add(OnePart one);

  std::vector<OnePart> parts_;
  std::vector<std::string> inputs_;
  Locators locators_;                       // beside inputs_
  std::vector<MergedInput> merged_inputs_;  // beside inputs_
  InputParts input_parts_;
  // By name, what its locators are, and how many of the name came before.
  std::map<std::tuple<std::string, Locator, int>, uint32_t> index_of_input_;
  int64_t num_documents_ = 0, footer_bytes_ = 32;
  bool has_origins_ = false;  // true if any part has origins; those of the others are empty then
};

}  // namespace weft
