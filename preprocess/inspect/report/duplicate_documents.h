// Finds documents of several datasets that are equal: of the same tokens, but for the token that
// ends them. With one vocabulary, which is checked, these are the documents of the same text.
//
// Candidates are found by their hashes (document_groups.h), and then compared token by token, so
// that none is found that is not equal. Empty documents are not compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "indexed_dataset/format/merge/drop_list.h"

namespace weft {

struct DuplicateDocuments {
  DropList list;           // all but the first of each group, in the order of the datasets
  int64_t num_tokens = 0;  // of the documents in the list, their end tokens included
};

// `begin` is called with the number of documents before memory for them is taken: 16 bytes each,
// and in the end 32 for each duplicate and the ids of two documents. Throws what DatasetReader
// throws; std::runtime_error for datasets of different vocabularies, and for a damaged index.
DuplicateDocuments find_duplicate_documents(
    const std::vector<std::filesystem::path>& prefixes, int num_threads,
    const std::function<void(int64_t num_documents)>& begin);

}  // namespace weft
