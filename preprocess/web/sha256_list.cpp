#include "preprocess/web/sha256_list.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "preprocess/web/url.h"

namespace weft {
namespace {

constexpr size_t kNumDigits = 64;

// Name and checksum; an empty name for a line of another form.
std::pair<std::string, std::string> parse_line(std::string_view line) {
  constexpr std::string_view kBsdStart = "SHA256 (", kBsdEnd = ") = ";
  if (line.starts_with(kBsdStart)) {
    const size_t end = line.rfind(kBsdEnd);
    if (end == line.npos || !is_sha256_text(line.substr(end + kBsdEnd.size()))) return {};
    return {std::string(line.substr(kBsdStart.size(), end - kBsdStart.size())),
            std::string(line.substr(end + kBsdEnd.size()))};
  }
  if (line.size() < kNumDigits + 2 || !is_sha256_text(line.substr(0, kNumDigits))) return {};
  const bool is_separated = line[kNumDigits] == ' ' || line[kNumDigits] == '\t';
  if (!is_separated) return {};
  std::string_view name = line.substr(kNumDigits + 1);
  if (name[0] == ' ' || name[0] == '*') name.remove_prefix(1);
  return {std::string(name), std::string(line.substr(0, kNumDigits))};
}

}  // namespace

bool is_sha256_text(std::string_view text) {
  return text.size() == kNumDigits &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c); });
}

Sha256List::Sha256List(const std::string& name, std::string_view text) : name_(name) {
  int line_number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos || line.starts_with('#')) continue;
    auto [file, checksum] = parse_line(line);
    if (file.empty()) {
      throw std::runtime_error(name_ + ":" + std::to_string(line_number) +
                               ": not a line of a SHA256SUMS list (64 hexadecimal digits, two "
                               "spaces, a name)");
    }
    if (file.starts_with("./")) file.erase(0, 2);
    std::transform(checksum.begin(), checksum.end(), checksum.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    entries_.emplace_back(std::move(file), std::move(checksum));
  }
}

std::string Sha256List::find(const std::string& url) const {
  const std::string path = url_path(url);
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& entry : entries_) {
    if (!path.ends_with("/" + entry.first)) continue;
    if (best != nullptr && best->first.size() == entry.first.size() &&
        best->second != entry.second) {
      throw std::runtime_error(name_ + ": has two different checksums for '" + entry.first + "'");
    }
    if (best == nullptr || entry.first.size() > best->first.size()) best = &entry;
  }
  if (best != nullptr) return best->second;
  throw std::runtime_error(name_ + ": has no checksum for " + display_url(url));
}

}  // namespace weft
