// Turns text without special tokens into ids: pieces, word caches, merging of new words (README of
// this folder).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace weft {

class Vocabulary;

// Holds caches; each thread needs its own.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids of `text`, in which `<|endoftext|>` is text as any other. 16-bit ids must be
  // enough for the vocabulary.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) = 0;
  virtual void encode(std::string_view text, std::vector<uint16_t>& ids) = 0;

  // Number of bytes of all texts so far that have no entry (Vocabulary::missing_bytes): the ids do
  // not decode to them.
  virtual int64_t num_dropped_bytes() const = 0;
};

// `vocabulary` must outlive it.
std::unique_ptr<TextEncoder> make_text_encoder(const Vocabulary& vocabulary);

}  // namespace weft
