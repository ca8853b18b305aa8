// The combinations of sample order, blend, sampler, batch sizes and lengths, and those that
// weft-train refuses.
#pragma once

#include "indexed_dataset/order/samples/order_kind.h"

namespace weft {

enum class Data { kOne, kBlend, kUnweighted, kScheduledBySamples, kScheduledByTokens };
enum class Sampler { kSingle, kCyclic, kByDifficulty };
enum class Sizes { kConstant, kRampUp, kSteps };
enum class Lengths { kWhole, kTruncate, kReshape };

struct Combination {
  OrderKind order;
  Data data;
  Sampler sampler;
  Sizes sizes;
  Lengths lengths;

  bool is_scheduled() const {
    return data == Data::kScheduledBySamples || data == Data::kScheduledByTokens;
  }
};

// All combinations that are refused are those of these pairs of options, with a message that has
// these words for each pair.
struct Refusal {
  const char* words;
  bool (*applies)(const Combination&);
};
inline constexpr Refusal kRefusedOptions[] = {
    {"--step-batch-size-schedule counts tokens of whole sequences",
     [](const Combination& c) { return c.sizes == Sizes::kSteps && c.lengths != Lengths::kWhole; }},
    {"--dataloader-type cyclic draws whole samples",
     [](const Combination& c) {
       return c.sampler == Sampler::kCyclic && c.lengths == Lengths::kReshape;
     }},
    {"--curriculum-metrics draws whole samples",
     [](const Combination& c) {
       return c.sampler == Sampler::kByDifficulty && c.lengths == Lengths::kReshape;
     }},
    {"--dataloader-type cyclic shuffles all samples of a run",
     [](const Combination& c) { return c.sampler == Sampler::kCyclic && c.is_scheduled(); }},
    {"--curriculum-metrics draws from all samples of a run",
     [](const Combination& c) { return c.sampler == Sampler::kByDifficulty && c.is_scheduled(); }},
    {"a truncating curriculum trains fewer tokens",
     [](const Combination& c) {
       return c.data == Data::kScheduledByTokens && c.lengths == Lengths::kTruncate;
     }},
    {"a reshaping curriculum makes several rows",
     [](const Combination& c) {
       return c.data == Data::kScheduledBySamples && c.lengths == Lengths::kReshape;
     }},
};
// This one is refused where the blend is built, as its size differs between the programs of one
// order.
inline constexpr Refusal kRefusedBlend = {
    "the samples of a blend in an order that depends on its size", [](const Combination& c) {
      const bool is_older = c.order == OrderKind::kLegacy || c.order == OrderKind::kBigscience ||
                            c.order == OrderKind::kNeox;
      return c.sampler == Sampler::kCyclic && c.data != Data::kOne && is_older;
    }};
// There are 6 orders, 5 ways to name data, 3 samplers, 3 kinds of batch sizes and 3 of lengths.
inline constexpr int kNumCombinations = 810, kNumTaken = 336;

}  // namespace weft
