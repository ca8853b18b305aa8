#include "trainer/step/weight_check.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "kernels/numbers/elements.h"
#include "trainer/parallel/arena.h"

namespace weft {
namespace {

constexpr int64_t kChunkElements = 4 << 20;  // of a copy to the host
constexpr size_t kMaxNamed = 8;

// Tells which ranks must hold the same bits of a tensor.
enum Sharing { kByAll, kByDataParallel, kByTensorParallel, kByTiedStages, kNumSharings };

// The word embedding of the first and the last pipeline stage is the same on both, whatever else
// holds it.
std::vector<Sharing> sharings_of(const StateTensor& tensor, const ParallelLayout& layout,
                                 bool shards_optimizer) {
  std::vector<Sharing> sharings;
  const bool is_sharded = shards_optimizer && tensor.name.starts_with("optimizer/");
  const bool is_split = tensor.split_dim >= 0;
  if (is_sharded) {
    if (!is_split) sharings.push_back(kByTensorParallel);
  } else {
    sharings.push_back(is_split ? kByDataParallel : kByAll);
  }
  if (layout.pp_size > 1 && tensor.name.ends_with("/embedding.word_embeddings.weight"))
    sharings.push_back(kByTiedStages);
  return sharings;
}

// Returns the lowest rank that must hold the same bits.
int first_peer(const ParallelLayout& layout, Sharing sharing) {
  ParallelLayout first = layout;
  if (sharing == kByTiedStages) {
    if (layout.pp_rank + 1 == layout.pp_size) first.pp_rank = 0;
    return first.world_rank();
  }
  if (sharing != kByDataParallel) first.tp_rank = 0;
  if (sharing != kByTensorParallel) first.dp_rank = 0;
  return first.world_rank();
}

// Calls consume(bytes, first element, count) for chunks of a flat tensor, front to back.
template <typename Consume>
void for_each_chunk(Backend& backend, Tensor tensor, std::vector<char>& buffer, Consume consume) {
  const int64_t element_bytes = size_bytes(tensor.dtype());
  for (int64_t first = 0; first < tensor.num_elements(); first += kChunkElements) {
    const int64_t count = std::min(kChunkElements, tensor.num_elements() - first);
    buffer.resize(static_cast<size_t>(count * element_bytes));
    backend.copy(buffer.data(), tensor.as<char>() + first * element_bytes, count * element_bytes,
                 Stream::kCompute);
    backend.synchronize();
    consume(buffer.data(), first, count);
  }
}

// The checksums of a rank's tensors.
struct Digests {
  // By sharing; (tensor, checksum) in the order of tensors. Pieces of one name follow each other.
  std::vector<std::pair<std::string, uint64_t>> tensors[kNumSharings];

