#include "preprocess/compressed/input_layout.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/compressed/decompress.h"
#include "preprocess/compressed/zstd_frames.h"

namespace weft {
namespace {

std::unique_ptr<StreamDecoder> decoder_at_start(const InputFile& file) {
  std::array<char, kNumMagicBytes> magic{};
  const auto num_magic = static_cast<size_t>(std::min<int64_t>(file.size_bytes(), kNumMagicBytes));
  file.read_at(magic.data(), num_magic, 0);
  return decoder_for(std::string_view(magic.data(), num_magic));
}

void check_is_part_begin(const InputLayout& layout, int64_t offset) {
  const auto& begins = layout.part_begins;
  if (offset != layout.file_bytes && !std::binary_search(begins.begin(), begins.end(), offset))
    throw std::logic_error("open_input_range: byte " + std::to_string(offset) + " begins no part");
}

}  // namespace

InputLayout input_layout(const std::string& path, const LayoutLimits& limits) {
  InputLayout layout;
  const InputFile file(path);
  layout.file_bytes = file.size_bytes();
  const auto decoder = decoder_at_start(file);
  layout.format = decoder ? decoder->format() : "plain";
  layout.cut_anywhere = !decoder;
  if (layout.format == "zstd") find_zstd_parts(file, limits, layout);
  return layout;
}

std::unique_ptr<ByteSource> open_input_range(const std::string& path, const InputLayout& layout,
                                             int64_t begin, int64_t end,
                                             const std::atomic<bool>& cancelled,
                                             DecodeOptions options) {
  auto raw = open_file_range(path, layout.file_bytes, begin, end, cancelled);
  // decode(): a name like x.gz refuses an empty file, wherever it is cut.
  const bool whole = begin == 0 && end == layout.file_bytes;
  options.read_ahead = options.read_ahead && layout.part_begins.size() == 1;
  if (whole) return decode(std::move(raw), path, options);
  if (layout.cut_anywhere) return raw;

  check_is_part_begin(layout, begin);
  check_is_part_begin(layout, end);
  return decode_with(make_decoder(layout.format, options.decoder), std::move(raw), path, begin,
                     options);
}

}  // namespace weft
