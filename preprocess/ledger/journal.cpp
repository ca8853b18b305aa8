#include "preprocess/ledger/journal.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "preprocess/ledger/ledger_messages.h"

namespace weft {
namespace {

constexpr size_t kHashDigits = 16;

std::string hash_of(std::string_view text) {
  return fmt::format("{:016x}", static_cast<uint64_t>(XXH3_64bits(text.data(), text.size())));
}

std::string line_of(const std::string& text) { return hash_of(text) + " " + text + "\n"; }

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  digits.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<uint8_t>(byte);
    digits += kDigits[value >> 4];
    digits += kDigits[value & 15];
  }
  return digits;
}

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (; digits.size() > 1; digits.remove_prefix(2)) {
    uint8_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + 2, value, 16);
    if (error != std::errc() || end != digits.data() + 2) break;
    bytes += static_cast<char>(value);
  }
  if (!digits.empty()) throw std::domain_error("a line is not made of hex digits");
  return bytes;
}

// The next whole line's text, cut off from `rest`; nothing at the end and at a torn line.
std::optional<std::string_view> next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos || end <= kHashDigits) return std::nullopt;
  const std::string_view text = rest.substr(kHashDigits + 1, end - kHashDigits - 1);
  if (rest[kHashDigits] != ' ' || rest.substr(0, kHashDigits) != hash_of(text)) return std::nullopt;
  rest.remove_prefix(end + 1);
  return text;
}

bool has_whole_line_behind_first(std::string_view rest) {
  for (size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    rest.remove_prefix(end + 1);
    std::string_view line = rest;
    if (next_line(line)) return true;
  }
  return false;
}

}  // namespace

std::optional<Journal::Content> Journal::read(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = read_regular_file(path, Links::kRefuse);
  std::string_view rest = text;
  Content content;
  const auto first = next_line(rest);
  if (!first) return std::nullopt;
  content.identity = *first;
  try {
    while (const auto line = next_line(rest)) {
      LedgerRequest::Durable durable = durable_from(from_hex(*line));
      content.progress[durable.task] = std::move(durable.progress);
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("{}: the line that ends at byte {} is not the progress of a task ({}): the "
                    "journal is damaged, or of another version of weft-data; remove the folder it "
                    "is in to start anew",
                    path.string(), text.size() - rest.size(), error.what()));
  }
  content.num_bytes = static_cast<int64_t>(text.size() - rest.size());
  content.is_damaged = has_whole_line_behind_first(rest);
  return content;
}

std::string Journal::line(const LedgerRequest::Durable& durable) {
  return line_of(to_hex(to_message(durable)));
}

Journal::Journal(const std::filesystem::path& path, const std::string& identity) {
  const auto content = read(path);
  const bool goes_on = content && content->identity == identity;
  if (!goes_on) write_file_atomically(path, line_of(identity));
  file_ = OutputFile(path, /*keep=*/true);
  num_bytes_ = goes_on ? content->num_bytes : file_.size_bytes();
}

void Journal::add(const std::vector<LedgerRequest::Durable>& changed) {
  if (changed.empty()) return;
  std::string lines;
  for (const LedgerRequest::Durable& durable : changed) lines += line(durable);
  crash_point("journal_behind");  // the files are synced, the journal does not know it
  // A line that is torn, by a power cut or on a full disk, would hide what comes behind it.
  if (file_.size_bytes() != num_bytes_) file_.truncate(num_bytes_);
  file_.append(lines.data(), lines.size());
  num_bytes_ = file_.size_bytes();
  crash_point("journal_unsynced");
  file_.sync();
  crash_point("journal_synced");
}

}  // namespace weft
