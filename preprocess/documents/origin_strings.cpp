#include "preprocess/documents/origin_strings.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "preprocess/documents/json_string.h"

namespace weft {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The beginning of a text, cut between two characters.
std::string_view beginning(std::string_view text, size_t num_bytes) {
  if (text.size() <= num_bytes) return text;
  while (num_bytes > 0 && continues_character(text[num_bytes])) --num_bytes;
  return text.substr(0, num_bytes);
}

// So many bytes of a JSON string stand for kMaxOriginTextBytes or more: \u0041 is one.
constexpr size_t kMaxRawBytes = 8 * kMaxOriginTextBytes;

// The keys of a path, without their escapes; `problem` says what is wrong with it, if anything.
std::vector<std::string> keys_of(std::string_view path, std::string& problem) {
  std::vector<std::string> keys{""};
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '.') {
      keys.emplace_back();
      continue;
    }
    if (path[i] == '\\') {
      ++i;
      if (i == path.size() || (path[i] != '.' && path[i] != '\\')) {
        problem = R"(has a \ before neither a dot nor a \; a \ in a key is written \\)";
        return {};
      }
    }
    keys.back() += path[i];
  }
  if (std::find(keys.begin(), keys.end(), "") != keys.end()) {
    problem = "has an empty key in it; give keys with dots between them, as in meta.url";
  }
  return keys;
}

}  // namespace

std::string problem_of_origin_key(std::string_view origin_key) {
  std::string problem;
  (void)keys_of(origin_key, problem);
  return problem.empty() ? "" : "--origin-key: '" + std::string(origin_key) + "' " + problem;
}

OriginStrings::OriginStrings(std::string_view origin_key) {
  if (const std::string problem = problem_of_origin_key(origin_key); !problem.empty())
    throw std::invalid_argument(problem);
  static_assert(std::size(kAutoOriginPaths) <= kMaxPaths);
  if (origin_key == kNoOriginKey) return;
  if (origin_key != "auto") {
    add_path(origin_key);
  } else {
    for (const std::string_view path : kAutoOriginPaths) add_path(path);
  }
}

void OriginStrings::add_path(std::string_view path) {
  const auto path_idx = static_cast<int>(strings_.size());
  int parent = 0;
  std::string no_problem;
  for (const std::string& key : keys_of(path, no_problem)) {
    int place = find(key, parent);
    if (place < 0) {
      place = static_cast<int>(places_.size());
      Place child;
      child.key = key;
      child.next_sibling = places_[static_cast<size_t>(parent)].first_child;
      places_.push_back(std::move(child));
      places_[static_cast<size_t>(parent)].first_child = place;
      places_[static_cast<size_t>(parent)].child_lengths |= length_bit(key);
    }
    places_[static_cast<size_t>(place)].paths |= uint32_t{1} << path_idx;
    parent = place;
  }
  places_[static_cast<size_t>(parent)].path_idx = path_idx;
  strings_.emplace_back();
}

void OriginStrings::note(int place, const JsonString* string) {
  const Place& here = places_[static_cast<size_t>(place)];
  has_string_ &= ~here.paths;  // of a member of this name that came before
  if (string == nullptr || here.path_idx < 0) return;
  has_string_ |= uint32_t{1} << here.path_idx;
  strings_[static_cast<size_t>(here.path_idx)] = *string;
}

bool OriginStrings::read(JsonScanner& scanner, int place) {
  const Place& here = places_[static_cast<size_t>(place)];
  if (scanner.peek() == '"') {
    JsonString string;
    if (!scanner.string(string)) return false;
    note(place, &string);
    return true;
  }
  note(place, nullptr);
  if (scanner.peek() != '{' || here.first_child < 0) return scanner.value();
  return scanner.object([&](const JsonString& key) {
    const int child = find(unescaped_key(key, key_buffer_), place);
    return child < 0 ? scanner.value() : read(scanner, child);
  });
}

Origin OriginStrings::origin() {
  for (uint32_t left = has_string_; left != 0; left &= left - 1) {
    const JsonString& string = strings_[static_cast<size_t>(std::countr_zero(left))];
    std::string_view value = string.raw;
    if (string.has_escapes) {
      buffer_.clear();
      value = value.substr(
          0, value.size() > kMaxRawBytes ? cut_of_string(value, kMaxRawBytes) : value.size());
      unescape_json(value, buffer_);
      value = buffer_;
    }
    const Origin origin = origin_of(beginning(value, kMaxOriginTextBytes));
    if (!origin.is_empty()) return origin;
  }
  return {};
}

}  // namespace weft
