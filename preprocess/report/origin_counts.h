// How much of a dataset is from where: exact counts of every domain and source. Corpora have tens
// of millions of domains; by hash (document_groups.h) they take 16 bytes of memory a document.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "preprocess/datasets/source_map.h"

namespace weft {

struct OriginCount {
  std::string origin;  // as its document has it: any text
  int64_t num_documents = 0, num_tokens = 0;
};

struct OriginCounts {
  int64_t num_origins = 0;  // different ones
  int64_t num_documents_without = 0, num_tokens_without = 0;
  std::vector<OriginCount> largest;  // by documents; equal ones by their first document
};

// Of a map with origins. `num_tokens_of` gives the length of a document, in any thread. Does not
// depend on the number of threads. Throws what SourceMap::entry() throws.
OriginCounts count_origins(const SourceMap& sources, int num_threads, size_t num_largest,
                           const std::function<int64_t(int64_t document_idx)>& num_tokens_of);

}  // namespace weft
