// The list of documents that a merge leaves out, as weft-data report --duplicates writes it. Lines
// of text:
//
//   weft-data duplicates 1
//   dataset DOCUMENTS TOKENS XXH3 PREFIX        the datasets, in their order; XXH3-64 of the .idx
//   duplicate DATASET DOCUMENT DATASET DOCUMENT  a document, and the equal one that stays; from 0
//   end COUNT                                    of duplicates: a list without it is not whole
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/reader.h"

namespace weft {

struct DropList {
  struct Dataset {
    int64_t num_documents = 0, num_tokens = 0;
    uint64_t idx_hash = 0;
    std::string prefix;  // for people
  };
  struct Place {
    int64_t dataset_idx = 0, document_idx = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Duplicate {
    Place document, first;
  };
  std::vector<Dataset> datasets;
  std::vector<Duplicate> duplicates;  // ordered by `document`, which is behind its `first`
};

// Describes a dataset so that another one is told from it.
DropList::Dataset describe_for_drop_list(const DatasetReader& reader);

std::string to_text(const DropList& list);
// Reads a list. Throws std::runtime_error if it is none, or not whole.
DropList read_drop_list(const std::filesystem::path& path);
// True if the file is a list of documents to drop, by its first line.
bool is_drop_list(const std::filesystem::path& path);

// The documents of each dataset that the list at `path` leaves out, in order. Throws as
// read_drop_list(), and UsageError if it was made of others than these, or in another order: the
// document that stays might be missing.
std::vector<std::vector<int64_t>> documents_to_drop(
    const std::filesystem::path& path, const std::vector<std::filesystem::path>& prefixes);

}  // namespace weft
