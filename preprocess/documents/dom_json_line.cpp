#include "preprocess/documents/dom_json_line.h"

#include <simdjson.h>

#include <algorithm>
#include <new>
#include <utility>

#include "preprocess/documents/origin_strings.h"

namespace weft {
namespace {

namespace dom = simdjson::dom;

// ExactJsonLine allows more: a line that is nested deeper is left to it.
constexpr size_t kMaxDomDepth = 500;

static_assert(kDomPaddingBytes >= simdjson::SIMDJSON_PADDING);

// The value of one of the wanted keys.
struct Value {
  enum class Kind : uint8_t { kAbsent, kString, kList, kOther } kind = Kind::kAbsent;
  std::string_view string;
  dom::array::iterator next, end;  // of a list: what next_text() has not given yet
  bool is_read = false;            // next_text() has given the string

  void set(const dom::element& element) {
    kind = Kind::kOther;
    is_read = false;
    if (dom::array list; element.get(string) == simdjson::SUCCESS) {
      kind = Kind::kString;
    } else if (element.get(list) == simdjson::SUCCESS) {
      next = list.begin();
      end = list.end();
      const bool only_strings =
          std::all_of(next, end, [](const dom::element& each) { return each.is_string(); });
      if (only_strings) kind = Kind::kList;
    }
  }
  bool is_text() const { return kind == Kind::kString || kind == Kind::kList; }
};

}  // namespace

struct DomJsonLine::State {
  State(std::vector<std::string> wanted_keys, std::string_view origin_key)
      : keys(std::move(wanted_keys)), values(keys.size()), origins(origin_key) {}

  void allocate() {
    if (parser.allocate(kMaxDomLineBytes, kMaxDomDepth) != simdjson::SUCCESS ||
        document.allocate(kMaxDomLineBytes) != simdjson::SUCCESS) {
      throw std::bad_alloc();
    }
  }

  // Every member counts, the last one of a name alone stays.
  void take_member(std::string_view key, const dom::element& value) {
    const auto wanted = std::find(keys.begin(), keys.end(), key);
    if (wanted != keys.end()) values[static_cast<size_t>(wanted - keys.begin())].set(value);
    if (const int place = origins.find(key); place >= 0) take_origin(place, value);
  }

  void take_origin(int place, const dom::element& value) {
    JsonString string;
    const bool is_string = value.get(string.raw) == simdjson::SUCCESS;
    origins.note(place, is_string ? &string : nullptr);
    dom::object members;
    if (!origins.goes_on(place) || value.get(members) != simdjson::SUCCESS) return;
    for (const auto [key, member] : members) {
      if (const int child = origins.find(key, place); child >= 0) take_origin(child, member);
    }
  }

  std::vector<std::string> keys;
  std::vector<Value> values;  // by key
  OriginStrings origins;
  dom::parser parser;
  dom::document document;
};

DomJsonLine::DomJsonLine(std::vector<std::string> keys, std::string_view origin_key)
    : state_(std::make_unique<State>(std::move(keys), origin_key)) {}

DomJsonLine::~DomJsonLine() = default;

bool DomJsonLine::parse(std::string_view line, size_t num_readable_behind) {
  // Newer versions of simdjson skip a byte order mark. White space before the object is rare.
  if (!line.starts_with('{')) return false;
  State& state = *state_;
  if (state.document.capacity() == 0) state.allocate();
  const bool copies = num_readable_behind < kDomPaddingBytes;
  dom::object members;
  if (state.parser.parse_into_document(state.document, line.data(), line.size(), copies)
          .get(members) != simdjson::SUCCESS) {
    return false;
  }
  for (Value& value : state.values) value.kind = Value::Kind::kAbsent;
  state.origins.forget();
  for (const auto [key, value] : members) state.take_member(key, value);
  return std::all_of(state.values.begin(), state.values.end(),
                     [](const Value& value) { return value.is_text(); });
}

bool DomJsonLine::next_text(size_t key_idx, std::string_view& text) {
  Value& value = state_->values[key_idx];
  if (value.kind == Value::Kind::kString) {
    text = value.string;
    return !std::exchange(value.is_read, true);
  }
  if (value.next == value.end) return false;
  text = (*value.next).get_string().value_unsafe();
  ++value.next;
  return true;
}

Origin DomJsonLine::origin() { return state_->origins.origin(); }

}  // namespace weft
