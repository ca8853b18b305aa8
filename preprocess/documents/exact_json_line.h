// Finds strings, and lists of strings, in one line of JSON, accepting exactly what Python's
// json.loads accepts (strict mode), because that is what Megatron-LM's tools/preprocess_data.py
// reads its input with:
//   - NaN, Infinity and -Infinity are numbers, numbers may be of any size;
//   - raw control characters inside strings are errors; white space is space, tab, line feed and
//     carriage return;
//   - of a key that occurs twice, the last value counts; keys are compared after unescaping;
//   - a lone surrogate escape is accepted. Python cannot encode it; here it becomes U+FFFD and is
//     counted.
// This is the definition of what a line means. It is plain rather than fast: DomJsonLine reads the
// lines that have none of these peculiarities. Differences from Python: README, "Decisions".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/json_scanner.h"
#include "preprocess/documents/line_problem.h"
#include "preprocess/documents/origin_strings.h"

namespace weft {

// Longer strings come in pieces of this (1 MiB), so that neither their text without escapes nor what
// the tokenizer makes of it need be in memory as a whole.
constexpr size_t kTextPieceBytes = size_t{1} << 20;

// A string under a key, or a piece of a long one.
struct TextPiece {
  std::string_view text;                 // valid UTF-8
  bool is_first = true, is_last = true;  // of its string
};

// Reuses its buffers from line to line: one per thread.
class ExactJsonLine {
 public:
  // A longer string comes in pieces of up to `text_piece_bytes` (at least 16) of the line. Throws
  // std::invalid_argument for what is no origin key (origin_strings.h).
  explicit ExactJsonLine(std::vector<std::string> keys, std::string_view origin_key = kNoOriginKey,
                         size_t text_piece_bytes = kTextPieceBytes);

  // Parses one line, which must be valid UTF-8. If the outcome is kNone, next_text() then has the
  // strings of every key.
  LineOutcome parse(std::string_view line);

  // As JsonLineParser::next_text().
  bool next_text(size_t key_idx, TextPiece& piece);
  Origin origin() { return origins_.origin(); }
  // Lone surrogates that were replaced in the texts of the last line so far.
  int64_t num_replaced_surrogates() const { return num_replaced_surrogates_; }

 private:
  struct Value {
    enum class Kind : uint8_t { kAbsent, kString, kList, kMixedList, kOther } kind = Kind::kAbsent;
    size_t position = 0;  // in the line; of a mixed list: of what is no string in it
    JsonString string;
    std::string_view rest;  // of a list, between its brackets
    bool goes_on = false;   // next_text() has given a piece of `string`, which is the rest
    bool is_read = false;   // nothing is left for next_text()
  };
  bool read_member(JsonScanner& scanner, const JsonString& key);
  Value* find_value(std::string_view key);
  bool read_value(JsonScanner& scanner, Value& value);
  LineOutcome check_values() const;
  static bool next_of_list(Value& value);
  static bool next_string(Value& value);

  std::vector<std::string> keys_;
  size_t text_piece_bytes_;
  std::vector<Value> values_;
  OriginStrings origins_;
  std::string key_buffer_;
  std::string text_buffer_;  // of a piece with escapes
  int64_t num_replaced_surrogates_ = 0;
};

}  // namespace weft
