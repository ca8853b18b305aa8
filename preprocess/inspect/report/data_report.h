// The data report: what a dataset is made of, and what in it looks wrong. BLOOM's team lost days to
// 3,835 documents of 1,000,000 backslashes; here they stand at the top of a table.
//
//   gather_report (one pass over the tokens, in parallel) -> DataReport -> report_json, report_html
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

// Every report names its program at its head, by which the next one knows that it may replace the
// file.
inline constexpr char kReportProgram[] = "weft-data report";

// What people recognise a document by.
struct Beginning {
  std::string text;  // the first bytes of its text (or its ids), as in the corpus: unescaped
  // The number of characters, from the first one on, that equal it; 0 where it is not counted.
  int64_t num_equal = 0;
};

// A document in one of the tables.
struct ReportedDocument {
  int64_t document_idx = 0;
  int64_t num_tokens = 0;
  double ratio = 0;    // what the table is ordered by, where it is a ratio
  std::string source;  // "file, byte N (from origin)"; empty without PREFIX.sources
  Beginning beginning;
};

struct ReportedInput {
  std::string name;
  int64_t num_documents = 0, num_tokens = 0;
};

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

struct OriginCount {
  std::string origin;  // any text, as the document has it
  int64_t num_documents = 0, num_tokens = 0;
};

struct OriginCounts {
  int64_t num_origins = 0;  // the number of different origins
  int64_t num_documents_without = 0, num_tokens_without = 0;
  std::vector<OriginCount> largest;  // ordered by tokens, equal ones by their first document
};

struct DataReport {
  std::filesystem::path prefix;
  // The manifest gives the time when its file was last written ("2026-11-21 23:40 UTC"; empty
  // without one), and the options that decide most about the dataset, as resolved, with the
  // names and checksums of its tokenizer's files. Untrusted text.
  std::string manifest_written;
  std::vector<std::pair<std::string, std::string>> main_options, tokenizer_files;
  int64_t num_documents = 0, num_empty_documents = 0, num_tokens = 0;
  // Documents with tokens that do not end with the vocabulary's <|endoftext|>, and documents in
  // which it stands before the end as well. They are known with a vocabulary that has this token.
  std::optional<int64_t> num_without_end, num_with_end_inside;
  // The lengths of documents that are not empty. Of 100 such documents, 90 and 99 have at most the
  // last two.
  int64_t min_tokens = 0, median_tokens = 0, max_tokens = 0, p90_tokens = 0, p99_tokens = 0;
  // Entry k: documents of 2^(k-1) to 2^k - 1 tokens, and their tokens; entry 0: empty ones.
  std::array<int64_t, 64> length_histogram{}, tokens_by_length{};
  std::optional<int64_t> num_text_bytes;   // decoded; only with a vocabulary
  std::optional<int64_t> num_jsonl_bytes;  // from the manifest, as all that follows
  std::optional<int64_t> num_bad_lines;
  std::vector<std::pair<std::string, int64_t>> bad_lines_by_reason;
  std::vector<std::pair<std::string, int64_t>> left_out_by_reason;  // documents, by --where

  // Documents that reach kRepetitiveCharacters or kRepetitiveTokens in what the next tables rate.
  int64_t num_repetitive_documents = 0, num_repetitive_tokens = 0;
  std::vector<ReportedDocument> longest;
  // The first table rates documents of at least kMinRatedCharacters characters by the share of
  // characters that equal the one before, which needs a vocabulary; the second rates those of at
  // least kMinRatedTokens tokens by the share of tokens that end a run of four which the document
  // has had before.
  std::vector<ReportedDocument> most_repeated_characters, most_repeated_tokens;
  Duplicates duplicates;                        // compared without the end-of-document token
  std::vector<Beginning> duplicate_beginnings;  // one for each of duplicates.largest
  bool has_sources = false;
  std::vector<ReportedInput> inputs;  // the largest, from PREFIX.sources
  int64_t num_inputs = 0;
  std::optional<OriginCounts> origins;  // where PREFIX.sources has them
  std::vector<std::string> notes;       // what could not be found out, and why
};

inline constexpr int64_t kMinRatedCharacters = 100, kMinRatedTokens = 32;
// Both lie above the most that ordinary documents were seen to have, by characters and by GPT-2's
// tokens: English 0.29 and 0.71, code 0.48 and 0.95, text of many languages 0.18 and 0.94.
inline constexpr double kRepetitiveCharacters = 0.6, kRepetitiveTokens = 0.97;
// A share of duplicates, or of empty documents, from which on the verdict mentions them.
inline constexpr double kSuspiciousShare = 0.01;
inline constexpr size_t kNumReported = 20, kNumReportedOrigins = 30;

// The share of nothing is 0.
inline double share_of(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// The report for programs, and for people: one page without scripts or other files, all its text
// escaped.
std::string report_json(const DataReport& report);
std::string report_html(const DataReport& report);

}  // namespace weft
