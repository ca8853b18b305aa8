// Finds strings, and lists of strings, in one line of JSON, accepting exactly what Python's
// json.loads accepts (strict mode), because that is what Megatron-LM's tools/preprocess_data.py
// reads its input with:
//   - NaN, Infinity and -Infinity are numbers, numbers may be of any size;
//   - raw control characters inside strings are errors; white space is space, tab, line feed and
//   carriage return;
//   - of a key that occurs twice, the last value counts; keys are compared after unescaping;
//   - a lone surrogate escape is accepted. Python cannot encode it; here it becomes U+FFFD and is
//   counted.
// Why no library: simdjson refuses NaN and numbers that do not fit 64 bits, and its version 3.0
// cannot replace lone surrogates. Differences from Python: README, "Decisions".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/json_scanner.h"
#include "preprocess/documents/origin_strings.h"

namespace weft {

enum class LineProblem : uint8_t {
  kNone,
  kBlank,
  kInvalidUtf8,
  kNotJson,
  kNotAnObject,
  kMissingKey,
  kNotAString,
  kTooLong,
  kSpecialToken,
};
constexpr int kNumLineProblems = 9;

// "not valid JSON" and so on; kNone gives "".
const char* describe(LineProblem problem);

struct LineOutcome {
  LineProblem problem = LineProblem::kNone;
  std::string detail;   // what exactly, "" if `problem` says it all
  size_t position = 0;  // byte in the line where it was noticed
};

// Longer strings come in pieces of this (1 MiB), so that neither their text without escapes nor what
// the tokenizer makes of it need be in memory as a whole.
constexpr size_t kTextPieceBytes = size_t{1} << 20;

// Deeper nesting is refused, as by Python, whose parser gives up at its recursion limit of 1000.
constexpr int kMaxJsonDepth = 990;

// Reuses its buffers from line to line: one per thread.
class JsonLineParser {
 public:
  // A longer string comes in pieces of up to `text_piece_bytes` (at least 16) of the line. Throws
  // std::invalid_argument for what is no origin key (origin_strings.h).
  explicit JsonLineParser(std::vector<std::string> keys, std::string_view origin_key = kNoOriginKey,
                          size_t text_piece_bytes = kTextPieceBytes);

  // Parses one line, which must be valid UTF-8. If the outcome is kNone, next_text() then has the
  // strings of every key.
  LineOutcome parse(std::string_view line);

  // Steps to the next string of a key: its only one, or those of its list in order; false after the
  // last. A long one comes in several pieces, cut between two characters. Valid as long as the line
  // and until the next call of either function.
  struct TextPiece {
    std::string_view text;                 // valid UTF-8
    bool is_first = true, is_last = true;  // of its string
  };
  bool next_text(size_t key_idx, TextPiece& piece);
  // Where the document says that it is from.
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
  std::string text_buffer_;  // of a piece with escapes; what it holds is overwritten
  int64_t num_replaced_surrogates_ = 0;
};

// Appends what a JSON string stands for. `raw` lies between the quotes and is valid JSON. Returns
// the number of lone surrogate escapes, each of which became U+FFFD.
int64_t unescape_json(std::string_view raw, std::string& out);
// What a key stands for: itself, or its unescaped text in `buffer`.
std::string_view unescaped_key(const JsonString& key, std::string& buffer);

}  // namespace weft
