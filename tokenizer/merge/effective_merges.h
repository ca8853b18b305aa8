// Reduces a list of merges to one for each entry that merging can make. Lists made from rank files
// name all pairs that join to an entry: Llama-3's has 280,147 merges for 127,744 entries.
//
// Merging the bytes of an entry alone ends with one last merge, or not with the entry at all. In
// any text the merges inside of a token come in the order in which they come in its bytes alone,
// because nothing has crossed its borders; so each entry is made by that last merge or never.
//
// Few merges, of such lists only, have a lower rank than the one that makes their left or right
// half: they come as soon as that half is there. They are left out here, and the halves that bring
// them are named: a text without such a half is merged by the others alone.
#pragma once

#include <vector>

#include "tokenizer/merge/merge_rules.h"

namespace weft {

struct EffectiveMerges {
  // In order of rank, each of tokens made before it, no two of them with one result.
  std::vector<MergeRules::Merge> merges;
  // For each id: true if the token is made of a half that brings a merge of lower rank. Where such
  // a token comes out, the text must be merged again by all merges.
  std::vector<bool> needs_all_merges;
};

// `rules.table` must have the bytes; its merges are not used.
EffectiveMerges effective_merges(const MergeRules& rules);

}  // namespace weft
