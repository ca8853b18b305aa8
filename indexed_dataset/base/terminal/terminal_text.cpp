#include "indexed_dataset/base/terminal/terminal_text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>

namespace weft {
namespace {

struct Character {
  uint32_t code_point;
  size_t size_bytes;  // 0: the bytes are not UTF-8
};

Character decode_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return {0, 0};
  uint32_t code_point = lead & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool valid = code_point >= kSmallest[size] && code_point < 0x110000 &&
                     (code_point < 0xD800 || code_point >= 0xE000);
  return valid ? Character{code_point, size} : Character{0, 0};
}

bool is_dangerous(uint32_t c) {
  const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool separator = c == 0x2028 || c == 0x2029;
  // Unicode's Bidi_Control: ALM, LRM, RLM, embeddings, overrides and isolates ("Trojan Source",
  // CVE-2021-42574).
  const bool bidi = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
                    (c >= 0x2066 && c <= 0x2069);
  const bool tag = c >= 0xE0000 && c < 0xE0080;  // invisible copies of ASCII
  return control || separator || bidi || tag;
}

std::string escape(std::string_view text, bool is_message) {
  std::string out;
  while (!text.empty()) {
    const Character character = decode_utf8(text);
    const size_t size = character.size_bytes == 0 ? 1 : character.size_bytes;
    if (character.size_bytes == 0) {
      out += fmt::format("\\x{:02X}", static_cast<uint8_t>(text[0]));
    } else if (is_message && (text[0] == '\\' || text.starts_with("\n  "))) {
      out += text[0];
    } else if (text[0] == '\n') {
      out += "\\n";
    } else if (text[0] == '\t') {
      out += "\\t";
    } else if (text[0] == '\\') {
      out += "\\\\";
    } else if (is_dangerous(character.code_point)) {
      out += character.code_point < 0x80 ? fmt::format("\\x{:02X}", character.code_point)
                                         : fmt::format("\\u{{{:X}}}", character.code_point);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace

std::string escape_for_terminal(std::string_view text) { return escape(text, false); }

std::string escape_message(std::string_view text) { return escape(text, true); }

bool looks_like_url(std::string_view text) {
  const size_t end = text.find("://");
  if (end == text.npos || end == 0) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<ptrdiff_t>(end), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  });
}

std::string display_url(const std::string& url) {
  std::string shown = url.substr(0, url.find_first_of("?#"));
  const size_t host = shown.find("://");
  if (host == shown.npos) return shown;
  const size_t path = shown.find('/', host + 3);
  const size_t at = shown.rfind('@', path == shown.npos ? path : path - 1);
  if (at != shown.npos && at > host) shown.erase(host + 3, at - host - 2);
  return shown;
}

std::string first_columns(const std::string& line, size_t num_columns) {
  size_t at = 0;
  for (; at < line.size(); ++at) {
    const bool begins_character = (line[at] & 0xC0) != 0x80;
    if (begins_character && num_columns-- == 0) break;
  }
  return line.substr(0, at);
}

size_t terminal_columns(int fd, size_t otherwise) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int64_t count = columns == nullptr ? 0 : std::atoll(columns);
  return count > 0 ? static_cast<size_t>(count) : otherwise;
}

std::string fit_to_terminal(const std::string& line, int fd) {
  const size_t num_columns = terminal_columns(fd, 80) - 1;
  std::string fitting = line;
  while (first_columns(fitting, num_columns).size() < fitting.size()) {
    const size_t last_field = fitting.rfind(" | ");
    if (last_field == fitting.npos) return first_columns(fitting, num_columns);
    fitting.resize(last_field);
  }
  return fitting;
}

std::string counted(int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string_view beginning_of(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && (text[max_bytes] & 0xC0) == 0x80) --max_bytes;
  return text.substr(0, max_bytes);
}

size_t num_valid_utf8_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = decode_utf8(text.substr(at)).size_bytes;
    if (size == 0) break;
    at += size;
  }
  return at;
}

std::string grouped(int64_t value) {
  std::string text = std::to_string(value);
  for (int64_t at = std::ssize(text) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

std::string percent(double share) {
  const double percents = 100 * share;
  if (percents > 99.9 && percents < 100) return "over 99.9 %";
  if (percents > 0 && percents < 0.1) return "under 0.1 %";
  return fmt::format("{:.1f} %", percents);
}

}  // namespace weft
