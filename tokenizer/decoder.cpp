#include "tokenizer/decoder.h"

#include <algorithm>
#include <cstring>

#include "tokenizer/vocabulary.h"

namespace weft {

Decoder::Decoder(const Vocabulary& vocabulary)
    : vocabulary_(&vocabulary), entries_(static_cast<size_t>(vocabulary.size())) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& bytes = vocabulary.bytes(id);
    if (bytes.size() > kMaxShortBytes) continue;
    std::memcpy(entries_[id].bytes, bytes.data(), bytes.size());
    entries_[id].num_bytes = static_cast<uint8_t>(bytes.size());
  }
}

// By way of a buffer in the L1 cache: a std::string cannot grow without being filled first. Each
// round decodes as many ids as fill the buffer at most.
template <typename Id>
void Decoder::decode(const Id* ids, size_t num_ids, std::string& text) const {
  constexpr size_t kRoundIds = 1024;
  char buffer[kRoundIds * sizeof(ShortEntry)];
  // Real text has 4 bytes a token or less; memory that is not written to costs nothing.
  text.reserve(text.size() + 5 * num_ids);
  for (size_t begin = 0; begin < num_ids; begin += kRoundIds) {
    const size_t end = std::min(begin + kRoundIds, num_ids);
    char* next = buffer;
    for (size_t i = begin; i < end; ++i) {
      const auto id = static_cast<uint32_t>(ids[i]);
      if (id < entries_.size() && entries_[id].num_bytes > 0) {
        std::memcpy(next, &entries_[id], sizeof(ShortEntry));
        next += entries_[id].num_bytes;
        continue;
      }
      text.append(buffer, next);
      next = buffer;
      text += vocabulary_->bytes(static_cast<int32_t>(ids[i]));
    }
    text.append(buffer, next);
  }
}

template void Decoder::decode(const int32_t*, size_t, std::string&) const;
template void Decoder::decode(const uint16_t*, size_t, std::string&) const;

}  // namespace weft
