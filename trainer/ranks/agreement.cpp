#include "trainer/ranks/agreement.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"

namespace weft {
namespace {

constexpr size_t kMaxNamed = 8;

std::string differences(const Facts& rank_0, const Facts& other) {
  const std::map<std::string, std::string> values(other.begin(), other.end());
  std::string text;
  for (const auto& [name, value] : rank_0) {
    const auto found = values.find(name);
    const std::string& theirs = found == values.end() ? "not there" : found->second;
    if (theirs == value) continue;
    text += fmt::format("{}{} is {} instead of {}", text.empty() ? "" : "; ", name, theirs, value);
  }
  return text.empty() ? "its facts have other names" : text;
}

}  // namespace

void check_ranks_agree(HostGroup& ranks, const Facts& facts) {
  if (ranks.size() == 1) return;
  const std::string mine =
      nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // Rank 0 sends what it gathers to all, so first only checksums travel.
  const auto checksums = ranks.all_gather(checksum_of(mine));
  std::vector<size_t> different;
  for (size_t rank = 1; rank < checksums.size() && different.size() < kMaxNamed; ++rank) {
    if (checksums[rank] != checksums[0]) different.push_back(rank);
  }
  if (different.empty()) return;
  const auto own = static_cast<size_t>(ranks.rank());
  const bool is_asked =
      own == 0 || std::find(different.begin(), different.end(), own) != different.end();
  const auto texts = ranks.all_gather(is_asked ? mine : "");
  const auto facts_of = [&](size_t rank) {
    return nlohmann::json::parse(texts[rank]).get<Facts>();
  };
  std::string message = "the ranks were not started alike, rank 0 is " + ranks.name_of(0);
  for (const size_t rank : different) {
    message += fmt::format("\n  {}: {}", ranks.name_of(static_cast<int>(rank)),
                           differences(facts_of(0), facts_of(rank)));
  }
  throw ConfigurationDiffers(message);
}

std::string checksum_of(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

std::string program_checksum() {
  try {
    return checksum_of(read_file("/proc/self/exe"));
  } catch (const std::system_error& error) {
    // A cluster may install programs that users run but cannot read, and a container may lack
    // /proc.
    if (error.code() != std::errc::permission_denied &&
        error.code() != std::errc::no_such_file_or_directory)
      throw;
    return "unknown";
  }
}

int local_rank(const HostGroup& ranks) {
  int count = 0;
  for (int rank = 0; rank < ranks.rank(); ++rank) {
    if (ranks.host_of(rank) == ranks.host_of(ranks.rank())) ++count;
  }
  return count;
}

}  // namespace weft
