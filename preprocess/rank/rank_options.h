// These options say how a rank works. Only the rules among them change what is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "preprocess/compressed/decoded_source.h"
#include "preprocess/documents/tokenize_chunk.h"

namespace weft {

struct RankOptions {
  TokenizeRules rules;
  int num_workers = 1;
  int64_t max_output_bytes = kDefaultMaxOutputBytes;  // of one compressed input
  // Of one compressed input: its window, dictionary, or blocks (DecoderLimits).
  int64_t max_decoder_bytes = DecoderLimits::kDefaultMaxBytes;

  // 1 MiB: a worker needs ~5 ms for it, far more than a queue costs.
  size_t chunk_bytes = size_t{1} << 20;
  // Memory for batches whose offset is not known yet; beyond it they are spilled.
  int64_t max_held_bytes_per_worker = int64_t{24} << 20;
  // The journal is written half as often: three of these are the work that a crash may cost.
  std::chrono::milliseconds sync_interval{1000};
};

}  // namespace weft