  std::vector<uint64_t> totals() const {
    std::vector<uint64_t> totals;
    for (const auto& list : tensors) {
      uint64_t total = 0;
      for (const auto& [name, sum] : list) total = XXH3_64bits_withSeed(&sum, sizeof sum, total);
      totals.push_back(total);
    }
    return totals;
  }
};

Digests digests_of(Backend& backend, const std::vector<StateTensor>& tensors,
                   const ParallelLayout& layout, bool shards_optimizer) {
  Digests digests;
  std::vector<char> buffer;
  for (const StateTensor& tensor : tensors) {
    const std::vector<Sharing> sharings = sharings_of(tensor, layout, shards_optimizer);
    if (sharings.empty()) continue;  // no other rank holds it
    uint64_t sum = 0;
    for_each_chunk(backend, tensor.tensor, buffer, [&](const char* bytes, int64_t, int64_t) {
      sum = XXH3_64bits_withSeed(bytes, buffer.size(), sum);
    });
    for (const Sharing sharing : sharings) digests.tensors[sharing].emplace_back(tensor.name, sum);
  }
  return digests;
}

// Returns what is wrong with the weights of this rank against their masters, or "". Masters of bf16
// weights are made of them.
std::string difference_from_masters(Backend& backend, const std::vector<StateTensor>& tensors) {
  std::map<std::string, Tensor> weights;
  for (const StateTensor& tensor : tensors) {
    if (tensor.name.starts_with("model/")) weights[tensor.name.substr(6)] = tensor.tensor;
  }
  constexpr std::string_view kMaster = "optimizer/master/";
  std::vector<char> masters, values;
  std::string difference;
  for (const StateTensor& master : tensors) {
    if (!master.name.starts_with(kMaster)) continue;
    const std::string name = master.name.substr(kMaster.size());
    const Tensor weight = weights.at(name);
    if (weight.dtype() == DType::kBFloat16) break;
    for_each_chunk(backend, master.tensor, masters, [&](const char*, int64_t first, int64_t count) {
      const Tensor part = range_of(weight, {master.first + first, count});
      values.resize(static_cast<size_t>(part.num_bytes()));
      backend.copy(values.data(), part.data(), part.num_bytes(), Stream::kCompute);
      backend.synchronize();
      const auto* want = reinterpret_cast<const float*>(masters.data());
      for (int64_t i = 0; i < count && difference.empty(); ++i) {
        char rounded[sizeof(float)];  // of any type
        store_element(rounded, weight.dtype(), 0, want[i]);
        if (std::memcmp(&values[static_cast<size_t>(2 * i)], rounded, 2) == 0) continue;
        difference = fmt::format("{} is not its fp32 master: element {} is {}, its master {}", name,
                                 master.first + first + i,
                                 load_element(values.data(), weight.dtype(), i), want[i]);
      }
    });
    if (!difference.empty()) break;
  }
  return difference;
}

// Returns the tensors in which a rank differs from its first peer.
std::string names_of_differences(const Digests& a, const Digests& b, Sharing sharing) {
  const auto &x = a.tensors[sharing], &y = b.tensors[sharing];
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    const bool is_named = !names.empty() && names.back() == x[i].first;
    if (x[i] != y[i] && !is_named) names.push_back(x[i].first);
  }
  if (x.size() != y.size()) names.emplace_back("the number of tensors");
  std::string text;
  for (size_t i = 0; i < std::min(kMaxNamed, names.size()); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMaxNamed) text += fmt::format(" and {} more", names.size() - kMaxNamed);
  return text;
}

struct DifferentRank {
  int rank = 0, first_peer = 0;
  Sharing sharing = kByAll;
};

// `totals` are those of all ranks.
std::vector<DifferentRank> different_ranks(const ParallelLayout& layout,
                                           const std::vector<std::vector<uint64_t>>& totals) {
  std::vector<DifferentRank> different;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    for (const Sharing sharing : {kByAll, kByDataParallel, kByTensorParallel, kByTiedStages}) {
      const int first = first_peer(layout_of(layout, rank), sharing);
      const auto idx = static_cast<size_t>(sharing);
      const uint64_t own = totals[static_cast<size_t>(rank)][idx];
      // A stage whose head has weights of its own holds no copy of the word embedding.
      if (sharing == kByTiedStages && own == 0) continue;
      const bool same = own == totals[static_cast<size_t>(first)][idx];
      if (!same && different.size() < kMaxNamed) different.push_back({rank, first, sharing});
    }
  }
  return different;
}

}  // namespace

void check_weights(Backend& backend, const std::vector<StateTensor>& tensors,
                   const ParallelLayout& layout, bool shards_optimizer, HostGroup& ranks) {
  const Digests mine = digests_of(backend, tensors, layout, shards_optimizer);
  const std::string from_masters = difference_from_masters(backend, tensors);
  // Rank 0 sends what it gathers to all, so first only totals travel.
  const auto texts = ranks.all_gather(nlohmann::json{mine.totals(), from_masters}.dump());
  std::vector<std::vector<uint64_t>> totals;
  std::string message;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto json = nlohmann::json::parse(texts[static_cast<size_t>(rank)]);
    totals.push_back(json.at(0));
    const std::string difference = json.at(1);
    if (!difference.empty()) message += "\n  " + ranks.name_of(rank) + ": " + difference;
  }
  const std::vector<DifferentRank> different = different_ranks(layout, totals);
  const bool is_asked = std::any_of(different.begin(), different.end(), [&](const auto& d) {
    return d.rank == ranks.rank() || d.first_peer == ranks.rank();
  });
  if (!different.empty()) {
    const auto lists =
        ranks.all_gather(is_asked ? nlohmann::json(mine.tensors).dump() : std::string());
    const auto digests_of_rank = [&](int rank) {
      Digests digests;
      nlohmann::json::parse(lists[static_cast<size_t>(rank)]).get_to(digests.tensors);
      return digests;
    };
    for (const DifferentRank& d : different) {
      message += fmt::format(
          "\n  {} and {} differ: {}", ranks.name_of(d.first_peer), ranks.name_of(d.rank),
          names_of_differences(digests_of_rank(d.first_peer), digests_of_rank(d.rank), d.sharing));
    }
  }
  if (message.empty()) return;
  throw ChecksumMismatch(
      "weights that must be equal have drifted apart; nothing of this step is saved, resume from the "
      "last checkpoint; a rank that differs again on the same machine may have bad memory" +
      message);
}

}  // namespace weft
