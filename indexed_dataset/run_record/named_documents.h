// Collects documents of a run's datasets that are named one by one, and refuses names that mean
// none or several.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "indexed_dataset/run_record/dataset_names.h"
#include "indexed_dataset/run_record/open_dataset.h"
#include "indexed_dataset/run_record/source_line.h"

namespace weft {

struct NamedDocument {
  int64_t dataset_idx = 0, document_idx = 0;  // the former in names()
};

// All functions throw std::invalid_argument for what the run does not have, and what DatasetReader
// and SourceMap throw.
class NamedDocuments {
 public:
  // `directory` is where relative names begin.
  NamedDocuments(const std::vector<std::string>& prefixes, const std::filesystem::path& directory)
      : names_(prefixes, directory) {}

  NamedDocument add(int64_t dataset_idx, int64_t document_idx);
  // Adds the documents of a line of the corpus. Several datasets may have been made of one file:
  // all of them have the document. Files of one name in several folders are told apart by their
  // whole names only.
  void add_line(const SourceLine& line);
  // Returns the documents by the number of their dataset in names(), in ascending order, each once.
  std::map<int64_t, std::vector<int64_t>> documents() const;

  const DatasetNames& names() const { return names_; }
  OpenDataset& open(int64_t dataset_idx);
  int64_t dataset_named(const std::string& name);
  // Returns the dataset that is meant where none is named.
  int64_t only_dataset() const;

 private:
  DatasetNames names_;
  std::map<std::string, std::vector<int64_t>> by_name_;  // what names_.named() has told
  std::map<int64_t, std::unique_ptr<OpenDataset>> open_;
  std::map<int64_t, std::vector<int64_t>> documents_;
};

}  // namespace weft
