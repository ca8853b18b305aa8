// Finds documents of a run's datasets by their numbers or by the lines of the corpus that they came
// from, and refuses names that mean none or several.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/sidecars/documents.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/run_record/dataset_names.h"

namespace weft {

// A dataset of a run with what is needed to find its documents.
struct OpenDataset {
  // Throws as DatasetReader and open_source_map_of().
  explicit OpenDataset(const std::string& prefix)
      : reader(prefix), documents(reader), sources(open_source_map_of(reader)) {}

  DatasetReader reader;
  Documents documents;
  std::optional<SourceMap> sources;  // nothing if there is none beside it
};

// FILE:OFFSET.
struct SourceLine {
  std::string file;
  int64_t offset_bytes = 0;
};
// Throws UsageError for anything else.
SourceLine parse_source_line(const std::string& text);

// Returns the inputs of a source map that `file` means: those of this name; else those whose names
// end with it, behind a slash. Throws UsageError if these have several names.
std::vector<uint32_t> inputs_named(const SourceMap& sources, const std::string& file);

// Returns the documents whose lines begin at this byte of one of the inputs. `nearest` gets words
// for the documents around it if there are none.
std::vector<int64_t> documents_at(const SourceMap& sources, const std::vector<uint32_t>& inputs,
                                  int64_t offset_bytes, std::string& nearest);

struct NamedDocument {
  int64_t dataset_idx = 0, document_idx = 0;  // the former in names()
};

// All functions throw UsageError for what the run does not have, and what DatasetReader
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
