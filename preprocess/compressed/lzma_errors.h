// liblzma's results as exceptions.
#pragma once

#include <lzma.h>

#include <new>
#include <string>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/compressed/stream_decoder.h"

namespace weft {

// Returns for LZMA_OK and LZMA_STREAM_END; throws what stands for any other result.
inline void check_lzma(lzma_ret result) {
  switch (result) {
    case LZMA_OK:
    case LZMA_STREAM_END:
      return;
    case LZMA_MEM_ERROR:
      throw std::bad_alloc();
    case LZMA_MEMLIMIT_ERROR:
      throw LimitExceeded("has an index of more than a million blocks");
    case LZMA_UNSUPPORTED_CHECK:
      throw CorruptStream("its checksum is of a kind that liblzma does not know", "recompress it");
    case LZMA_OPTIONS_ERROR:
      throw CorruptStream("its filters or options are of a kind that liblzma does not know",
                          "recompress it");
    case LZMA_FORMAT_ERROR:
      throw CorruptStream("no xz stream starts here");
    case LZMA_DATA_ERROR:
      throw CorruptStream("checksum or structure is wrong");
    default:
      throw CorruptStream("corrupt stream (liblzma code " + std::to_string(result) + ")");
  }
}

}  // namespace weft
