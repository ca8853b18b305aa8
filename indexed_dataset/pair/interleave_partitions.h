// The documents of a pair dealt like cards, as Megatron-LM's tools/preprocess_data.py --partitions
// does it with lines: document i goes to partition i mod P, and the partitions stand one after
// another. The documents of a pair of 7 with P = 3 come in the order 0 3 6 1 4 2 5.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace weft {

// Documents that partitions before `partition` get of `num_documents`.
constexpr int64_t documents_before_partition(int64_t partition, int64_t num_documents,
                                             int64_t num_partitions) {
  const int64_t rest = num_documents % num_partitions;
  return partition * (num_documents / num_partitions) + (partition < rest ? partition : rest);
}

// Writes the dealt pair to `dealt_bin` and `dealt_idx`, replacing what is there, and syncs both.
// Reads both files from front to back, and holds about 64 MiB (up to 112 MiB with over 512
// partitions) however long documents are. `check` is called often; what it throws ends the work.
// Throws std::system_error; std::runtime_error if the pair is damaged.
void deal_pair(const std::filesystem::path& bin, const std::filesystem::path& idx,
               const std::filesystem::path& dealt_bin, const std::filesystem::path& dealt_idx,
               int64_t num_partitions, const std::function<void()>& check);

}  // namespace weft
