#include "preprocess/inspect/anomaly/text_anomaly.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "preprocess/inspect/text/dataset_text.h"

namespace weft {

void TokenCounts::add(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id < 0) continue;
    if (static_cast<size_t>(id) >= counts_.size())
      counts_.resize(std::max(static_cast<size_t>(id) + 1, 2 * counts_.size()));
    ++counts_[static_cast<size_t>(id)];
  }
  total_ += std::ssize(ids);
}

void TokenCounts::merge(const TokenCounts& other) {
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (size_t id = 0; id < other.counts_.size(); ++id) counts_[id] += other.counts_[id];
  total_ += other.total_;
}

std::vector<float> TokenCounts::bits() const {
  std::vector<float> bits;
  bits.reserve(counts_.size());
  for (const int64_t count : counts_) {
    const auto times = static_cast<double>(std::max<int64_t>(count, 1));
    bits.push_back(
        static_cast<float>(std::log2(static_cast<double>(std::max<int64_t>(total_, 1)) / times)));
  }
  return bits;
}

// zlib's state is kept: making it anew takes longer than compressing a few kilobytes.
struct TextMeter::Compressor {
  Compressor() {
    if (deflateInit(&stream, Z_BEST_SPEED) != Z_OK) throw std::bad_alloc();
  }
  ~Compressor() { deflateEnd(&stream); }

  size_t compressed_bytes(std::string_view text) {
    deflateReset(&stream);
    buffer.resize(deflateBound(&stream, text.size()));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = buffer.data();
    stream.avail_out = static_cast<uInt>(buffer.size());
    deflate(&stream, Z_FINISH);
    return buffer.size() - stream.avail_out;
  }

  z_stream stream{};
  std::vector<Bytef> buffer;
};

TextMeter::TextMeter(const Vocabulary& vocabulary, const TokenTexts& texts,
                     const std::vector<float>& token_bits)
    : vocabulary_(vocabulary),
      token_bits_(token_bits),
      compressor_(std::make_unique<Compressor>()),
      repetition_(&texts) {}
TextMeter::~TextMeter() = default;

Measures TextMeter::measure(std::span<const int32_t> ids) {
  text_.clear();
  append_decoded(text_, ids, vocabulary_);
  repetition_.begin();
  repetition_.add(ids);
  repetition_.end();
  double bits = 0;
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < token_bits_.size())
      bits += token_bits_[static_cast<size_t>(id)];
  }
  // A longer text than that is no piece of a sample; its beginning says enough.
  constexpr size_t kMaxCompressedBytes = 1 << 30;
  const std::string_view beginning = std::string_view(text_).substr(0, kMaxCompressedBytes);
  const RepetitionMeter::Share compressed{
      static_cast<int64_t>(compressor_->compressed_bytes(beginning)), std::ssize(beginning)};
  return {static_cast<float>(repetition_.characters().value()),
          static_cast<float>(repetition_.tokens().value()), static_cast<float>(compressed.value()),
          ids.empty() ? 0 : static_cast<float>(bits / static_cast<double>(ids.size()))};
}

}  // namespace weft
