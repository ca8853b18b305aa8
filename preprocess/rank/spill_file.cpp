#include "preprocess/rank/spill_file.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "spill.";

// So many bytes of tokens are in memory while a batch is copied to the output.
constexpr uint64_t kBlockBytes = 4 << 20;

}  // namespace

fs::path spill_path(const fs::path& folder, int64_t task, int64_t process_id) {
  return folder / (kPrefix + std::to_string(task) + "." + std::to_string(process_id));
}

bool is_spill_name(const std::string& name) {
  const std::string numbers = name.starts_with(kPrefix) ? name.substr(std::size(kPrefix) - 1) : "";
  const size_t dot = numbers.find('.');
  return dot != std::string::npos && dot > 0 && dot + 1 < numbers.size() &&
         numbers.find_first_not_of("0123456789") == dot &&
         numbers.find_first_not_of("0123456789", dot + 1) == std::string::npos;
}

bool has_spills(const fs::path& folder, int64_t task, const std::vector<SpillFile>& spill) {
  return std::all_of(spill.begin(), spill.end(), [&](const SpillFile& file) {
    std::error_code error;
    const auto size_bytes = fs::file_size(spill_path(folder, task, file.process_id), error);
    return !error && static_cast<int64_t>(size_bytes) >= file.num_bytes;
  });
}

void remove_stale_spills(const fs::path& folder, const std::map<int64_t, TaskProgress>& progress) {
  std::set<fs::path> wanted;
  for (const auto& [task, its_progress] : progress) {
    for (const SpillFile& file : its_progress.spill) {
      wanted.insert(spill_path(folder, task, file.process_id));
    }
  }
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_spill_name(entry.path().filename().string()) && !wanted.contains(entry.path())) {
      stale.push_back(entry.path());
    }
  }
  for (const fs::path& path : stale) remove_file(path);
}

SpillHeader SpillReader::read_header() {
  SpillHeader header;
  read_into(&header, sizeof header);
  // Each on its own first: the sum of hostile numbers could overflow.
  const auto rest = static_cast<uint64_t>(num_bytes_ - position_);
  if (header.num_bytes > rest || header.num_sequences > rest || header.num_documents > rest ||
      header.size_bytes(has_origins_) > rest || header.num_bytes % weft::size_bytes(type_) != 0) {
    throw ChecksumMismatch(file_.path().string() + ": at byte " + std::to_string(position_) +
                           " it does not hold what was written there; the file system or a disk "
                           "lost it: remove the folder it is in, and run again");
  }
  return header;
}

DatasetCounts SpillReader::copy(const DatasetCounts& before, SharedPairWriter& pair,
                                Batch::Output& output) {
  const SpillHeader header = read_header();
  std::vector<std::byte> tokens;
  for (uint64_t done = 0; done < header.num_bytes; done += tokens.size()) {
    read_values(tokens, std::min(kBlockBytes, header.num_bytes - done));
    const auto num_before = static_cast<int64_t>(done) / weft::size_bytes(type_);
    pair.write_tokens(before.num_tokens + num_before, tokens);
  }
  output.clear();
  read_values(output.sequence_lengths, header.num_sequences);
  read_values(output.document_sequences, header.num_documents);
  read_values(output.locators, header.num_documents);
  if (has_origins_) read_values(output.origins, header.num_documents);
  pair.write_lengths(before.num_sequences, output.sequence_lengths);
  pair.write_bounds(before, output.document_sequences);
  return {static_cast<int64_t>(header.num_documents), static_cast<int64_t>(header.num_sequences),
          static_cast<int64_t>(header.num_bytes) / weft::size_bytes(type_)};
}

void SpillReader::read_into(void* data, size_t size_bytes) {
  const int64_t end_bytes = std::min(num_bytes_, file_.size_bytes());
  if (static_cast<int64_t>(size_bytes) > end_bytes - position_) {
    throw ChecksumMismatch(file_.path().string() +
                           ": ends within what was written to it; the file system or a disk lost "
                           "the rest: remove the folder it is in, and run again");
  }
  if (size_bytes > 0) file_.read_at(data, size_bytes, position_);
  position_ += static_cast<int64_t>(size_bytes);
}

}  // namespace weft
