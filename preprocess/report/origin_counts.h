// Counts exactly how much of a dataset comes from every domain and source. Corpora have tens of
// millions of domains; by hash (document_groups.h) they take 16 bytes of memory a document.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "preprocess/datasets/source_map.h"

namespace weft {

struct OriginCount {
  std::string origin;  // any text, as the document has it
  int64_t num_documents = 0, num_tokens = 0;
};

struct OriginCounts {
  int64_t num_origins = 0;  // the number of different origins
  int64_t num_documents_without = 0, num_tokens_without = 0;
  std::vector<OriginCount> largest;  // ordered by documents, equal ones by their first document
};

// `sources` must have origins. `num_tokens_of` gives the length of a document and is called by any
// thread. The result does not depend on the number of threads. Throws what SourceMap::entry()
// throws.
OriginCounts count_origins(const SourceMap& sources, int num_threads, size_t num_largest,
                           const std::function<int64_t(int64_t document_idx)>& num_tokens_of);

}  // namespace weft
