#include "indexed_dataset/format/sidecars/shard.h"

#include <charconv>
#include <system_error>

namespace weft {
namespace {

// More parts than this are a typing error: none would get work.
constexpr int64_t kMaxShards = 1'000'000;

}  // namespace

bool parse_shard(const std::string& text, int64_t& index, int64_t& count) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, index);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '/') return false;
  const auto second = std::from_chars(first.ptr + 1, end, count);
  return second.ec == std::errc() && second.ptr == end && index >= 0 && index < count &&
         count <= kMaxShards;
}

}  // namespace weft
