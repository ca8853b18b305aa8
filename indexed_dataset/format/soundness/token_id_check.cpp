#include "indexed_dataset/format/soundness/token_id_check.h"

#include <algorithm>
#include <limits>
#include <string>

#include "indexed_dataset/format/pair/index_view.h"

namespace weft {

TokenIdCheck::TokenIdCheck(TokenType type, int64_t vocabulary_size)
    : type_(type),
      limit_(vocabulary_size > 0 ? vocabulary_size
                                 : int64_t{std::numeric_limits<int32_t>::max()} + 1) {}

void TokenIdCheck::see(int64_t offset_bytes, std::span<const std::byte> bytes) {
  with_number_type(type_, [&]<typename T>(T) { see_ids<T>(offset_bytes, bytes); });
}

template <typename T>
void TokenIdCheck::see_ids(int64_t offset_bytes, std::span<const std::byte> bytes) {
  const size_t count = bytes.size() / sizeof(T);
  const std::byte* data = bytes.data();
  // Without a branch in the loop it is done in vectors: nearly all pieces are sound.
  T lowest = 0, highest = 0;
  for (size_t i = 0; i < count; ++i) {
    const T id = load_number<T>(data + i * sizeof(T));
    lowest = std::min(lowest, id);
    highest = std::max(highest, id);
  }
  if (static_cast<int64_t>(lowest) >= 0 && static_cast<int64_t>(highest) < limit_) return;

  const std::lock_guard lock(mutex_);
  int64_t num_bad = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<int64_t>(load_number<T>(data + i * sizeof(T)));
    if (id >= 0 && id < limit_) continue;
    if (++num_bad <= kMaxProblemsOfAKind)
      first_.push_back({offset_bytes + static_cast<int64_t>(i * sizeof(T)), id});
  }
  count_ += num_bad;
  std::sort(first_.begin(), first_.end(),
            [](const BadId& a, const BadId& b) { return a.offset_bytes < b.offset_bytes; });
  if (first_.size() > kMaxProblemsOfAKind) first_.resize(kMaxProblemsOfAKind);
}

void TokenIdCheck::move_to(ProblemList& problems) {
  for (const BadId& bad : first_) {
    problems.add([&] {
      return "token id " + std::to_string(bad.id) + " at byte " + std::to_string(bad.offset_bytes) +
             " is not in [0, " + std::to_string(limit_) + ")";
    });
  }
  problems.add_unnamed(count_ - static_cast<int64_t>(first_.size()));
}

}  // namespace weft
