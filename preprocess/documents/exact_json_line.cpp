#include "preprocess/documents/exact_json_line.h"

#include "preprocess/documents/json_scanner.h"

namespace weft {
namespace {

std::string_view without_quotes(std::string_view string) {
  return string.substr(1, string.size() - 2);
}

// The value at the end of a path, "" if there is none; `value` is that of the path's first key.
std::string_view value_at_end(std::string_view value, const KeyPath& path) {
  for (size_t k = 1; k < path.size(); ++k) value = find_member(value, path[k]);
  return value;
}

}  // namespace

ExactJsonLine::ExactJsonLine(std::vector<std::string> keys, std::string_view origin_key,
                             const std::vector<std::string>& value_keys)
    : num_text_keys_(keys.size()), keys_(std::move(keys)), origin_paths_(origin_paths(origin_key)) {
  keys_.insert(keys_.end(), value_keys.begin(), value_keys.end());
  nested_paths_ = nested_paths(keys_);
}

LineOutcome ExactJsonLine::parse(std::string_view line) {
  num_replaced_surrogates_ = 0;
  values_.assign(keys_.size(), {});
  nested_values_.assign(keys_.size(), {});
  origin_values_.assign(origin_paths_.size(), {});

  JsonScanner scanner(line);
  scanner.skip_space();
  if (scanner.at_end()) return {LineProblem::kBlank, "", 0};
  if (line.starts_with("\xEF\xBB\xBF")) {
    return {LineProblem::kNotJson, "the line starts with a byte order mark; remove it", 0};
  }
  const auto note_member = [&](std::string_view name, std::string_view value) {
    for (size_t k = 0; k < keys_.size(); ++k) {
      if (is_name(name, keys_[k])) values_[k] = value;
      if (!nested_paths_[k].empty() && is_name(name, nested_paths_[k][0]))
        nested_values_[k] = value;
    }
    for (size_t i = 0; i < origin_paths_.size(); ++i) {
      if (is_name(name, origin_paths_[i][0])) origin_values_[i] = value;
    }
  };
  const bool is_object = scanner.peek() == '{';
  bool is_valid = is_object ? scanner.object(note_member) : scanner.value();
  if (is_valid) {
    scanner.skip_space();
    is_valid = scanner.at_end() || scanner.fail("something follows the value");
  }
  if (!is_valid) {
    return {LineProblem::kNotJson, scanner.error(), scanner.position(),
            scanner.is_nested_too_deeply() ? LineReason::kNestedTooDeeply : LineReason::kNone};
  }
  if (!is_object) return {LineProblem::kNotAnObject, "", 0};
  for (size_t k = 0; k < keys_.size(); ++k) {
    if (values_[k].empty()) values_[k] = value_at_end(nested_values_[k], nested_paths_[k]);
  }
  return check_values(line);
}

LineOutcome ExactJsonLine::check_values(std::string_view line) const {
  for (size_t k = 0; k < num_text_keys_; ++k) {
    const std::string key = "\"" + keys_[k] + "\"";
    if (values_[k].empty()) return {LineProblem::kMissingKey, key, 0};
    std::string_view no_string;
    const auto check = [&](std::string_view value) {
      if (no_string.empty() && !value.starts_with('"')) no_string = value;
    };
    const bool is_list = values_[k].starts_with('[');
    if (is_list) {
      JsonScanner(values_[k]).array(check);
    } else {
      check(values_[k]);
    }
    if (no_string.empty()) continue;
    return {LineProblem::kNotAString, (is_list ? "an element of the list " : "the value of ") + key,
            static_cast<size_t>(no_string.data() - line.data())};
  }
  return {};
}

// A list is walked over once more here, rather than its strings being kept, which would take eight
// times the memory of a list of empty ones.
bool ExactJsonLine::each_text(size_t key_idx, const UseText& use) {
  const std::string_view value = values_[key_idx];
  if (!value.starts_with('[')) return use_string(value, use);
  bool wants_more = true;
  JsonScanner(value).array(
      [&](std::string_view string) { wants_more = wants_more && use_string(string, use); });
  return wants_more;
}

bool ExactJsonLine::use_string(std::string_view value, const UseText& use) {
  std::string_view rest = without_quotes(value);
  text_buffer_.clear();
  num_replaced_surrogates_ += unescape_json(rest, rest.size(), text_buffer_);
  return use(text_buffer_);
}

DocumentValue ExactJsonLine::value(size_t value_idx) {
  using Kind = DocumentValue::Kind;
  const std::string_view value = values_[num_text_keys_ + value_idx];
  if (value.empty()) return {};
  switch (value[0]) {
    case '"': {
      std::string_view rest = without_quotes(value);
      text_buffer_.clear();
      unescape_json(rest, rest.size(), text_buffer_);
      return {Kind::kString, 0, text_buffer_};
    }
    case '{':
    case '[':
      return {Kind::kOther, 0, {}};
    case 'n':
      return {Kind::kNull, 0, {}};
    case 't':
    case 'f':
      return {Kind::kBool, value[0] == 't' ? 1.0L : 0.0L, {}};
    default:
      return {Kind::kNumber, number_from(value), {}};
  }
}

Origin ExactJsonLine::origin() const {
  for (size_t i = 0; i < origin_paths_.size(); ++i) {
    const std::string_view value = value_at_end(origin_values_[i], origin_paths_[i]);
    if (!value.starts_with('"')) continue;
    std::string_view rest = without_quotes(value);
    std::string text;
    unescape_json(rest, kMaxOriginTextBytes, text);
    const Origin origin = origin_of(text);
    if (!origin.is_empty()) return origin;
  }
  return {};
}

}  // namespace weft
