#include "preprocess/ledger/journal.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/soundness/xxh3.h"
#include "preprocess/datasets/json_integer.h"
#include "preprocess/ledger/task_json.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr size_t kHashDigits = 16;

std::string hash_of(std::string_view text) {
  return fmt::format("{:016x}", static_cast<uint64_t>(XXH3_64bits(text.data(), text.size())));
}

std::string line_of(const std::string& json) { return hash_of(json) + " " + json + "\n"; }

// The next whole line's JSON, cut off from `rest`; nothing at the end and at a torn line.
std::optional<std::string_view> next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos || end <= kHashDigits) return std::nullopt;
  const std::string_view json = rest.substr(kHashDigits + 1, end - kHashDigits - 1);
  if (rest[kHashDigits] != ' ' || rest.substr(0, kHashDigits) != hash_of(json)) return std::nullopt;
  rest.remove_prefix(end + 1);
  return json;
}

}  // namespace

std::optional<Journal::Content> Journal::read(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  std::string_view rest = text;
  Content content;
  const auto first = next_line(rest);
  if (!first) return std::nullopt;
  content.identity = *first;
  try {
    while (const auto line = next_line(rest)) {
      const Json json = Json::parse(*line);
      content.progress[json_integer(json.at("task"))] = json.at("progress").get<TaskProgress>();
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": not a journal of this version of weft-data (" +
                             error.what() + "); remove the folder it is in to start anew");
  }
  return content;
}

Journal::Journal(const std::filesystem::path& path, const std::string& identity) {
  const auto content = read(path);
  if (!content || content->identity != identity) {
    write_file_atomically(path, line_of(identity));
    file_ = OutputFile(path, /*keep=*/true);
    whole_bytes_ = file_.size_bytes();
    return;
  }
  const std::string text = read_file(path);
  std::string_view rest = text;
  while (next_line(rest)) {
  }
  file_ = OutputFile(path, /*keep=*/true);
  whole_bytes_ = static_cast<int64_t>(text.size() - rest.size());
  if (!rest.empty()) file_.truncate(whole_bytes_);
}

void Journal::add(const std::vector<LedgerRequest::Durable>& changed) {
  if (changed.empty()) return;
  std::string lines;
  for (const auto& [task, progress] : changed) {
    lines += line_of(progress_json(task, progress));
  }
  crash_point("journal_behind");  // the files are synced, the journal does not know it
  // A write that failed half-way, on a full disk, would hide what comes behind it.
  if (file_.size_bytes() != whole_bytes_) file_.truncate(whole_bytes_);
  file_.append(lines.data(), lines.size());
  whole_bytes_ = file_.size_bytes();
  crash_point("journal_unsynced");
  file_.sync();
  crash_point("journal_synced");
}

}  // namespace weft
