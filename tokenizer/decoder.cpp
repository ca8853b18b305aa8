#include "tokenizer/decoder.h"

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

// By way of a buffer in the L1 cache: a std::string cannot grow without being filled first.
std::string Decoder::decode(const int32_t* ids, size_t num_ids) const {
  char buffer[1 << 14];
  char* next = buffer;
  std::string bytes;
  for (size_t i = 0; i < num_ids; ++i) {
    const auto id = static_cast<uint32_t>(ids[i]);
    if (id < entries_.size() && entries_[id].num_bytes > 0) {
      std::memcpy(next, &entries_[id], sizeof(ShortEntry));
      next += entries_[id].num_bytes;
      if (next < buffer + sizeof(buffer) - sizeof(ShortEntry)) continue;
    }
    bytes.append(buffer, next);
    next = buffer;
    if (id >= entries_.size() || entries_[id].num_bytes == 0) bytes += vocabulary_->bytes(ids[i]);
  }
  return bytes.append(buffer, next);
}

}  // namespace weft
