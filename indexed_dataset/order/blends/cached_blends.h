// Blending indexes of one run: mapped from files, built into files, or built in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "indexed_dataset/order/blends/index_report.h"
#include "indexed_dataset/order/blends/sample_order.h"
#include "indexed_dataset/order/index_caches/blend_cache.h"

namespace weft {

class CachedBlends {
 public:
  // `order` must outlive it.
  explicit CachedBlends(const SampleOrder& order) : order_(order) {}

  // Returns the index of these weights. `description` names its files; null: it is kept in none.
  // Fills in what `report` says of the index.
  CachedBlend find_or_build(const nlohmann::ordered_json* description,
                            const std::vector<double>& weights, int64_t size, IndexReport& report);

 private:
  CachedBlend find_or_build_in_memory(const std::vector<double>& weights, int64_t size);

  // A blending index follows from its weights, and a smaller one is the beginning of a larger one.
  // Train has the most samples as a rule and comes first, so the other splits of the same blend
  // need no work.
  struct Built {
    std::vector<double> weights;
    std::shared_ptr<const BlendingIndex> index;
  };
  const SampleOrder& order_;
  std::vector<Built> built_;
};

}  // namespace weft
