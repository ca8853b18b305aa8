#include "tests/preprocess/compressed/compressors.h"

#include <bzlib.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <random>

namespace weft {
namespace {

const uint8_t* bytes_of(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}
uint8_t* bytes_of(std::string& text) { return reinterpret_cast<uint8_t*>(text.data()); }

void append_little_endian(std::string& out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}

}  // namespace

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr, bytes_of(text), text.size(),
                                    bytes_of(out), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

std::string bzip2(const std::string& text) {
  std::string out(text.size() + text.size() / 50 + 700, '\0');
  auto size = static_cast<unsigned>(out.size());
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(text.data()),
                                     static_cast<unsigned>(text.size()), 1, 0, 0),
            BZ_OK);
  out.resize(size);
  return out;
}

std::string zstd_of_unknown_size(const std::string& text, bool checksum, int window_log) {
  std::string out(ZSTD_compressBound(text.size()) + 100, '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  if (window_log > 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  EXPECT_FALSE(ZSTD_isError(ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue)));
  EXPECT_EQ(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end), 0u);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

uint32_t crc32_of(const std::string& bytes) {
  return static_cast<uint32_t>(crc32_z(0, bytes_of(bytes), bytes.size()));
}

std::string zstd_skippable(const std::string& content, int kind) {
  std::string out;
  append_little_endian(out, 0x184D2A50U + static_cast<uint32_t>(kind));
  append_little_endian(out, static_cast<uint32_t>(content.size()));
  return out + content;
}

std::string zstd_seek_table(const std::vector<uint32_t>& frame_bytes, bool checksums) {
  std::string table;
  for (const uint32_t size : frame_bytes) {
    append_little_endian(table, size);
    append_little_endian(table, 1);  // decompressed size: not used
    if (checksums) append_little_endian(table, 0);
  }
  append_little_endian(table, static_cast<uint32_t>(frame_bytes.size()));
  table += checksums ? '\x80' : '\0';
  append_little_endian(table, 0x8F92EAB1U);
  return zstd_skippable(table, 0xE);
}

std::string zstd_seekable(const std::vector<std::string>& texts) {
  std::string out;
  std::vector<uint32_t> sizes;
  for (const std::string& text : texts) {
    const std::string frame = zstd(text);
    sizes.push_back(static_cast<uint32_t>(frame.size()));
    out += frame;
  }
  return out + zstd_seek_table(sizes);
}

std::string pzstd(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    const std::string frame = zstd(text);
    std::string size;
    append_little_endian(size, static_cast<uint32_t>(frame.size()));
    out += zstd_skippable(size) + frame;
  }
  return out;
}

std::string xz_blocks(const std::vector<std::string>& texts, const XzOptions& options,
                      const std::vector<XzBlockSize>* lying_sizes,
                      std::vector<XzBlockSize>* sizes) {
  lzma_options_lzma lzma{};
  EXPECT_FALSE(lzma_lzma_preset(&lzma, 0));
  lzma.dict_size = 1 << 16;
  lzma_options_delta delta{};
  delta.type = LZMA_DELTA_TYPE_BYTE;
  delta.dist = 4;
  std::vector<lzma_filter> filters;
  if (options.delta) filters.push_back({LZMA_FILTER_DELTA, &delta});
  if (options.x86) filters.push_back({LZMA_FILTER_X86, nullptr});
  filters.push_back({LZMA_FILTER_LZMA2, &lzma});
  filters.push_back({LZMA_VLI_UNKNOWN, nullptr});

  lzma_stream_flags flags{};
  flags.check = options.check;
  std::string out(LZMA_STREAM_HEADER_SIZE, '\0');
  EXPECT_EQ(lzma_stream_header_encode(&flags, bytes_of(out)), LZMA_OK);
  std::vector<XzBlockSize> true_sizes;
  for (const std::string& text : texts) {
    lzma_block block{};
    block.version = 1;
    block.check = options.check;
    block.filters = filters.data();
    std::string bytes(lzma_block_buffer_bound(text.size()) + 4096, '\0');
    size_t size = 0;
    if (options.block_sizes_in_headers) {
      EXPECT_EQ(lzma_block_buffer_encode(&block, nullptr, bytes_of(text), text.size(),
                                         bytes_of(bytes), &size, bytes.size()),
                LZMA_OK);
    } else {
      block.compressed_size = block.uncompressed_size = LZMA_VLI_UNKNOWN;
      EXPECT_EQ(lzma_block_header_size(&block), LZMA_OK);
      EXPECT_EQ(lzma_block_header_encode(&block, bytes_of(bytes)), LZMA_OK);
      lzma_stream stream = LZMA_STREAM_INIT;
      EXPECT_EQ(lzma_block_encoder(&stream, &block), LZMA_OK);
      stream.next_in = bytes_of(text);
      stream.avail_in = text.size();
      stream.next_out = bytes_of(bytes) + block.header_size;
      stream.avail_out = bytes.size() - block.header_size;
      EXPECT_EQ(lzma_code(&stream, LZMA_FINISH), LZMA_STREAM_END);
      size = block.header_size + static_cast<size_t>(stream.total_out);
      lzma_end(&stream);
    }
    if (options.claimed_dictionary_bytes != lzma.dict_size) {
      // The dictionary's size is one byte of the header: the block's size stays.
      const uint32_t true_bytes = lzma.dict_size;
      lzma.dict_size = options.claimed_dictionary_bytes;
      lzma_block header = block;
      if (!options.block_sizes_in_headers)
        header.compressed_size = header.uncompressed_size = LZMA_VLI_UNKNOWN;
      EXPECT_EQ(lzma_block_header_encode(&header, bytes_of(bytes)), LZMA_OK);
      lzma.dict_size = true_bytes;
    }
    out += bytes.substr(0, size);
    true_sizes.push_back({lzma_block_unpadded_size(&block), text.size()});
  }
  lzma_index* index = lzma_index_init(nullptr);
  for (const XzBlockSize& size : lying_sizes != nullptr ? *lying_sizes : true_sizes)
    EXPECT_EQ(lzma_index_append(index, nullptr, size.unpadded, size.uncompressed), LZMA_OK);
  std::string index_bytes(lzma_index_size(index), '\0');
  size_t index_size = 0;
  EXPECT_EQ(lzma_index_buffer_encode(index, bytes_of(index_bytes), &index_size, index_bytes.size()),
            LZMA_OK);
  lzma_index_end(index, nullptr);
  flags.backward_size = index_size;
  std::string footer(LZMA_STREAM_HEADER_SIZE, '\0');
  EXPECT_EQ(lzma_stream_footer_encode(&flags, bytes_of(footer)), LZMA_OK);
  if (sizes != nullptr) *sizes = true_sizes;
  return out + index_bytes + footer;
}

