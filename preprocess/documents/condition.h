// Chooses documents by values that stand beside their texts:
//
//   language_score >= 0.65 and language == 'en' and meta.dump != 'CC-MAIN-2013-20'
//
// Comparisons (== != < <= > >=) of the value under a key with a number, a text in quotes, true,
// false or null, joined by `and`; there is nothing else. Keys are those of --json-keys. Texts are
// ordered by their bytes. Values of different kinds (a text and a number) are not equal, and have
// no order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// The value under a key of a document.
struct DocumentValue {
  enum class Kind : uint8_t { kMissing, kNull, kBool, kNumber, kString, kOther };
  Kind kind = Kind::kMissing;
  // Of a number; 0 or 1 for a bool. It holds every 64-bit integer and every double exactly.
  long double number = 0;
  std::string_view text;  // of a string; valid until the reader's next call
};

// A number as JSON lines have it: an integer of 64 bits as it is, others as the nearest double,
// and Python's NaN and Infinity. `text` must be one.
long double number_from(std::string_view text);

struct Comparison {
  enum class Operator : uint8_t { kEqual, kNotEqual, kLess, kAtMost, kGreater, kAtLeast };
  std::string key;
  Operator op = Operator::kEqual;
  DocumentValue::Kind kind = DocumentValue::Kind::kNull;  // of what is compared with
  long double number = 0;
  std::string text;
  std::string written;  // the whole comparison, in one way however it was given
};

// All comparisons hold for a document that goes in; if empty, every document does.
using Condition = std::vector<Comparison>;

// Throws UsageError for what is no condition, and says where.
Condition parse_condition(std::string_view text);
std::string to_string(const Condition& condition);
std::vector<std::string> keys_of(const Condition& condition);

// Why a document is left out: by the first comparison that does not hold for it.
enum class LeftOutBecause : uint8_t { kValue, kNoKey, kOtherKind };

// Nothing if the comparison holds for this value.
std::optional<LeftOutBecause> why_left_out(const Comparison& comparison,
                                           const DocumentValue& value);

// Documents that a condition leaves out.
struct LeftOutCounts {
  struct Counts {
    int64_t num_by_value = 0, num_without_key = 0, num_of_other_kind = 0;
  };
  std::vector<Counts> by_comparison;  // empty if no document was left out

  void add(size_t comparison_idx, LeftOutBecause because);
  void add(const LeftOutCounts& other);
  int64_t total() const;
  // The counts that are not 0, each with its reason in words: "language == 'en'".
  std::vector<std::pair<std::string, int64_t>> reasons(const Condition& condition) const;
  // "left out by --where: 7 documents (language == 'en': 5; score > 1, without the key: 2)"
  std::string summary(const Condition& condition) const;
};

}  // namespace weft
