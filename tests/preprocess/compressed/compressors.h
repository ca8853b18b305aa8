// Compressed bytes of every kind that decoding has to cope with, made by the formats' own
// libraries.
#pragma once

#include <lzma.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// One member, stream or frame, with the format's checksum.
std::string gzip(const std::string& text);
std::string xz(const std::string& text);
std::string zstd(const std::string& text);
std::string bzip2(const std::string& text);

// As `zstd` does it in a pipe: the header does not say how long the text is.
std::string zstd_of_unknown_size(const std::string& text, bool checksum = true, int window_log = 0);
std::string zstd_skippable(const std::string& content, int kind = 0);
// Frames with the seek table of the seekable format; the sizes may be made to lie.
std::string zstd_seek_table(const std::vector<uint32_t>& frame_bytes, bool checksums = false);
std::string zstd_seekable(const std::vector<std::string>& texts);
// As pzstd does it.
std::string pzstd(const std::vector<std::string>& texts);

uint32_t crc32_of(const std::string& bytes);

// One stream, a block for each text; `sizes` of another stream make its index lie.
struct XzOptions {
  lzma_check check = LZMA_CHECK_CRC64;
  bool delta = false, x86 = false;
  bool block_sizes_in_headers = true;
  uint32_t claimed_dictionary_bytes = 1 << 16;  // in block headers, whatever was used
};
struct XzBlockSize {
  lzma_vli unpadded, uncompressed;
};
std::string xz_blocks(const std::vector<std::string>& texts, const XzOptions& options = {},
                      const std::vector<XzBlockSize>* lying_sizes = nullptr,
                      std::vector<XzBlockSize>* sizes = nullptr);

// One member, stream or frame of that many zero bytes, made by the format's streaming compressor at
// a fast level.
std::string compressed_zeros(const std::string& format, int64_t num_bytes);

// Compressible, and different for every seed.
std::string some_text(uint32_t seed, size_t size_bytes);

}  // namespace weft
