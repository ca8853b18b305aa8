#include "preprocess/web/sha256_list.h"

#include <stdexcept>

#include "indexed_dataset/base/storage/sha256.h"
#include "preprocess/web/url.h"

namespace weft {
namespace {

constexpr size_t kNumDigits = 64;

// Name and checksum; an empty name for a line of another form.
std::pair<std::string, std::string> parse_line(const std::string& line) {
  constexpr std::string_view kBsdStart = "SHA256 (", kBsdEnd = ") = ";
  std::string name, checksum;
  if (line.starts_with(kBsdStart)) {
    const size_t end = line.rfind(kBsdEnd);
    if (end == line.npos) return {};
    name = line.substr(kBsdStart.size(), end - kBsdStart.size());
    checksum = line.substr(end + kBsdEnd.size());
  } else if (line.size() > kNumDigits + 1 &&
             (line[kNumDigits] == ' ' || line[kNumDigits] == '\t')) {
    const char mark = line[kNumDigits + 1];
    name = line.substr(kNumDigits + (mark == ' ' || mark == '*' ? 2 : 1));
    checksum = line.substr(0, kNumDigits);
  }
  checksum = lower_sha256(checksum);
  return {checksum.empty() ? "" : name, checksum};
}

}  // namespace

Sha256List::Sha256List(const std::string& name, std::string_view text) : name_(name) {
  int line_number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string line(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    ++line_number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == line.npos || line.starts_with('#')) continue;
    auto [file, checksum] = parse_line(line);
    if (file.empty()) {
      throw std::runtime_error(name_ + ":" + std::to_string(line_number) +
                               ": not a line of a SHA256SUMS list (64 hexadecimal digits, two "
                               "spaces, a name)");
    }
    if (file.starts_with("./")) file.erase(0, 2);
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
