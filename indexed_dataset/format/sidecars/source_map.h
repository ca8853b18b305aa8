// PREFIX.sources: from which line of the corpus each document of a dataset came. Its layout is
// drawn in indexed_dataset/format/pair/sources_layout.h.
//
// In the map of a part of the work (--shard) every input has a "part" beside its "path": see
// InputPart. weft-data merge puts parts in a row together.
//
// Origins are kept where --origin-key was given: the domain or the name that a line has for itself
// (preprocess/documents/origin.h), all zeros if it has none.
//
// Documents are those of the .idx, empty ones included. The header is written last: a file without
// it is not complete.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/sources_layout.h"

namespace weft {

// Every message about a map that is damaged, or belongs to another dataset, ends with this advice.
inline constexpr const char* kSourcesHint =
    "move the file away (everything but file names and origins works without it) or make the "
    "dataset again";

// A line may say where it is from. This holds at most 32 bytes of that, valid UTF-8 without a zero
// byte, padded with zeros; it is empty where the line says nothing.
struct Origin {
  std::array<char, kOriginBytes> bytes{};

  std::string_view view() const;
  bool is_empty() const { return bytes[0] == '\0'; }
  friend bool operator==(const Origin&, const Origin&) = default;
};

// True if the bytes are such text: in a file they may be anything.
bool is_valid(const Origin& origin);

// What the locators of an input are: bytes at which lines begin, or numbers of rows.
enum class Locator : uint8_t { kByte, kRow };
using Locators = std::vector<Locator>;  // for each input; empty: all are bytes

struct SourceEntry {
  uint32_t input_idx = 0;
  int64_t offset_bytes = 0;  // the locator: a byte, or the number of a row
  Origin origin{};
};

// The part of an input that a dataset was made of, if that may not be all of it.
struct InputPart {
  int64_t file_begin = 0, file_end = 0;  // bytes of the file; equal if it is none of it
  int64_t file_bytes = 0;                // the size of the whole file
  int64_t num_bytes = 0;                 // the decompressed size of that range
  // True if entries count from the begin of the input. In a compressed file whose earlier parts are
  // not known they count from the begin of the part.
  bool counts_from_input = true;

  bool is_empty() const { return file_begin == file_end; }
  bool is_whole() const { return file_begin == 0 && file_end == file_bytes; }
};
using InputParts = std::vector<std::optional<InputPart>>;  // for each input; nothing if it is whole

// PREFIX.sources
std::filesystem::path sources_path(const std::filesystem::path& prefix);
// Appends an entry's 12 or 44 bytes.
void append_source_entry(std::vector<std::byte>& bytes, const SourceEntry& entry,
                         bool has_origins = false);

// Makes an entry count from `num_bytes` behind the begin of the input.
void subtract_from_source_offset(std::byte* entry, int64_t num_bytes);

// The bytes around the entries. Without `parts` all inputs are whole.
struct SourceMapFrame {
  std::string header, footer;
};
SourceMapFrame source_map_frame(int64_t num_documents, const std::vector<std::string>& inputs,
                                const InputParts& parts = {}, bool has_origins = false,
                                const Locators& locators = {});

// Ends `path` (which may be a part name), whose entries stand at their places: cuts off what lies
// behind them, writes footer and header, and syncs. Calling it again gives the same file. Throws
// std::system_error; std::logic_error if the file is too short for its entries.
void seal_source_map(const std::filesystem::path& path, int64_t num_documents,
                     const std::vector<std::string>& inputs, const InputParts& parts = {},
                     bool has_origins = false, const Locators& locators = {});

// Maps a source map for reading as long as it lives. Thread-safe.
class SourceMap {
 public:
  // Checks magic, version, that the size fits the counts, and the footer. Throws
  // std::runtime_error with what is wrong and where; std::system_error if it cannot be opened.
  explicit SourceMap(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int64_t num_documents() const { return num_documents_; }
  bool has_origins() const { return has_origins_; }  // otherwise those of all entries are empty
  const std::vector<std::string>& inputs() const { return inputs_; }
  const InputParts& parts() const { return parts_; }      // one for each input
  const Locators& locators() const { return locators_; }  // likewise
  // Throws std::out_of_range for a document that is not there, std::runtime_error where the entry
  // names no input, has a negative offset or an origin that is no text.
  SourceEntry entry(int64_t document_idx) const;
  // The same in words: "FILE, byte N (from ORIGIN)", or "row N". Names are as they are: unescaped.
  std::string describe(int64_t document_idx) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  int64_t num_documents_ = 0;
  bool has_origins_ = false;
  std::vector<std::string> inputs_;
  InputParts parts_;
  Locators locators_;
};

class DatasetReader;
// Opens the source map beside a dataset; returns nothing if there is none. Throws what SourceMap
// throws, and std::runtime_error if the map has another number of documents.
std::optional<SourceMap> open_source_map_of(const DatasetReader& reader);

}  // namespace weft
