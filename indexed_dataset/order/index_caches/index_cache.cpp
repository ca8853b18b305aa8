#include "indexed_dataset/order/index_caches/index_cache.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/npy_file.h"
#include "indexed_dataset/order/index_caches/cache_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Size and time of the .idx that a reader has mapped, whatever has its name now: the index is of
// these bytes.
Json idx_facts(const DatasetReader& reader) {
  return {{"idx_bytes", reader.idx_bytes().size()}, {"idx_mtime_ns", reader.idx_modified_ns()}};
}

std::string hash_lengths(const DatasetReader& reader) {
  const SequenceLengths lengths = reader.lengths();
  return xxh3_text({reinterpret_cast<const std::byte*>(lengths.address(0)),
                    static_cast<size_t>(lengths.size()) * sizeof(int32_t)});
}

// Returns the request that an index was built for; the data is described apart.
Json request_facts(const GptIndexOptions& options) {
  // They differ in blends only: the index of one dataset is the same, and so is its name.
  const OrderKind order = options.order == OrderKind::kCore010 ? OrderKind::kCore : options.order;
  return {{"version", 1},
          {"first", options.range.begin},
          {"end", options.range.end},
          {"asked", options.num_samples ? Json(*options.num_samples) : Json()},
          {"order", name_of(order)},
          {"seed", options.seed},
          {"sequence_length", options.sequence_length}};
}

bool has_all(const Json& stamp, const Json& facts) {
  for (const auto& [key, value] : facts.items()) {
    if (!stamp.contains(key) || stamp[key] != value) return false;
  }
  return true;
}

Json plan_facts(const EpochPlan& plan) {
  return {{"tokens_per_epoch", plan.num_tokens_per_epoch},
          {"epochs", plan.num_epochs},
          {"samples", plan.num_samples},
          {"samples_before_last_epoch",
           plan.separate_last_epoch ? Json(plan.num_samples_before_last_epoch) : Json()}};
}

EpochPlan plan_of(const Json& stamp) {
  EpochPlan plan;
  plan.num_tokens_per_epoch = json_integer_at(stamp, "tokens_per_epoch");
  plan.num_epochs = json_integer_at(stamp, "epochs");
  plan.num_samples = json_integer_at(stamp, "samples");
  plan.separate_last_epoch = !stamp.at("samples_before_last_epoch").is_null();
  if (plan.separate_last_epoch)
    plan.num_samples_before_last_epoch = json_integer_at(stamp, "samples_before_last_epoch");
  return plan;
}

Json hash_arrays(const GptIndexView& index) {
  const auto hash = [](auto values) { return xxh3_text(std::as_bytes(values)); };
  return {hash(index.document_index), std::visit(hash, index.sample_index),
          std::visit(hash, index.shuffle_index)};
}

struct MappedIndex {
  NpyArray document_index, sample_index, shuffle_index;
};

std::vector<int64_t> shape(int64_t rows) { return {rows}; }

// Maps the arrays of these names, which are of this plan. Throws std::runtime_error where they have
// other shapes or types.
HeldIndex map_index(const fs::path& folder, const CacheNames& names, const EpochPlan& plan,
                    const GptIndexOptions& options) {
  const auto mapped = std::make_shared<const MappedIndex>(
      MappedIndex{NpyArray(folder / names.document_index), NpyArray(folder / names.sample_index),
                  NpyArray(folder / names.shuffle_index)});
  // The plan may be that of a damaged stamp.
  int64_t num_positions = 0, num_rows = 0;
  if (__builtin_mul_overflow(plan.num_epochs, options.range.end - options.range.begin,
                             &num_positions) ||
      __builtin_add_overflow(plan.num_samples, 1, &num_rows))
    throw std::runtime_error("its numbers of epochs and samples cannot be counted with");
  HeldIndex held{.view = {.plan = plan,
                          .document_index = mapped->document_index.values<int32_t>(),
                          .sample_index = {},
                          .shuffle_index = {}},
                 .memory = mapped};
  if (has_wide_rows(plan, num_positions, options.order)) {
    held.view.sample_index = mapped->sample_index.values<int64_t>();
  } else {
    held.view.sample_index = mapped->sample_index.values<int32_t>();
  }
  if (has_wide_shuffle(plan)) {
    held.view.shuffle_index = mapped->shuffle_index.values<int64_t>();
  } else {
    held.view.shuffle_index = mapped->shuffle_index.values<uint32_t>();
  }
  if (mapped->document_index.shape() != shape(num_positions) ||
      mapped->sample_index.shape() != std::vector<int64_t>{num_rows, 2} ||
      mapped->shuffle_index.shape() != shape(plan.num_samples)) {
    throw std::runtime_error("its arrays do not have " + std::to_string(num_positions) +
                             " documents and " + std::to_string(plan.num_samples) + " samples");
  }
  return held;
}

