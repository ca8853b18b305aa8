// liblzma's results as exceptions, and the memory it may use.
#pragma once

#include <lzma.h>

#include <new>
#include <string>

#include "indexed_dataset/exit_code.h"
#include "preprocess/decompress.h"

namespace weft {

// xz -9 needs 65 MiB, the largest dictionary of the format 4 GiB.
constexpr uint64_t kXzMemoryLimitBytes = uint64_t{512} << 20;

// Nothing for LZMA_OK and LZMA_STREAM_END; else throws what stands for `result`.
inline void check_lzma(lzma_ret result) {
  switch (result) {
    case LZMA_OK:
    case LZMA_STREAM_END:
      return;
    case LZMA_MEM_ERROR:
      throw std::bad_alloc();
    case LZMA_MEMLIMIT_ERROR:
      throw LimitExceeded("needs more than 512 MiB to decompress; recompress it with xz -9");
    case LZMA_UNSUPPORTED_CHECK:
      throw CorruptStream("its checksum is of a kind that liblzma does not know");
    case LZMA_OPTIONS_ERROR:
      throw CorruptStream("its filters or options are of a kind that liblzma does not know");
    case LZMA_FORMAT_ERROR:
      throw CorruptStream("no xz stream starts here");
    case LZMA_DATA_ERROR:
      throw CorruptStream("checksum or structure is wrong");
    default:
      throw CorruptStream("corrupt stream (liblzma code " + std::to_string(result) + ")");
  }
}

}  // namespace weft
