// These counts say how much of a dataset there is; they are also the place behind that much of it.
#pragma once

#include <cstdint>

namespace weft {

struct DatasetCounts {
  int64_t num_documents = 0;  // empty ones included
  int64_t num_sequences = 0;
  int64_t num_tokens = 0;

  void add(const DatasetCounts& other) {
    num_documents += other.num_documents;
    num_sequences += other.num_sequences;
    num_tokens += other.num_tokens;
  }
  bool operator==(const DatasetCounts&) const = default;
};

}  // namespace weft
