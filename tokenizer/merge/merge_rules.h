// The merges of a vocabulary, as the tables of this folder are made from them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace weft {

class MergeTable;

// The tokens of single bytes are the first of the tables made here.
constexpr uint32_t kNumByteTokens = 256;

// All of it belongs to the vocabulary, which must outlive it.
struct MergeRules {
  struct Merge {
    int32_t left, right, result;  // ids
  };
  std::span<const std::string> entries;  // bytes of each id
  std::span<const Merge> merges;         // in order of rank
  const MergeTable& table;
};

}  // namespace weft
