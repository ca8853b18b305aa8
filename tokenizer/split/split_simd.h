// The vector splitters of patterns; `max_pieces` must be at least 64. They are null for kinds that
// have none yet, which are split one piece at a time.
#pragma once

#include "tokenizer/pieces/split_kind.h"
#include "tokenizer/split/split_tables.h"

namespace weft {

#if defined(__x86_64__)
SplitBatch split_batch_avx2(SplitKind kind);
SplitBatch split_batch_avx512(SplitKind kind);
#elif defined(__aarch64__)
SplitBatch split_batch_neon(SplitKind kind);
#endif

}  // namespace weft
