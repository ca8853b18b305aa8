#include "preprocess/documents/origin.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
namespace {

constexpr const char* kEllipsis = "\xE2\x80\xA6";
constexpr size_t kMaxCutBytes = kOriginBytes - 3;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_of_scheme(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}
bool is_space_or_control(char c) { return static_cast<unsigned char>(c) <= ' '; }

std::string_view without_controls_around(std::string_view text) {
  while (!text.empty() && is_space_or_control(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space_or_control(text.back())) text.remove_suffix(1);
  return text;
}

// The length of "https://" in an address (RFC 3986, 3.1); 0 for other texts.
size_t scheme_length(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_of_scheme(text[end])) ++end;
  const bool is_scheme = end > 0 && is_letter(text[0]) && text.substr(end, 3) == "://";
  return is_scheme ? end + 3 : 0;
}

// RFC 3986, 3.2, and as browsers read what is no address by it: a backslash ends the host, too, and
// the last "@" ends the user. In one pass, for this is done for every line.
std::string_view host_of(std::string_view after_scheme) {
  size_t begin = 0, end = 0, colon = after_scheme.npos;
  for (; end < after_scheme.size(); ++end) {
    const char c = after_scheme[end];
    if (c >= 'A' || c == '.' || c == '-') {  // nearly all
      if (c == '\\') break;
      continue;
    }
    if (c == '/' || c == '?' || c == '#') break;
    if (c == '@') {
      begin = end + 1;
      colon = after_scheme.npos;
    } else if (c == ':' && colon == after_scheme.npos) {
      colon = end;
    }
  }
  std::string_view host = after_scheme.substr(begin, end - begin);
  const size_t bracket = host.starts_with('[') ? host.find(']') : host.npos;  // of an IPv6 address
  if (bracket != host.npos) {
    host = host.substr(0, bracket + 1);
  } else if (colon != after_scheme.npos) {
    host = host.substr(0, colon - begin);
  }
  host = without_controls_around(host.substr(0, host.find('\0')));
  while (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

void put(Origin& origin, const std::string& text) {
  std::memcpy(origin.bytes.data(), text.data(), text.size());
}

void put_beginning(Origin& origin, std::string_view text) {
  const bool fits = text.size() <= kOriginBytes;
  put(origin, std::string(beginning_of(text, fits ? kOriginBytes : kMaxCutBytes)) +
                  (fits ? "" : kEllipsis));
}

void put_end(Origin& origin, std::string_view text) {
  if (text.size() <= kOriginBytes) return put(origin, std::string(text));
  size_t begin = text.size() - kMaxCutBytes;
  while ((text[begin] & 0xC0) == 0x80) ++begin;  // not within a character
  put(origin, kEllipsis + std::string(text.substr(begin)));
}

void put_host(Origin& origin, std::string_view host) {
  // "WWW." as well; "www.com" is a host of its own.
  constexpr std::string_view kWww = "www.";
  const bool has_www = host.size() > kWww.size() &&
                       std::equal(kWww.begin(), kWww.end(), host.begin(), [](char www, char c) {
                         return www == (is_letter(c) ? c | 0x20 : c);
                       });
  const bool is_www_of_more = has_www && host.find('.', kWww.size()) != host.npos;
  put_end(origin, is_www_of_more ? host.substr(kWww.size()) : host);
  for (char& c : origin.bytes) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
}

}  // namespace

Origin origin_of(std::string_view value) {
  Origin origin;
  value = without_controls_around(beginning_of(value, kMaxOriginTextBytes));
  const size_t scheme_bytes = scheme_length(value);
  if (scheme_bytes == 0) {
    put_beginning(origin, without_controls_around(value.substr(0, value.find('\0'))));
    return origin;
  }
  const std::string_view host = host_of(value.substr(scheme_bytes));
  if (!host.empty()) {
    put_host(origin, host);
  } else {
    put_beginning(origin, value.substr(0, scheme_bytes));
  }
  return origin;
}

std::vector<KeyPath> origin_paths(std::string_view origin_key) {
  constexpr std::string_view kOption = "--origin-key";
  if (origin_key == kNoOriginKey) return {};
  std::vector<KeyPath> paths;
  if (origin_key == "auto") {
    for (const std::string_view path : kAutoOriginPaths) paths.push_back(key_path(kOption, path));
  } else {
    paths.push_back(key_path(kOption, origin_key));
  }
  return paths;
}

}  // namespace weft
