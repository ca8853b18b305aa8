#include "indexed_dataset/soundness/piece_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace weft {
namespace {

std::vector<PieceHash::Add> all_for_this_processor() {
  std::vector<PieceHash::Add> all{hash_piece_plain};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) all.push_back(hash_piece_avx2);
  if (__builtin_cpu_supports("avx512f")) all.push_back(hash_piece_avx512);
#endif
  return all;
}

// As XXH3_64bits() of xxHash 0.8.1.
TEST(PieceHash, IsXxh3) {
  for (const PieceHash::Add add : all_for_this_processor()) {
    PieceHash hash(add);
    EXPECT_EQ(hash.value(), 0x2d06800538d394c2U);  // of nothing
    const std::string text(1000, 'a');
    hash.add(text.data(), text.size());
    EXPECT_EQ(hash.value(), 0xb3e7af627147db7cU);
  }
}

TEST(PieceHash, DoesNotDependOnInstructionsOrPieces) {
  std::mt19937 random(20261122);
  std::string bytes(200'000, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (int round = 0; round < 50; ++round) {
    const size_t size = random() % (round % 2 == 0 ? 2'000 : bytes.size());
    PieceHash whole(hash_piece_plain);
    whole.add(bytes.data(), size);
    for (const PieceHash::Add add : all_for_this_processor()) {
      PieceHash hash(add);
      for (size_t at = 0; at < size;) {
        const size_t piece = std::min<size_t>(size - at, random() % 3'000);
        hash.add(bytes.data() + at, piece);
        at += piece;
      }
      ASSERT_EQ(hash.value(), whole.value()) << size << " bytes";
    }
  }
}

}  // namespace
}  // namespace weft
