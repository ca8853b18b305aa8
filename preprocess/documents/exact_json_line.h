// Finds strings, and lists of strings, in one line of JSON, accepting exactly what Python's
// json.loads accepts (strict mode), because that is what Megatron-LM's tools/preprocess_data.py
// reads its input with:
//   - NaN, Infinity and -Infinity are numbers, numbers may be of any size;
//   - raw control characters inside strings are errors; white space is space, tab, line feed and
//     carriage return;
//   - of a key that occurs twice, the last value counts; keys are compared after unescaping;
//   - of a key with dots in it, meta.text, the path counts where the line has no key of that name;
//   - a lone surrogate escape is accepted. Python cannot encode it; here it becomes U+FFFD and is
//     counted.
// This is the definition of what a line means. It is plain rather than fast: simdjson reads the
// lines that have none of these peculiarities (json_line.h). Differences from Python: README,
// "Decisions".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/bad_lines.h"
#include "preprocess/documents/document_reader.h"
#include "preprocess/documents/origin.h"

namespace weft {

// Reuses its buffers from line to line: one per thread.
class ExactJsonLine {
 public:
  // Throws UsageError for what is no key path (key_path.h) or origin key (origin.h). `value_keys`
  // are those of value().
  explicit ExactJsonLine(std::vector<std::string> keys, std::string_view origin_key = kNoOriginKey,
                         const std::vector<std::string>& value_keys = {});

  // Parses one line, which must be valid UTF-8. If the outcome is kNone, each_text() then has the
  // strings of every key, as long as the line is there.
  LineOutcome parse(std::string_view line);

  // Does what JsonLineParser::each_text() does.
  bool each_text(size_t key_idx, const UseText& use);
  DocumentValue value(size_t value_idx);
  Origin origin() const;
  // Lone surrogates that were replaced in the texts of the last line so far.
  int64_t num_replaced_surrogates() const { return num_replaced_surrogates_; }

 private:
  LineOutcome check_values(std::string_view line) const;
  bool use_string(std::string_view value, const UseText& use);

  size_t num_text_keys_;
  std::vector<std::string> keys_;      // of texts, then of values
  std::vector<KeyPath> nested_paths_;  // by key
  std::vector<KeyPath> origin_paths_;
  // Values as they stand in the line, "" where it has none: by key, and by the first key of each
  // path.
  std::vector<std::string_view> values_, nested_values_, origin_values_;
  std::string text_buffer_;  // without escapes
  int64_t num_replaced_surrogates_ = 0;
};

}  // namespace weft
