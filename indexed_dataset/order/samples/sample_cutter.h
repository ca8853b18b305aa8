// Cuts a stream of sequences into samples of equal length, as Megatron does
// (core/datasets/helpers.cpp, build_sample_idx). Megatron looks every length up in the dataset,
// which is a wait for memory each time because the stream is shuffled; here the lengths were
// shuffled along.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// A sequence of the stream: its number in the lower 32 bits, its length in tokens in the upper
// ones.
using StreamEntry = uint64_t;
constexpr StreamEntry stream_entry(int32_t sequence_idx, int32_t num_tokens) {
  return uint64_t{static_cast<uint32_t>(num_tokens)} << 32 | static_cast<uint32_t>(sequence_idx);
}

struct SampleCuts {
  int64_t sequence_length = 0;  // L
  int64_t extra_tokens = 0;     // 1: a sample's last token is the first one of the next sample
  int64_t num_samples = 0;
};

// T is int32_t or int64_t.
template <typename T>
struct CutStream {
  std::vector<int32_t> document_index;  // the sequences' numbers
  // (num_samples + 1, 2), flat: position in document_index and offset in tokens, where each sample
  // starts and the last one ends. Samples that the stream does not fill end at its end.
  std::vector<T> sample_index;
};

// `stream` is not empty; its memory is released while it is read, and its content is lost.
template <typename T>
CutStream<T> cut_stream(std::span<StreamEntry> stream, const SampleCuts& cuts);

}  // namespace weft