std::string compressed_zeros(const std::string& format, int64_t num_bytes) {
  const std::string zeros(1 << 20, '\0');
  std::string out, piece(1 << 16, '\0');
  z_stream deflating{};
  bz_stream bzipping{};
  lzma_stream xzing = LZMA_STREAM_INIT;
  ZSTD_CCtx* zstding = ZSTD_createCCtx();
  EXPECT_EQ(deflateInit2(&deflating, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  EXPECT_EQ(BZ2_bzCompressInit(&bzipping, 9, 0, 0), BZ_OK);
  EXPECT_EQ(lzma_easy_encoder(&xzing, 0, LZMA_CHECK_CRC64), LZMA_OK);
  ZSTD_CCtx_setParameter(zstding, ZSTD_c_checksumFlag, 1);
  for (int64_t left = num_bytes; left > 0 || num_bytes == 0;) {
    const auto size = static_cast<size_t>(std::min<int64_t>(left, 1 << 20));
    left -= static_cast<int64_t>(size);
    const bool last = left == 0;
    ZSTD_inBuffer in{zeros.data(), size, 0};
    deflating.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
    bzipping.next_in = const_cast<char*>(zeros.data());
    xzing.next_in = bytes_of(zeros);
    deflating.avail_in = bzipping.avail_in = static_cast<unsigned>(size);
    xzing.avail_in = size;
    for (bool done = false; !done;) {
      size_t got = 0;
      if (format == "gzip") {
        deflating.next_out = reinterpret_cast<Bytef*>(piece.data());
        deflating.avail_out = static_cast<uInt>(piece.size());
        const int result = deflate(&deflating, last ? Z_FINISH : Z_NO_FLUSH);
        got = piece.size() - deflating.avail_out;
        done = last ? result == Z_STREAM_END : deflating.avail_in == 0;
      } else if (format == "bzip2") {
        bzipping.next_out = piece.data();
        bzipping.avail_out = static_cast<unsigned>(piece.size());
        const int result = BZ2_bzCompress(&bzipping, last ? BZ_FINISH : BZ_RUN);
        got = piece.size() - bzipping.avail_out;
        done = last ? result == BZ_STREAM_END : bzipping.avail_in == 0;
      } else if (format == "xz") {
        xzing.next_out = bytes_of(piece);
        xzing.avail_out = piece.size();
        const lzma_ret result = lzma_code(&xzing, last ? LZMA_FINISH : LZMA_RUN);
        got = piece.size() - xzing.avail_out;
        done = last ? result == LZMA_STREAM_END : xzing.avail_in == 0;
      } else {
        ZSTD_outBuffer to{piece.data(), piece.size(), 0};
        const size_t result =
            ZSTD_compressStream2(zstding, &to, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        got = to.pos;
        done = last ? result == 0 : in.pos == in.size;
      }
      out.append(piece, 0, got);
    }
    if (last) break;
  }
  deflateEnd(&deflating);
  BZ2_bzCompressEnd(&bzipping);
  lzma_end(&xzing);
  ZSTD_freeCCtx(zstding);
  return out;
}

std::string some_text(uint32_t seed, size_t size_bytes) {
  std::mt19937 random(seed);
  std::array<std::string, 64> words;
  for (std::string& word : words) {
    word.resize(1 + random() % 9);
    for (char& letter : word) letter = static_cast<char>('a' + random() % 26);
  }
  std::string text;
  while (text.size() < size_bytes)
    text += words[random() % words.size()] + (random() % 12 == 0 ? "\n" : " ");
  text.resize(size_bytes);
  return text;
}

}  // namespace weft
