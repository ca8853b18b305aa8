#include "tokenizer/merge/effective_merges.h"

#include <cstdint>

#include "tokenizer/merge/merge_table.h"
#include "tokenizer/merge/stable_pair.h"

namespace weft {
namespace {

constexpr uint32_t kNotMade = UINT32_MAX;

// The tokens made so far: 0 to 255 are the bytes, 256 + k is the product of the k-th merge kept.
class MadeTokens {
 public:
  explicit MadeTokens(const MergeRules& rules)
      : token_of_id_(rules.entries.size(), kNotMade), pairs_(rules.merges.size()) {
    halves_.reserve(kNumByteTokens + rules.merges.size());
    for (uint32_t byte = 0; byte < kNumByteTokens; ++byte) {
      const int32_t id = rules.table.byte_id(static_cast<uint8_t>(byte));
      if (id != MergeTable::kNoByte) token_of_id_[static_cast<size_t>(id)] = byte;
      halves_.push_back({byte, byte});
    }
  }

  // The one of the two that is made later.
  int32_t later_half(const MergeRules::Merge& merge) const {
    return token_of(merge.left) > token_of(merge.right) ? merge.left : merge.right;
  }
  bool is_made(int32_t id) const { return token_of_id_[static_cast<size_t>(id)] != kNotMade; }
  bool has_both_halves(const MergeRules::Merge& merge) const {
    return is_made(merge.left) && is_made(merge.right);
  }
  // True if the merges kept so far leave the two halves as they are.
  bool leaves_halves(const MergeRules::Merge& merge) const {
    const auto find_product = [this](uint32_t left, uint32_t right) {
      return pairs_.find(static_cast<int32_t>(left), static_cast<int32_t>(right)).rank;
    };
    return is_stable_pair(token_of(merge.left), token_of(merge.right), find_product, halves_);
  }
  void make(const MergeRules::Merge& merge) {
    const uint32_t left = token_of(merge.left), right = token_of(merge.right);
    const auto token = static_cast<uint32_t>(halves_.size());
    pairs_.add(static_cast<int32_t>(left), static_cast<int32_t>(right), {token, 0});
    token_of_id_[static_cast<size_t>(merge.result)] = token;
    halves_.push_back({left, right});
  }

 private:
  struct Halves {
    uint32_t left, right;
  };
  uint32_t token_of(int32_t id) const { return token_of_id_[static_cast<size_t>(id)]; }

  std::vector<uint32_t> token_of_id_;
  std::vector<Halves> halves_;
  MergeTable pairs_;  // of tokens; the rank is the product
};

}  // namespace

EffectiveMerges effective_merges(const MergeRules& rules) {
  MadeTokens made(rules);
  EffectiveMerges result = {{}, std::vector<bool>(rules.entries.size())};
  std::vector<MergeRules::Merge> of_later_halves;
  for (const MergeRules::Merge& merge : rules.merges) {
    if (made.is_made(merge.result)) continue;
    if (!made.has_both_halves(merge)) {
      of_later_halves.push_back(merge);
    } else if (made.leaves_halves(merge)) {
      made.make(merge);
      result.merges.push_back(merge);
    }
  }
  std::vector<bool>& needs_all = result.needs_all_merges;
  for (const MergeRules::Merge& merge : of_later_halves) {
    if (made.has_both_halves(merge) && made.leaves_halves(merge))
      needs_all[static_cast<size_t>(made.later_half(merge))] = true;
  }
  for (const MergeRules::Merge& merge : result.merges) {
    if (needs_all[static_cast<size_t>(merge.left)] || needs_all[static_cast<size_t>(merge.right)])
      needs_all[static_cast<size_t>(merge.result)] = true;
  }
  return result;
}

}  // namespace weft
