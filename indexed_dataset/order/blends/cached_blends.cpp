#include "indexed_dataset/order/blends/cached_blends.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft {

CachedBlend CachedBlends::find_or_build(const nlohmann::ordered_json* description,
                                        const std::vector<double>& weights, int64_t size,
                                        IndexReport& report) {
  std::optional<CachedBlend> found;
  if (description && order_.takes_megatron_caches) {
    found =
        find_megatron_blend(order_.cache_path, *description, report.split, size, weights.size());
  }
  if (description && !found) {
    found = order_.maps_caches_only
                ? find_cached_blend(order_.cache_path, *description, report.split, size)
                : open_cached_blend(order_.cache_path, *description, report.split, weights, size);
  }
  report.is_kept = description != nullptr;
  if (!found) return find_or_build_in_memory(weights, size);
  report.was_cached = found->was_there;
  report.is_from_megatron = found->is_from_megatron;
  return std::move(*found);
}

CachedBlend CachedBlends::find_or_build_in_memory(const std::vector<double>& weights,
                                                  int64_t size) {
  const auto has_them = [&](const Built& built) {
    return built.weights == weights && std::ssize(built.index->sample_index) >= size;
  };
  auto built = std::find_if(built_.begin(), built_.end(), has_them);
  if (built == built_.end()) {
    auto index = std::make_shared<const BlendingIndex>(build_blending_index(weights, size));
    built = built_.insert(built_.end(), {weights, std::move(index)});
  }
  const BlendingIndexView view = built->index->view().first(size);
  return {.index = {.view = view, .memory = built->index}, .counts = view.counts(weights.size())};
}

}  // namespace weft
