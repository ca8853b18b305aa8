// Reduces a list of merges to those that can ever be applied. Lists made from rank files name all
// pairs that join to an entry: Llama-3's has 280,147 merges for 127,744 entries.
//
// Merging the bytes of an entry alone ends with one last merge, or not with the entry at all. In
// any text the merges inside of a token come in the order in which they come in its bytes alone,
// because nothing has crossed its borders; so each entry is made by that last merge or never.
#pragma once

#include <optional>
#include <vector>

#include "tokenizer/merge/merge_rules.h"

namespace weft {

// Returns one merge for each entry that merging can make, in order of rank, each of tokens made
// before it: they give the ids that all merges give. Returns nothing if some merge of a token that
// a later merge makes is applied, for which no vocabulary is known. `rules.table` must have the
// bytes; its merges are not used.
std::optional<std::vector<MergeRules::Merge>> effective_merges(const MergeRules& rules);

}  // namespace weft
