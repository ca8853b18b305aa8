#include "preprocess/documents/exact_json_line.h"

#include <algorithm>

#include "preprocess/documents/json_string.h"

namespace weft {
namespace {

std::string in_quotes(const std::string& key) { return "\"" + key + "\""; }

}  // namespace

ExactJsonLine::ExactJsonLine(std::vector<std::string> keys, std::string_view origin_key,
                             size_t text_piece_bytes)
    : keys_(std::move(keys)),
      text_piece_bytes_(text_piece_bytes),
      values_(keys_.size()),
      origins_(origin_key) {}

LineOutcome ExactJsonLine::parse(std::string_view line) {
  num_replaced_surrogates_ = 0;
  for (Value& value : values_) value.kind = Value::Kind::kAbsent;
  origins_.forget();

  JsonScanner scanner(line);
  scanner.skip_space();
  if (scanner.at_end()) return {LineProblem::kBlank, "", 0};
  if (line.starts_with("\xEF\xBB\xBF")) {
    return {LineProblem::kNotJson, "the line starts with a byte order mark; remove it", 0};
  }
  const bool is_object = scanner.peek() == '{';
  const auto read_member = [&](const JsonString& key) { return this->read_member(scanner, key); };
  bool is_valid = is_object ? scanner.members(read_member) : scanner.value();
  if (is_valid) {
    scanner.skip_space();
    is_valid = scanner.at_end() || scanner.fail("something follows the value");
  }
  if (!is_valid) return {LineProblem::kNotJson, scanner.error(), scanner.position()};
  if (!is_object) return {LineProblem::kNotAnObject, "", 0};
  return check_values();
}

// Steps over the value of a member and remembers it if it was asked for.
bool ExactJsonLine::read_member(JsonScanner& scanner, const JsonString& key) {
  const std::string_view name = unescaped_key(key, key_buffer_);
  Value* value = find_value(name);
  const int place = origins_.find(name);
  if (value == nullptr) return place < 0 ? scanner.value() : origins_.read(scanner, place);
  if (!read_value(scanner, *value)) return false;
  if (place >= 0)
    origins_.note(place, value->kind == Value::Kind::kString ? &value->string : nullptr);
  return true;
}

ExactJsonLine::Value* ExactJsonLine::find_value(std::string_view key) {
  for (size_t k = 0; k < keys_.size(); ++k) {
    if (keys_[k] == key) return &values_[k];
  }
  return nullptr;
}

bool ExactJsonLine::read_value(JsonScanner& scanner, Value& value) {
  value.position = scanner.position();
  value.is_read = value.goes_on = false;
  switch (scanner.peek()) {
    case '"':
      value.kind = Value::Kind::kString;
      return scanner.string(value.string);
    case '[': {
      JsonArray array;
      if (!scanner.array(array)) return false;
      value.kind = array.only_strings ? Value::Kind::kList : Value::Kind::kMixedList;
      if (!array.only_strings) value.position = array.first_other;
      value.rest = array.raw;
      return true;
    }
    default:
      value.kind = Value::Kind::kOther;
      return scanner.value();
  }
}

LineOutcome ExactJsonLine::check_values() const {
  for (size_t k = 0; k < keys_.size(); ++k) {
    switch (values_[k].kind) {
      case Value::Kind::kAbsent:
        return {LineProblem::kMissingKey, in_quotes(keys_[k]), 0};
      case Value::Kind::kMixedList:
        return {LineProblem::kNotAString, "an element of the list " + in_quotes(keys_[k]),
                values_[k].position};
      case Value::Kind::kOther:
        return {LineProblem::kNotAString, "the value of " + in_quotes(keys_[k]),
                values_[k].position};
      case Value::Kind::kString:
      case Value::Kind::kList:
        break;
    }
  }
  return {};
}

bool ExactJsonLine::next_string(Value& value) {
  if (value.is_read) return false;
  if (value.kind == Value::Kind::kList) return next_of_list(value);
  value.is_read = true;
  return true;
}

bool ExactJsonLine::next_text(size_t key_idx, TextPiece& piece) {
  Value& value = values_[key_idx];
  if (!value.goes_on && !next_string(value)) return false;
  std::string_view& rest = value.string.raw;
  piece.text = rest.size() > text_piece_bytes_
                   ? rest.substr(0, cut_of_string(rest, text_piece_bytes_))
                   : rest;
  rest.remove_prefix(piece.text.size());
  piece.is_first = !value.goes_on;
  piece.is_last = rest.empty();
  value.goes_on = !piece.is_last;
  if (!value.string.has_escapes) return true;
  text_buffer_.clear();
  num_replaced_surrogates_ += unescape_json(piece.text, text_buffer_);
  piece.text = text_buffer_;
  return true;
}

// The list was found to be strings with commas between them: it is walked over a second time here,
// rather than its strings being kept, which would take eight times the memory of a list of empty
// ones.
bool ExactJsonLine::next_of_list(Value& value) {
  JsonScanner scanner(value.rest);
  scanner.skip_space();
  scanner.take(',');
  scanner.skip_space();
  value.is_read = scanner.at_end() || !scanner.string(value.string);
  value.rest.remove_prefix(scanner.position());
  return !value.is_read;
}

}  // namespace weft
