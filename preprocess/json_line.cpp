#include "preprocess/json_line.h"

#include <cstring>

namespace weft {
namespace {

uint32_t hex_value(const char* digits) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = digits[i];
    const uint32_t nibble = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    value = value << 4 | nibble;
  }
  return value;
}

void append_utf8(uint32_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      out += static_cast<char>(0xE0 | code_point >> 12);
    } else {
      out += static_cast<char>(0xF0 | code_point >> 18);
      out += static_cast<char>(0x80 | (code_point >> 12 & 0x3F));
    }
    out += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (code_point & 0x3F));
}

bool is_high_surrogate(uint32_t c) { return c >= 0xD800 && c < 0xDC00; }
bool is_low_surrogate(uint32_t c) { return c >= 0xDC00 && c < 0xE000; }

// One \uXXXX at `position`, or two that are a surrogate pair: steps over them.
uint32_t take_unicode_escape(const char*& position, const char* end) {
  const uint32_t first = hex_value(position + 2);
  position += 6;
  if (!is_high_surrogate(first) || end - position < 6 || position[0] != '\\' || position[1] != 'u')
    return first;
  const uint32_t second = hex_value(position + 2);
  if (!is_low_surrogate(second)) return first;  // stays, and is looked at on its own
  position += 6;
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

char simple_escape(char kind) {
  switch (kind) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return kind;  // quote, backslash, slash
  }
}

std::string in_quotes(const std::string& key) { return "\"" + key + "\""; }

}  // namespace

const char* describe(LineProblem problem) {
  switch (problem) {
    case LineProblem::kNone:
      return "";
    case LineProblem::kBlank:
      return "blank line";
    case LineProblem::kInvalidUtf8:
      return "invalid UTF-8";
    case LineProblem::kNotJson:
      return "not valid JSON";
    case LineProblem::kNotAnObject:
      return "not a JSON object";
    case LineProblem::kMissingKey:
      return "missing key";
    case LineProblem::kNotAString:
      return "not a string";
    case LineProblem::kTooLong:
      return "line too long";
    case LineProblem::kSpecialToken:
      return "special token in the text";
  }
  return "";
}

int64_t unescape_json(std::string_view raw, std::string& out) {
  int64_t num_replaced = 0;
  const char* position = raw.data();
  const char* end = raw.data() + raw.size();
  while (position != end) {
    const void* found = std::memchr(position, '\\', end - position);
    const char* stop = found != nullptr ? static_cast<const char*>(found) : end;
    out.append(position, stop);
    position = stop;
    if (position == end) break;
    if (position[1] != 'u') {
      out += simple_escape(position[1]);
      position += 2;
      continue;
    }
    uint32_t code_point = take_unicode_escape(position, end);
    if (code_point >= 0xD800 && code_point < 0xE000) {
      code_point = 0xFFFD;
      ++num_replaced;
    }
    append_utf8(code_point, out);
  }
  return num_replaced;
}

JsonLineParser::JsonLineParser(std::vector<std::string> keys)
    : keys_(std::move(keys)), values_(keys_.size()) {}

LineOutcome JsonLineParser::parse(std::string_view line) {
  num_replaced_surrogates_ = 0;
  for (Value& value : values_) value.kind = Value::Kind::kAbsent;

  JsonScanner scanner(line);
  scanner.skip_space();
  if (scanner.at_end()) return {LineProblem::kBlank, "", 0};
  if (line.starts_with("\xEF\xBB\xBF")) {
    return {LineProblem::kNotJson, "the line starts with a byte order mark; remove it", 0};
  }
  const bool is_object = scanner.peek() == '{';
  bool is_valid = is_object ? read_members(scanner) : scanner.value();
  if (is_valid) {
    scanner.skip_space();
    is_valid = scanner.at_end() || scanner.fail("something follows the value");
  }
  if (!is_valid) return {LineProblem::kNotJson, scanner.error(), scanner.position()};
  if (!is_object) return {LineProblem::kNotAnObject, "", 0};
  return check_values();
}

// As JsonScanner::object(), but remembers the values of the keys that were asked for.
bool JsonLineParser::read_members(JsonScanner& scanner) {
  scanner.take('{');
  scanner.skip_space();
  if (scanner.take('}')) return true;
  do {
    scanner.skip_space();
    JsonString key;
    if (scanner.peek() != '"') return scanner.fail("expected a property name in double quotes");
    if (!scanner.string(key)) return false;
    scanner.skip_space();
    if (!scanner.take(':')) return scanner.fail("expected ':'");
    scanner.skip_space();
    Value* value = find_value(key);
    if (!(value != nullptr ? read_value(scanner, *value) : scanner.value())) return false;
    scanner.skip_space();
  } while (scanner.take(','));
  return scanner.take('}') || scanner.fail("expected ',' or '}'");
}

JsonLineParser::Value* JsonLineParser::find_value(const JsonString& key) {
  std::string_view name = key.raw;
  if (key.has_escapes) {
    key_buffer_.clear();
    unescape_json(key.raw, key_buffer_);
    name = key_buffer_;
  }
  for (size_t k = 0; k < keys_.size(); ++k) {
    if (keys_[k] == name) return &values_[k];
  }
  return nullptr;
}

bool JsonLineParser::read_value(JsonScanner& scanner, Value& value) {
  value.position = scanner.position();
  value.is_read = false;
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

LineOutcome JsonLineParser::check_values() const {
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

bool JsonLineParser::next_text(size_t key_idx, std::string_view& text) {
  Value& value = values_[key_idx];
  if (value.is_read) return false;
  if (value.kind == Value::Kind::kList) {
    if (!next_of_list(value)) return false;
  } else {
    value.is_read = true;
  }
  text = value.string.raw;
  if (!value.string.has_escapes) return true;
  text_buffer_.clear();
  num_replaced_surrogates_ += unescape_json(text, text_buffer_);
  text = text_buffer_;
  return true;
}

// The list was found to be strings with commas between them: it is walked over a second time here,
// rather than its strings being kept, which would take eight times the memory of a list of empty
// ones.
bool JsonLineParser::next_of_list(Value& value) {
  JsonScanner scanner(value.rest);
  scanner.skip_space();
  scanner.take(',');
  scanner.skip_space();
  value.is_read = scanner.at_end() || !scanner.string(value.string);
  value.rest.remove_prefix(scanner.position());
  return !value.is_read;
}

}  // namespace weft
