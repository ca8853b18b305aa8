// Blending indexes in files, by the rules of index_cache.h. Their stamp tells how many samples each
// dataset gives.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "indexed_dataset/order/index_caches/cache_names.h"
#include "indexed_dataset/order/samples/blending_index.h"

namespace weft {

struct CachedBlend {
  HeldBlendingIndex index;
  std::vector<int64_t> counts;  // how many samples each dataset gives
  bool was_there = false;
  bool is_from_megatron = false;
};

// Maps the blending index of these weights and this size, which follows from them alone; builds it
// and writes it first if need be. Throws std::system_error if the folder or its files cannot be
// written.
CachedBlend open_cached_blend(const std::filesystem::path& folder,
                              const nlohmann::ordered_json& description, Split split,
                              const std::vector<double>& weights, int64_t size);

// Returns nothing if the files are not there; writes nothing.
std::optional<CachedBlend> find_cached_blend(const std::filesystem::path& folder,
                                             const nlohmann::ordered_json& description, Split split,
                                             int64_t size);

// Returns the index of so many datasets whose files Megatron wrote under exactly these names, as
// they are; nothing if there are none. Throws std::runtime_error where they do not fit.
std::optional<CachedBlend> find_megatron_blend(const std::filesystem::path& folder,
                                               const nlohmann::ordered_json& description,
                                               Split split, int64_t size, size_t num_datasets);

}  // namespace weft
