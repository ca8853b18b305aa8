#include "indexed_dataset/order/index_caches/blend_cache.h"

#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "indexed_dataset/base/storage/npy_file.h"
#include "indexed_dataset/order/index_caches/cache_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json hash_arrays(const BlendingIndexView& index) {
  const auto hash = [](auto values) { return xxh3_text(std::as_bytes(values)); };
  return {std::visit(hash, index.dataset_index), hash(index.sample_index)};
}

struct MappedBlend {
  NpyArray dataset_index, sample_index;
};

// Maps the arrays of a blending index of this size; nothing is counted. Throws std::runtime_error
// where they have other shapes or types.
CachedBlend map_blend(const fs::path& folder, const BlendCacheNames& names, int64_t size) {
  const auto mapped = std::make_shared<const MappedBlend>(MappedBlend{
      NpyArray(folder / names.dataset_index), NpyArray(folder / names.dataset_sample_index)});
  const std::vector<int64_t> shape{size};
  if (mapped->dataset_index.shape() != shape || mapped->sample_index.shape() != shape)
    throw std::runtime_error("its arrays do not have " + std::to_string(size) + " samples");
  return {.index = {.view = {.dataset_index = mapped->dataset_index.values<int16_t>(),
                             .sample_index = mapped->sample_index.values<int64_t>()},
                    .memory = mapped},
          .counts = {},
          .was_there = true};
}

std::optional<CachedBlend> find_blend(const fs::path& folder, const BlendCacheNames& names,
                                      int64_t size) {
  return open_or_nothing([&]() -> std::optional<CachedBlend> {
    const std::string text = find_stamp(folder / names.stamp);
    if (text.empty()) return std::nullopt;
    CachedBlend blend = map_blend(folder, names, size);
    const Json stamp = parse_json<Json>(text);
    blend.counts = json_integers_at(stamp, "counts");
    if (stamp.at("version") != 1 || stamp.at("arrays_xxh3") != hash_arrays(blend.index.view))
      return std::nullopt;
    return blend;
  });
}

}  // namespace

std::optional<CachedBlend> find_cached_blend(const fs::path& folder, const Json& description,
                                             Split split, int64_t size) {
  return find_blend(folder, blend_cache_names(description, split), size);
}

std::optional<CachedBlend> find_megatron_blend(const fs::path& folder, const Json& description,
                                               Split split, int64_t size, size_t num_datasets) {
  const BlendCacheNames names = blend_cache_names(description, split);
  return find_of_megatron(folder / names.dataset_index, folder / names.stamp, "the blend", [&] {
    CachedBlend blend = map_blend(folder, names, size);
    blend.counts = blend.index.view.counts(num_datasets);
    blend.is_from_megatron = true;
    return blend;
  });
}

CachedBlend open_cached_blend(const fs::path& folder, const Json& description, Split split,
                              const std::vector<double>& weights, int64_t size) {
  const BlendCacheNames names = blend_cache_names(description, split);
  if (auto found = find_blend(folder, names, size)) return std::move(*found);
  create_cache_folder(folder);
  const LockFile lock(folder / (names.stamp + ".lock"), kCacheLockPatience);
  if (auto found = find_blend(folder, names, size)) return std::move(*found);
  Json stamp;
  {
    const BlendingIndex index = build_blending_index(weights, size);
    // It goes first and comes last, so that what a killed writer leaves is incomplete.
    remove_file(folder / names.dataset_index);
    write_file_atomically(folder / names.description, names.text);
    write_npy(folder / names.dataset_sample_index, index.view().sample_index);
    std::visit([&](auto of) { write_npy(folder / names.dataset_index, of); },
               index.view().dataset_index);
    stamp = {{"version", 1}, {"counts", index.counts}, {"arrays_xxh3", hash_arrays(index.view())}};
  }
  write_file_atomically(folder / names.stamp, stamp.dump() + "\n");
  auto written = find_blend(folder, names, size);
  if (!written)
    throw std::runtime_error(folder.string() + ": the blend that was just written is not there");
  written->was_there = false;
  return std::move(*written);
}

}  // namespace weft
