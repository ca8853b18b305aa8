#include "preprocess/documents/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/documents/key_path.h"

namespace weft {
namespace {

using Kind = DocumentValue::Kind;
using Operator = Comparison::Operator;

// By Operator. The longer one of two that begin alike comes first in kLongestFirst.
constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
constexpr Operator kLongestFirst[] = {Operator::kEqual,   Operator::kNotEqual, Operator::kAtMost,
                                      Operator::kAtLeast, Operator::kLess,     Operator::kGreater};

std::string_view name_of(Operator op) { return kOperators[static_cast<size_t>(op)]; }
bool is_order(Operator op) { return op != Operator::kEqual && op != Operator::kNotEqual; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_operator_byte(char c) { return c == '=' || c == '!' || c == '<' || c == '>'; }
bool is_quote(char c) { return c == '\'' || c == '"'; }

class ConditionParser {
 public:
  explicit ConditionParser(std::string_view text) : text_(text) {}

  Condition parse() {
    Condition condition{comparison()};
    for (skip_space(); position_ < text_.size(); skip_space()) {
      const size_t begin = position_;
      if (word() != "and") {
        position_ = begin;
        fail("is not `and`, which alone joins comparisons (a text with blanks in it needs quotes)");
      }
      condition.push_back(comparison());
    }
    return condition;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    const std::string_view rest = text_.substr(position_);
    throw UsageError(fmt::format(
        "--where: {} {}; write it as in \"language_score >= 0.65 and language == 'en'\"",
        rest.empty() ? "what follows the end" : fmt::format("'{}'", rest), why));
  }

  void skip_space() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
  }
  // Everything up to white space or an operator.
  std::string_view word() {
    const size_t begin = position_;
    while (position_ < text_.size() && !is_space(text_[position_]) &&
           !is_operator_byte(text_[position_]))
      ++position_;
    return text_.substr(begin, position_ - begin);
  }

  Comparison comparison() {
    skip_space();
    Comparison comparison;
    if (position_ < text_.size() && is_quote(text_[position_]))
      fail("is a text, where a key is wanted: keys have no quotes");
    comparison.key = word();
    if (comparison.key.empty()) fail("is no key");
    (void)nested_path(comparison.key, "--where");
    skip_space();
    comparison.op = operator_here();
    skip_space();
    const size_t begin = position_;
    value(comparison);
    if (is_order(comparison.op) && comparison.kind != Kind::kNumber &&
        comparison.kind != Kind::kString) {
      position_ = begin;
      fail(fmt::format("has no order: compare with it by == or !=, not by {}",
                       name_of(comparison.op)));
    }
    comparison.written =
        fmt::format("{} {} {}", comparison.key, name_of(comparison.op),
                    written_value(comparison, text_.substr(begin, position_ - begin)));
    return comparison;
  }

  Operator operator_here() {
    const std::string_view rest = text_.substr(position_);
    for (const Operator op : kLongestFirst) {
      if (!rest.starts_with(name_of(op))) continue;
      position_ += name_of(op).size();
      return op;
    }
    fail(rest.starts_with('=') ? "has one =, for equal values there are two: =="
                               : "is none of == != < <= > >=");
  }

  void value(Comparison& comparison) {
    if (position_ < text_.size() && is_quote(text_[position_])) return quoted(comparison);
    const size_t begin = position_;
    const std::string_view text = word();
    comparison.kind = Kind::kBool;
    if (text == "true" || text == "false") {
      comparison.number = text == "true" ? 1 : 0;
    } else if (text == "null") {
      comparison.kind = Kind::kNull;
    } else if (is_number(text)) {
      comparison.kind = Kind::kNumber;
      comparison.number = number_from(text);
    } else {
      position_ = begin;
      fail("is no number, and neither true, false nor null; a text stands in quotes: 'en'");
    }
  }

  static bool is_number(std::string_view text) {
    if (text.empty() || text.find_first_not_of("0123456789+-.eE") != text.npos) return false;
    double ignored = 0;
    const char* const end = text.data() + text.size();
    return std::from_chars(text.data(), end, ignored).ptr == end;
  }

  // A backslash before a quote or a backslash makes it a part of the text.
  void quoted(Comparison& comparison) {
    const size_t begin = position_;
    const char quote = text_[position_++];
    for (; position_ < text_.size() && text_[position_] != quote; ++position_) {
      const bool is_escape = text_[position_] == '\\' && position_ + 1 < text_.size() &&
                             (text_[position_ + 1] == '\\' || is_quote(text_[position_ + 1]));
      if (is_escape) ++position_;
      comparison.text += text_[position_];
    }
    if (position_ == text_.size()) {
      position_ = begin;
      fail("is a text without a quote at its end");
    }
    ++position_;
    comparison.kind = Kind::kString;
  }

  static std::string written_value(const Comparison& comparison, std::string_view as_given) {
    if (comparison.kind != Kind::kString) return std::string(as_given);
    std::string text = "'";
    for (const char c : comparison.text) {
      if (c == '\\' || c == '\'') text += '\\';
      text += c;
    }
    return text + "'";
  }

  std::string_view text_;
  size_t position_ = 0;
};

template <typename T>
bool compare(const T& value, Operator op, const T& with) {
  switch (op) {
    case Operator::kEqual:
      return value == with;
    case Operator::kNotEqual:
      return value != with;
    case Operator::kLess:
      return value < with;
    case Operator::kAtMost:
      return value <= with;
    case Operator::kGreater:
      return value > with;
    case Operator::kAtLeast:
      return value >= with;
  }
  return false;
}

int64_t total_of(const LeftOutCounts::Counts& counts) {
  return counts.num_by_value + counts.num_without_key + counts.num_of_other_kind;
}

}  // namespace

std::optional<LeftOutBecause> why_left_out(const Comparison& comparison,
                                           const DocumentValue& value) {
  if (value.kind == Kind::kMissing) return LeftOutBecause::kNoKey;
  if (value.kind != comparison.kind) {
    if (comparison.op == Operator::kNotEqual) return std::nullopt;
    return comparison.kind == Kind::kNull ? LeftOutBecause::kValue : LeftOutBecause::kOtherKind;
  }
  const bool is_true = value.kind == Kind::kString
                           ? compare(value.text, comparison.op, std::string_view(comparison.text))
                           : compare(value.number, comparison.op, comparison.number);
  return is_true ? std::nullopt : std::optional(LeftOutBecause::kValue);
}

long double number_from(std::string_view text) {
  const char* const end = text.data() + text.size();
  int64_t whole = 0;
  if (const auto read = std::from_chars(text.data(), end, whole);
      read.ec == std::errc() && read.ptr == end)
    return whole;
  uint64_t large = 0;
  if (const auto read = std::from_chars(text.data(), end, large);
      read.ec == std::errc() && read.ptr == end)
    return large;
  // std::from_chars leaves the number alone where it is too large or too small for a double.
  return std::strtod(std::string(text).c_str(), nullptr);
}

Condition parse_condition(std::string_view text) { return ConditionParser(text).parse(); }

std::string to_string(const Condition& condition) {
  std::string text;
  for (const Comparison& comparison : condition)
    text += (text.empty() ? "" : " and ") + comparison.written;
  return text;
}

std::vector<std::string> keys_of(const Condition& condition) {
  std::vector<std::string> keys;
  for (const Comparison& comparison : condition) keys.push_back(comparison.key);
  return keys;
}

void LeftOutCounts::add(size_t comparison_idx, LeftOutBecause because) {
  by_comparison.resize(std::max(by_comparison.size(), comparison_idx + 1));
  Counts& counts = by_comparison[comparison_idx];
  ++(because == LeftOutBecause::kValue   ? counts.num_by_value
     : because == LeftOutBecause::kNoKey ? counts.num_without_key
                                         : counts.num_of_other_kind);
}

void LeftOutCounts::add(const LeftOutCounts& other) {
  by_comparison.resize(std::max(by_comparison.size(), other.by_comparison.size()));
  for (size_t i = 0; i < other.by_comparison.size(); ++i) {
    by_comparison[i].num_by_value += other.by_comparison[i].num_by_value;
    by_comparison[i].num_without_key += other.by_comparison[i].num_without_key;
    by_comparison[i].num_of_other_kind += other.by_comparison[i].num_of_other_kind;
  }
}

int64_t LeftOutCounts::total() const {
  return std::accumulate(by_comparison.begin(), by_comparison.end(), int64_t{0},
                         [](int64_t sum, const Counts& counts) { return sum + total_of(counts); });
}

std::vector<std::pair<std::string, int64_t>> LeftOutCounts::reasons(
    const Condition& condition) const {
  std::vector<std::pair<std::string, int64_t>> reasons;
  for (size_t i = 0; i < std::min(by_comparison.size(), condition.size()); ++i) {
    const auto add = [&](int64_t count, const char* more) {
      if (count > 0) reasons.emplace_back(condition[i].written + more, count);
    };
    add(by_comparison[i].num_by_value, "");
    add(by_comparison[i].num_without_key, ", without the key");
    add(by_comparison[i].num_of_other_kind, ", a value of another kind");
  }
  return reasons;
}

std::string LeftOutCounts::summary(const Condition& condition) const {
  std::string text;
  for (const auto& [reason, count] : reasons(condition))
    text += fmt::format("{}{}: {}", text.empty() ? " (" : "; ", reason, count);
  return "left out by --where: " + counted(total(), "document") + text + (text.empty() ? "" : ")");
}

}  // namespace weft
