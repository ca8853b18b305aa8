// Which bytes of a file are still to be fetched, and which of them somebody is fetching. Pure
// bookkeeping: no network, no files, no clock.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace weft {

// The bytes from `begin` up to, not including, `end`.
struct ByteRange {
  int64_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

// Not thread-safe.
class FetchPlan {
 public:
  // The end of a file whose size is not known yet.
  static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

  // Everything from `begin` on is missing.
  explicit FetchPlan(int64_t begin = 0) : FetchPlan(std::vector<ByteRange>{{begin, kEndless}}) {}
  // Exactly `missing` (ascending, disjoint, not empty ranges) is missing.
  explicit FetchPlan(const std::vector<ByteRange>& missing);

  // The file ends at `size_bytes`: what was thought to be missing behind it is not.
  void set_size(int64_t size_bytes);

  // Hands out the first missing bytes that nobody has taken: at most `max_bytes`, and none if they
  // reach beyond `window_end`. The number stands for them in the calls below.
  std::optional<int> take(int64_t max_bytes, int64_t window_end = kEndless);
  // What is still missing of them; begin == end when they are complete.
  ByteRange missing_of(int id) const { return taken_.at(id); }
  // Their first `num_bytes` have come. Not more than missing_of() says.
  void advance(int id, int64_t num_bytes) { taken_.at(id).begin += num_bytes; }
  // Whoever has taken them gives up; what is missing of them can be taken again.
  void give_back(int id);

  // Takes everything from the first missing byte to the end in one piece, also what others have
  // taken (their numbers become invalid) and what has come behind it: for a server that only sends
  // whole files.
  int take_rest_as_one(int64_t size_bytes = kEndless);

  bool is_complete() const;
  // kEndless if nothing is missing.
  int64_t first_missing() const;
  // All that is missing, ascending and joined where it touches.
  std::vector<ByteRange> missing() const;
  // Of a file of this size, how much is there.
  int64_t num_bytes_held(int64_t size_bytes) const;

 private:
  std::map<int64_t, int64_t> free_;  // begin -> end, taken by nobody
  std::map<int, ByteRange> taken_;
  int next_id_ = 0;
};

}  // namespace weft
