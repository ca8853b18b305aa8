// These options say how a rank works. Only the rules among them change what is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "preprocess/compressed/decoded_source.h"
#include "preprocess/compressed/window_budget.h"
#include "preprocess/documents/tokenize_chunk.h"

namespace weft {

struct RankOptions {
  TokenizeRules rules;
  int num_workers = 1;
  int64_t max_output_bytes = kDefaultMaxOutputBytes;  // of one compressed input
  // That compressed inputs may take; nothing: window_sizes_for(num_workers).
  std::optional<WindowSizes> windows;
  bool allow_http = false;  // inputs may be URLs without encryption

  // 1 MiB: a worker needs ~5 ms for it, far more than a queue costs.
  size_t chunk_bytes = size_t{1} << 20;
  // A line whose chunk must be larger, and larger than two chunks, waits until no other such line is
  // in work.
  size_t long_line_bytes = size_t{16} << 20;
  // Memory for batches whose place is not known yet; beyond it they are spilled. Windows over
  // WindowLimits::kDefaultMaxBytes take from it.
  int64_t max_held_bytes_per_worker = int64_t{24} << 20;
  // The journal is written half as often: three of these are the work that a crash may cost.
  std::chrono::milliseconds sync_interval{1000};
};

}  // namespace weft
