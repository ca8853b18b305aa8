#include "preprocess/documents/json_line.h"

#include <simdjson.h>

#include <algorithm>
#include <new>

namespace weft {
namespace {

namespace dom = simdjson::dom;

// ExactJsonLine allows more: a line that is nested deeper is left to it.
constexpr size_t kMaxDomDepth = 500;

static_assert(kDomPaddingBytes >= simdjson::SIMDJSON_PADDING);

// Sets `value` to that of the last member of this name; false if there is none, or if `container`
// is no object.
bool find_member(const dom::element& container, std::string_view name, dom::element& value) {
  dom::object members;
  if (container.get(members) != simdjson::SUCCESS) return false;
  bool is_found = false;
  for (const auto [key, member] : members) {
    if (key != name) continue;
    value = member;
    is_found = true;
  }
  return is_found;
}

bool find_nested(dom::element container, const KeyPath& path, dom::element& value) {
  value = container;
  return std::all_of(path.begin(), path.end(),
                     [&value](const std::string& key) { return find_member(value, key, value); });
}

bool is_string_or_list_of_strings(const dom::element& value) {
  dom::array list;
  return value.is_string() || (value.get(list) == simdjson::SUCCESS &&
                               std::all_of(list.begin(), list.end(), [](const dom::element& each) {
                                 return each.is_string();
                               }));
}

}  // namespace

struct JsonLineParser::Dom {
  // True if the line is an object with a string or a list of strings under every key.
  bool parse(std::string_view line, size_t num_readable_behind);

  // The value under a key: that of the whole name, or else of the path that it is.
  bool find_value(size_t key_idx, dom::element& value) const {
    if (find_member(object, keys[key_idx], value)) return true;
    const KeyPath& path = nested_paths[key_idx];
    return !path.empty() && find_nested(object, path, value);
  }

  size_t num_text_keys;
  std::vector<std::string> keys;      // of texts, then of values
  std::vector<KeyPath> nested_paths;  // by key
  std::vector<KeyPath> paths;         // of origins
  dom::element object{};
  std::vector<dom::element> values{};  // by key of a text
  dom::parser parser{};
  dom::document document{};
};

bool JsonLineParser::Dom::parse(std::string_view line, size_t num_readable_behind) {
  // Newer versions of simdjson skip a byte order mark. White space before the object is rare.
  if (!line.starts_with('{')) return false;
  if (document.capacity() == 0 &&
      (parser.allocate(kMaxDomLineBytes, kMaxDomDepth) != simdjson::SUCCESS ||
       document.allocate(kMaxDomLineBytes) != simdjson::SUCCESS)) {
    throw std::bad_alloc();
  }
  const bool copies = num_readable_behind < kDomPaddingBytes;
  if (parser.parse_into_document(document, line.data(), line.size(), copies).get(object) !=
      simdjson::SUCCESS) {
    return false;
  }
  values.resize(num_text_keys);
  for (size_t k = 0; k < num_text_keys; ++k) {
    if (!find_value(k, values[k]) || !is_string_or_list_of_strings(values[k])) return false;
  }
  return true;
}

JsonLineParser::JsonLineParser(const std::vector<std::string>& keys, std::string_view origin_key,
                               const std::vector<std::string>& value_keys)
    : exact_(keys, origin_key, value_keys) {
  std::vector<std::string> all_keys = keys;
  all_keys.insert(all_keys.end(), value_keys.begin(), value_keys.end());
  const std::vector<KeyPath> paths = nested_paths(all_keys);
  dom_ =
      std::make_unique<Dom>(Dom{keys.size(), std::move(all_keys), paths, origin_paths(origin_key)});
}

JsonLineParser::~JsonLineParser() = default;

LineOutcome JsonLineParser::parse(std::string_view line, size_t num_readable_behind) {
  is_dom_ = line.size() <= kMaxDomLineBytes && dom_->parse(line, num_readable_behind);
  if (is_dom_) return {};
  if (!simdjson::validate_utf8(line)) return {LineProblem::kInvalidUtf8, "", 0};
  return exact_.parse(line);
}

bool JsonLineParser::each_text(size_t key_idx, const UseText& use) {
  if (!is_dom_) return exact_.each_text(key_idx, use);
  const dom::element& value = dom_->values[key_idx];
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return use(text);
  const dom::array list = value.get_array().value_unsafe();
  return std::all_of(list.begin(), list.end(), [&](const dom::element& each) {
    return each.get(text) == simdjson::SUCCESS && use(text);
  });
}

DocumentValue JsonLineParser::value(size_t value_idx) {
  using Kind = DocumentValue::Kind;
  if (!is_dom_) return exact_.value(value_idx);
  dom::element value;
  if (!dom_->find_value(dom_->num_text_keys + value_idx, value)) return {};
  switch (value.type()) {
    case dom::element_type::STRING:
      return {Kind::kString, 0, value.get_string().value_unsafe()};
    case dom::element_type::INT64:
      return {Kind::kNumber, static_cast<long double>(value.get_int64().value_unsafe()), {}};
    case dom::element_type::UINT64:
      return {Kind::kNumber, static_cast<long double>(value.get_uint64().value_unsafe()), {}};
    case dom::element_type::DOUBLE:
      return {Kind::kNumber, value.get_double().value_unsafe(), {}};
    case dom::element_type::BOOL:
      return {Kind::kBool, value.get_bool().value_unsafe() ? 1.0L : 0.0L, {}};
    case dom::element_type::NULL_VALUE:
      return {Kind::kNull, 0, {}};
    default:
      return {Kind::kOther, 0, {}};
  }
}

Origin JsonLineParser::origin() const {
  if (!is_dom_) return exact_.origin();
  for (const KeyPath& path : dom_->paths) {
    dom::element value;
    std::string_view text;
    if (!find_nested(dom_->object, path, value) || value.get(text) != simdjson::SUCCESS) continue;
    const Origin origin = origin_of(text);
    if (!origin.is_empty()) return origin;
  }
  return {};
}

}  // namespace weft
