// Examines the documents of a dataset for the data report, on several threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>

#include "indexed_dataset/format/sidecars/documents.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/inspect/report/data_report.h"
#include "preprocess/inspect/report/document_groups.h"
#include "preprocess/inspect/text/document_facts.h"

namespace weft {

using TopDocuments =
    BestFew<ReportedDocument, bool (*)(const ReportedDocument& a, const ReportedDocument& b)>;
// Equal documents are ordered by their number, so that the result does not depend on the order in
// which they are added.
bool is_longer(const ReportedDocument& a, const ReportedDocument& b);
bool is_more_repetitive(const ReportedDocument& a, const ReportedDocument& b);

// Holds what was found in some of the documents; added up, in all of them.
struct Findings {
  std::array<int64_t, 64> length_histogram{}, tokens_by_length{};
  int64_t num_empty = 0, num_text_bytes = 0, num_repetitive = 0, num_repetitive_tokens = 0;
  int64_t num_without_end = 0, num_with_end_inside = 0;
  TopDocuments longest{kNumReported, is_longer};
  TopDocuments repeated_characters{kNumReported, is_more_repetitive};
  TopDocuments repeated_tokens{kNumReported, is_more_repetitive};
  std::map<uint32_t, ReportedInput> inputs;

  void add(const Findings& other);
};

// Everything that examining a document needs, shared by all threads.
struct ReportContext {
  const Documents& documents;
  const Vocabulary* vocabulary;  // null if it was not found; `texts` is null then, too
  const TokenTexts* texts;
  const SourceMap* sources;  // null if there is none
  int64_t end_of_document;   // -1 if there is none
  DocumentGroups& equal_texts;
};

// Examines all documents, with some MB of memory a thread, and calls see_tokens(count) for each
// part of them, from any thread. Throws std::runtime_error if the index is damaged.
Findings examine_documents(const ReportContext& context, int num_threads,
                           const std::function<void(int64_t num_tokens)>& see_tokens);

}  // namespace weft