// Returns true where the entries are those of 0 to n - 1 in some order, but for damage that leaves
// their number, sum and sum of squares as they were. A table of those that were seen takes 14 times
// as long.
template <typename T>
bool looks_like_permutation(std::span<const T> values) {
  const auto count = static_cast<uint64_t>(values.size());
  uint64_t sum = 0, squares = 0, largest = 0;
  for (const T value : values) {
    const auto entry = static_cast<uint64_t>(value);
    sum += entry;
    squares += entry * entry;
    largest = std::max(largest, entry);
  }
  // Unsigned sums wrap around at 2^64, and so do these.
  __extension__ using Wide = unsigned __int128;
  const Wide n = count;
  return count == 0 || (largest < count && sum == static_cast<uint64_t>(n * (n - 1) / 2) &&
                        squares == static_cast<uint64_t>(n * (n - 1) * (2 * n - 1) / 6));
}

}  // namespace

std::string index_stamp(const DatasetReader& reader, const GptIndexOptions& options,
                        const GptIndexView& index) {
  Json stamp = request_facts(options);
  stamp.update(idx_facts(reader));
  stamp["lengths_xxh3"] = hash_lengths(reader);
  stamp.update(plan_facts(index.plan));
  stamp["arrays_xxh3"] = hash_arrays(index);
  return stamp.dump() + "\n";
}

std::optional<CachedIndex> find_cached_index(const fs::path& folder,
                                             const IndexDescription& description,
                                             const DatasetReader& reader,
                                             const GptIndexOptions& options) {
  const CacheNames names = cache_names(description);
  return open_or_nothing([&]() -> std::optional<CachedIndex> {
    const std::string text = find_stamp(folder / names.stamp);
    if (text.empty()) return std::nullopt;
    const Json stamp = parse_json<Json>(text);
    if (!has_all(stamp, request_facts(options))) return std::nullopt;
    if (!has_all(stamp, idx_facts(reader)) && stamp.at("lengths_xxh3") != hash_lengths(reader))
      return std::nullopt;
    HeldIndex held = map_index(folder, names, plan_of(stamp), options);
    if (stamp.at("arrays_xxh3") != hash_arrays(held.view)) return std::nullopt;
    return CachedIndex{.index = std::move(held), .was_there = true};
  });
}

std::optional<CachedIndex> find_megatron_index(const fs::path& folder,
                                               const IndexDescription& description,
                                               const DatasetReader& reader,
                                               const GptIndexOptions& options) {
  const CacheNames names = cache_names(description);
  return find_of_megatron(
      folder / names.document_index, folder / names.stamp, reader.prefix().string(), [&] {
        const EpochPlan plan = plan_epochs(sum_tokens(reader.lengths(), options.range), options);
        CachedIndex found{.index = map_index(folder, names, plan, options),
                          .was_there = true,
                          .is_from_megatron = true};
        if (!std::visit([](auto values) { return looks_like_permutation(values); },
                        found.index.view.shuffle_index)) {
          throw std::runtime_error("its shuffle index, " + names.shuffle_index +
                                   ", has a sample twice and another one never");
        }
        return found;
      });
}

}  // namespace weft
