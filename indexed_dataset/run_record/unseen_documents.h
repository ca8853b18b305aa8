// The documents that a run reads but does not learn from, as a file names them (weft-train
// --unsee): their tokens have no loss. Each line of the file has one of these forms:
//
//   /fsx/data/web_text_document 31     a dataset and the number of a document in it, from 0
//   web.jsonl:11450                    the document of the line of the corpus that begins at this byte
//   {"dataset": ..., "document": ...}  what weft-data inspect prints with --format jsonl (documents, stats, grep, samples,
//                                      spikes, exposure --by document): every document that it
//                                      names
//
// A dataset may be named by the end of its prefix, and an input by the end of its path. Empty lines
// and those that begin with # say nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/order/samples/split.h"

namespace weft {

// Returns the sequences of these ranges in ascending ranges, of which none touches another.
std::vector<SequenceRange> merged(std::vector<SequenceRange> ranges);

// Sequences of one dataset.
class UnseenSequences {
 public:
  // Takes ranges in any order; they may overlap.
  explicit UnseenSequences(std::vector<SequenceRange> ranges)
      : ranges_(merged(std::move(ranges))) {}
  // Takes the time of a binary search. Thread-safe.
  bool contains(int64_t sequence_idx) const;

 private:
  std::vector<SequenceRange> ranges_;
};

class UnseenDocuments {
 public:
  // Reads the file for a run with these datasets, whose relative names begin in `directory`. Throws
  // std::runtime_error, which names file and line, for a line that names no document of them, or
  // several datasets' documents with one name; UsageError for a file that names none;
  // std::system_error if the file cannot be read; and what DatasetReader and SourceMap throw.
  UnseenDocuments(const std::filesystem::path& file, const std::vector<std::string>& prefixes,
                  const std::filesystem::path& directory);

  // The sequences of a dataset; null if it has none.
  const UnseenSequences* find(const std::string& prefix) const;
  const std::string& text() const { return text_; }         // the bytes of the file
  const std::string& sha256() const { return sha256_; }     // of these bytes
  int64_t num_documents() const { return num_documents_; }  // each counts once

 private:
  std::string text_, sha256_;
  std::map<std::string, UnseenSequences> by_prefix_;
  int64_t num_documents_ = 0;
};

// Returns the name of the copy in a run's folder of a file with these bytes.
std::string unsee_copy_name(const std::string& sha256);

}  // namespace weft
