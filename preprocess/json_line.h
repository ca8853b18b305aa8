// Finds strings in one line of JSON, accepting exactly what Python's json.loads accepts (strict
// mode), because that is what Megatron-LM's tools/preprocess_data.py reads its input with:
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

namespace weft {

class JsonScanner;
struct JsonString;

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

// Deeper nesting is refused, as by Python, whose parser gives up at its recursion limit of 1000.
constexpr int kMaxJsonDepth = 990;

// Reuses its buffers from line to line: one per thread.
class JsonLineParser {
 public:
  explicit JsonLineParser(std::vector<std::string> keys);

  // Parses one line, which must be valid UTF-8. Afterwards text(k) is the string of key k if the
  // outcome is kNone.
  LineOutcome parse(std::string_view line);

  // Valid until the next parse(), and as long as the line. Valid UTF-8.
  std::string_view text(size_t key_idx) const { return values_[key_idx].text; }
  // Lone surrogates that were replaced in the texts of the last line.
  int64_t num_replaced_surrogates() const { return num_replaced_surrogates_; }

 private:
  struct Value {
    enum class Kind : uint8_t { kAbsent, kString, kOther } kind = Kind::kAbsent;
    size_t position = 0;
    std::string_view text;
    bool has_escapes = false;
    std::string unescaped;
  };
  bool read_members(JsonScanner& scanner);
  Value* find_value(const JsonString& key);
  LineOutcome collect_texts();

  std::vector<std::string> keys_;
  std::vector<Value> values_;
  std::string key_buffer_;
  int64_t num_replaced_surrogates_ = 0;
};

// Appends what a JSON string stands for. `raw` lies between the quotes and is valid JSON. Returns
// the number of lone surrogate escapes, each of which became U+FFFD.
int64_t unescape_json(std::string_view raw, std::string& out);

}  // namespace weft
