// An .idx that is written from the lengths of its sequences, one after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/dtype.h"

namespace weft {

// All of it is in the file, and about 2 MiB are in memory.
class IndexDraft {
 public:
  // Makes the file, or empties it. All members throw std::system_error.
  explicit IndexDraft(const std::filesystem::path& path) : file_(path) {}

  // Empties the draft.
  void restart(TokenType type);
  void add_length(int32_t num_tokens);  // the length of the next sequence
  int64_t num_sequences() const { return num_sequences_; }

  // Writes what follows from the lengths, the document bounds, and the header, and syncs.
  // `next_bound` is called `num_bounds` times. False, and the file is no index, if it gives a
  // negative number (the bound cannot be told) or not the number of sequences at last. May be called
  // again.
  bool finish(int64_t num_bounds, const std::function<int64_t()>& next_bound);

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
