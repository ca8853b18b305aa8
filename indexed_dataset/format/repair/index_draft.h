// An .idx that is written from the lengths of its sequences, one after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/dtype.h"

namespace weft {

// All of it is in the file, and about 2 MiB are in memory.
class IndexDraft {
 public:
  // Makes a file with a random name beside `final_path`. All members throw std::system_error.
  explicit IndexDraft(const std::filesystem::path& final_path)
      : file_(OutputFile::create_part(final_path)) {}

  // Empties the draft.
  void restart(TokenType type);
  void add_length(int32_t num_tokens);  // the length of the next sequence
  int64_t num_sequences() const { return num_sequences_; }

  // Writes what follows from the lengths and the header, and syncs. Each sequence is one document.
  void finish();

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void write_lengths();
  void write_offsets();

  OutputFile file_;
  TokenType type_{};
  int64_t num_sequences_ = 0;
  std::vector<int32_t> lengths_;  // the last ones, which are not in the file yet
};

}  // namespace weft
