// Finds documents that are the same, token by token, by their hash (document_groups.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "preprocess/report/document_groups.h"

namespace weft {

struct DuplicateGroup {
  int64_t first_document = 0, num_documents = 0;
  int64_t num_tokens = 0;  // the length of each
};

struct Duplicates {
  int64_t num_groups = 0;     // a group is at least two equal documents
  int64_t num_documents = 0;  // all in groups except the first of each
  int64_t num_tokens = 0;     // the tokens of these, which a dataset without them would save
  std::vector<DuplicateGroup> largest;  // ordered by tokens saved, then by first document
};

// `groups` holds the documents by their text; empty ones are never set and not compared. Sorts
// `groups`. `num_tokens_of` gives the length of a document.
Duplicates find_duplicates(DocumentGroups& groups, int num_threads, size_t num_largest,
                           const std::function<int64_t(int64_t document_idx)>& num_tokens_of);

}  // namespace weft
