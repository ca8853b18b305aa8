// The programs whose sample orders can be built to the bit. They differ in a few rules only.
#pragma once

#include <utility>

namespace weft {

enum class OrderKind {
  kCore,        // Megatron-Core 0.11 and later
  kCore010,     // Megatron-Core 0.5 to 0.10: blends of other sizes
  kLegacy,      // Megatron-LM up to 23.06, Megatron-DeepSpeed
  kBigscience,  // bigscience's Megatron-DeepSpeed
  kNeox,        // GPT-NeoX
  kSequential,  // no program's: the documents as they lie in the dataset, nothing is shuffled
};

// The words of --sample-order.
inline constexpr std::pair<const char*, OrderKind> kOrderKinds[] = {
    {"core", OrderKind::kCore},     {"core-0.10", OrderKind::kCore010},
    {"legacy", OrderKind::kLegacy}, {"bigscience", OrderKind::kBigscience},
    {"neox", OrderKind::kNeox},     {"sequential", OrderKind::kSequential},
};
constexpr const char* name_of(OrderKind kind) {
  for (const auto& [name, value] : kOrderKinds) {
    if (value == kind) return name;
  }
  return "?";
}

struct OrderRules {
  // Each share of the split is rounded by itself and the error is taken from the bounds, instead of
  // rounding the bounds; weights are divided by a plain sum; index caches have names of their own.
  bool precedes_core = false;
  // The last epoch is shuffled apart if it gives less than this share of its samples; 0: never.
  double separation_threshold = 0.80;
  bool shuffles = true;
  // Rows of the sample index have 64 bits when there are 2^30 of them, wherever they point.
  bool widens_by_count = false;
  // ceil(samples * weight * 1.005) are built of each dataset of a blend: blend_sizes.h.
  bool has_old_blend_sizes = false;
};

constexpr OrderRules rules_of(OrderKind kind) {
  switch (kind) {
    case OrderKind::kCore:
      return {};
    case OrderKind::kCore010:
      return {.has_old_blend_sizes = true};
    case OrderKind::kLegacy:
      return {.precedes_core = true, .has_old_blend_sizes = true};
    case OrderKind::kBigscience:
      return {.precedes_core = true, .separation_threshold = 0.95, .has_old_blend_sizes = true};
    case OrderKind::kNeox:
      return {.precedes_core = true,
              .separation_threshold = 0,
              .widens_by_count = true,
              .has_old_blend_sizes = true};
    case OrderKind::kSequential:
      return {.separation_threshold = 0, .shuffles = false};
  }
  return {};
}

}  // namespace weft
