// Are all ids of a .bin within a vocabulary? Internal to this folder.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/soundness/problem_list.h"

namespace weft {

// Takes the file in pieces, from any threads in any order; the answer does not depend on these.
class TokenIdCheck {
 public:
  // Ids must be in [0, vocabulary_size); 0: in [0, 2^31).
  TokenIdCheck(TokenType type, int64_t vocabulary_size);
  // `offset_bytes`: where the piece begins in the file, a multiple of the token's size. A token
  // that the end of the file cuts is left out. Thread-safe.
  void see(int64_t offset_bytes, std::span<const std::byte> bytes);
  void move_to(ProblemList& problems);

 private:
  struct BadId {
    int64_t offset_bytes, id;
  };
  template <typename T>
  void see_ids(int64_t offset_bytes, std::span<const std::byte> bytes);

  TokenType type_;
  int64_t limit_;
  std::mutex mutex_;
  std::vector<BadId> first_;  // those with the lowest offsets so far
  int64_t count_ = 0;
};

}  // namespace weft
