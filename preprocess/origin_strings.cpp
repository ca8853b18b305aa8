#include "preprocess/origin_strings.h"

#include <stdexcept>

#include "preprocess/json_line.h"

namespace weft {
namespace {

// Of a string with escapes no more than this is unescaped. A host has at most 253 bytes.
constexpr size_t kMaxRawBytes = 4096;

// The beginning of a JSON string with escapes, cut before none of their bytes.
std::string_view beginning(std::string_view raw) {
  if (raw.size() <= kMaxRawBytes) return raw;
  size_t end = 0;
  while (end < kMaxRawBytes) end += raw[end] != '\\' ? 1 : raw[end + 1] == 'u' ? 6 : 2;
  while (end < raw.size() && (static_cast<unsigned char>(raw[end]) & 0xC0) == 0x80) ++end;
  return raw.substr(0, end);
}

}  // namespace

std::string problem_of_origin_key(std::string_view origin_key) {
  const bool has_empty_part = origin_key.empty() || origin_key.front() == '.' ||
                              origin_key.back() == '.' || origin_key.find("..") != origin_key.npos;
  if (!has_empty_part) return "";
  return "--origin-key: '" + std::string(origin_key) +
         "' has an empty key in it; give keys with dots between them, as in meta.url";
}

OriginStrings::OriginStrings(std::string_view origin_key) {
  if (const std::string problem = problem_of_origin_key(origin_key); !problem.empty())
    throw std::invalid_argument(problem);
  if (origin_key == kNoOriginKey) return;
  if (origin_key != "auto") {
    add_path(origin_key);
  } else {
    for (const std::string_view path : kAutoOriginPaths) add_path(path);
  }
}

void OriginStrings::add_path(std::string_view path) {
  int parent = 0;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view key = path.substr(begin, end - begin);
    begin = end + 1;
    int place = find_child(parent, key);
    if (place < 0) {
      place = static_cast<int>(places_.size());
      places_.push_back(
          {std::string(key), -1, places_[static_cast<size_t>(parent)].first_child, -1});
      places_[static_cast<size_t>(parent)].first_child = place;
    }
    parent = place;
  }
  places_[static_cast<size_t>(parent)].path_idx = static_cast<int>(strings_.size());
  strings_.emplace_back();
  has_string_.push_back(false);
}

void OriginStrings::forget() {
  if (!has_any_) return;
  has_any_ = false;
  has_string_.assign(has_string_.size(), false);
}

void OriginStrings::note(int place, const JsonString* string) {
  const Place& here = places_[static_cast<size_t>(place)];
  if (has_any_) {  // of a member of this name that came before
    for (int i = here.first_child; i >= 0; i = places_[static_cast<size_t>(i)].next_sibling)
      note(i, nullptr);
  }
  if (here.path_idx < 0) return;
  const auto path_idx = static_cast<size_t>(here.path_idx);
  has_string_[path_idx] = string != nullptr;
  if (string == nullptr) return;
  strings_[path_idx] = *string;
  has_any_ = true;
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
    const int child = find_child(place, unescaped_key(key, key_buffer_));
    return child < 0 ? scanner.value() : read(scanner, child);
  });
}

Origin OriginStrings::origin() {
  if (!has_any_) return {};
  for (size_t i = 0; i < strings_.size(); ++i) {
    if (!has_string_[i]) continue;
    std::string_view value = strings_[i].raw;
    if (strings_[i].has_escapes) {
      buffer_.clear();
      unescape_json(beginning(value), buffer_);
      value = buffer_;
    }
    if (const Origin origin = origin_of(value); !origin.is_empty()) return origin;
  }
  return {};
}

}  // namespace weft
