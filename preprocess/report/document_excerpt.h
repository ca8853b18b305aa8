// Examines the documents of a dataset for the data report, on several threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/pair/reader.h"
#include "preprocess/datasets/source_map.h"
#include "preprocess/report/data_report.h"
#include "preprocess/report/document_facts.h"

namespace weft {

// The documents of a dataset as ranges of sequences; in old files without bounds a sequence is one.
class Documents {
 public:
  explicit Documents(const DatasetReader& reader)
      : reader_(reader), has_bounds_(reader.num_documents() > 0 || reader.num_sequences() == 0) {}

  int64_t count() const { return has_bounds_ ? reader_.num_documents() : reader_.num_sequences(); }
  // Tokens of document i. Throws std::runtime_error where the index is damaged.
  int64_t num_tokens(int64_t i) const;
  // The last token of document i; -1 if it is empty.
  int32_t last_token(int64_t i) const;
  // Calls use(ids) for the document's first `max_tokens` tokens, in pieces.
  template <typename Use>
  void for_each_piece(int64_t i, std::vector<int32_t>& ids, int64_t max_tokens,
                      const Use& use) const {
    const auto [first, last] = sequences(i);
    for (int64_t k = first; k < last; ++k) {
      for (int64_t at = 0; at < reader_.length(k) && max_tokens > 0;) {
        const int64_t count = std::min({kPieceTokens, reader_.length(k) - at, max_tokens});
        ids.resize(static_cast<size_t>(count));
        reader_.copy_tokens(k, at, count, ids.data());
        use(std::span<const int32_t>(ids));
        at += count;
        max_tokens -= count;
      }
    }
  }

 private:
  // So many tokens at a time, with their text, take a thread less than 2 MB.
  static constexpr int64_t kPieceTokens = 1 << 16;

  std::pair<int64_t, int64_t> sequences(int64_t i) const;
  [[noreturn]] void throw_damaged(const std::string& what) const;

  const DatasetReader& reader_;
  bool has_bounds_;
};

// Keeps the documents of the highest scores, equal ones by their number, so that the result does
// not depend on the order in which they are added.
class TopList {
 public:
  void add(double score, const ReportedDocument& document);
  void add_all(const TopList& other) {
    for (const Entry& entry : other.entries_) add(entry.score, entry.document);
  }
  std::vector<ReportedDocument> documents() const;

 private:
  struct Entry {
    double score;
    ReportedDocument document;
    bool operator<(const Entry& other) const {
      if (score != other.score) return score > other.score;
      return document.document_idx < other.document.document_idx;
    }
  };
  std::vector<Entry> entries_;
};

// Holds what was found in some of the documents; added up, in all of them.
struct Findings {
  std::array<int64_t, 64> length_histogram{};
  int64_t num_empty = 0, num_text_bytes = 0, num_repetitive = 0;
  TopList longest, repeated_characters, repeated_tokens;
  std::map<uint32_t, ReportedInput> inputs;

  void add(const Findings& other);
};

// Everything that examining a document needs, shared by all threads.
struct ReportContext {
  const DatasetReader& reader;
  Documents documents;
  const Vocabulary* vocabulary;  // null if it was not found; `texts` is null then, too
  const TokenTexts* texts;
  const SourceMap* sources;  // null if there is none
  int64_t end_of_document;   // -1 if there is none
  DocumentGroups& equal_texts;
};

// Examines all documents, with some MB of memory a thread. Throws std::runtime_error if the index
// is damaged.
Findings examine_documents(const ReportContext& context, int num_threads);

}  // namespace weft
