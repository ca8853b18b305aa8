// Families whose tokenizer is a rank file: what the file does not say is written here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/split/split_patterns.h"
#include "tokenizer/vocabulary.h"

namespace weft {

struct SpecialOfFamily {
  int32_t id;
  std::string text;
};

struct RankFamily {
  std::string_view name;    // for --tiktoken-pattern
  std::string_view sha256;  // of the published file
  size_t num_entries;       // of that file
  SplitKind pattern;
  Normalizer normalizer;
  std::vector<SpecialOfFamily> (*specials)();
  std::vector<int32_t> prefix_ids;
};

// By name if one is given, else by the file; null if there is none.
const RankFamily* find_rank_family(std::string_view name, std::string_view sha256);

// "r50k, p50k, ...", for messages.
std::string names_of_rank_families();

}  // namespace weft
