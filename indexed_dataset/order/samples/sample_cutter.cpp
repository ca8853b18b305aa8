#include "indexed_dataset/order/samples/sample_cutter.h"

#include <algorithm>

#include "indexed_dataset/order/samples/huge_pages.h"

namespace weft {
namespace {

int64_t length_of(StreamEntry entry) { return static_cast<int64_t>(entry >> 32); }

// Cuts the stream block by block.
template <typename T>
class Cutter {
 public:
  Cutter(size_t num_sequences, const SampleCuts& cuts)
      : cuts_(cuts), num_rows_(static_cast<size_t>(cuts.num_samples) + 1) {
    result_.document_index = vector_of_huge_pages<int32_t>(num_sequences);
    result_.sample_index = vector_of_huge_pages<T>(2 * (num_rows_ + 1));
    result_.sample_index.assign(2, T{0});
  }

  void add(std::span<const StreamEntry> block) {
    add_documents(block);
    int64_t end = stream_end_;
    for (const StreamEntry entry : block) end += length_of(entry);
    // Row k points behind token k * L + extra - 1 of the stream.
    std::vector<T>& rows = result_.sample_index;
    const size_t num_before = rows.size() / 2;
    const auto num_reached = static_cast<size_t>(std::max<int64_t>(end - cuts_.extra_tokens, 0) /
                                                 cuts_.sequence_length) +
                             1;
    const size_t num_after = std::max(num_before, std::min(num_reached, num_rows_));
    rows.resize(2 * (num_after + 1));  // one more, which cut() writes and does not count
    cut(block, &rows[2 * num_before], static_cast<int64_t>(num_before), num_after);
    rows.resize(2 * num_after);
    stream_end_ = end;
    num_sequences_ += std::ssize(block);
  }

  CutStream<T> finish(StreamEntry last) {
    std::vector<T>& rows = result_.sample_index;
    while (rows.size() < 2 * num_rows_) {
      rows.insert(rows.end(), {static_cast<T>(num_sequences_ - 1),
                               static_cast<T>(length_of(last) - cuts_.extra_tokens)});
    }
    return std::move(result_);
  }

 private:
  void add_documents(std::span<const StreamEntry> block) {
    std::vector<int32_t>& documents = result_.document_index;
    const size_t begin = documents.size();
    documents.resize(begin + block.size());
    for (size_t i = 0; i < block.size(); ++i)
      documents[begin + i] = static_cast<int32_t>(static_cast<uint32_t>(block[i]));
  }

  // Writes rows [first, num_after). Where samples end in documents is not foreseeable, so that a
  // row is written for every sequence, and kept if a sample ends there.
  void cut(std::span<const StreamEntry> block, T* row, int64_t first, size_t num_after) const {
    const int64_t length = cuts_.sequence_length, extra = cuts_.extra_tokens;
    const int64_t last_token = (static_cast<int64_t>(num_after) - 1) * length + extra - 1;
    int64_t token = first * length + extra - 1;
    int64_t begin = stream_end_, position = num_sequences_;
    for (const StreamEntry entry : block) {
      const int64_t end = begin + length_of(entry), end_of_rows = std::min(end, last_token + 1);
      row[0] = static_cast<T>(position);
      row[1] = static_cast<T>(token - begin + 1 - extra);
      bool ends_here = token < end_of_rows;
      row += ends_here ? 2 : 0;
      token += ends_here ? length : 0;
      while (token < end_of_rows) {
        row[0] = static_cast<T>(position);
        row[1] = static_cast<T>(token - begin + 1 - extra);
        row += 2;
        token += length;
      }
      begin = end;
      ++position;
    }
  }

  const SampleCuts cuts_;
  const size_t num_rows_;
  CutStream<T> result_;
  int64_t stream_end_ = 0;  // tokens so far
  int64_t num_sequences_ = 0;
};

}  // namespace

template <typename T>
CutStream<T> cut_stream(std::span<StreamEntry> stream, const SampleCuts& cuts) {
  constexpr size_t kBlock = 4096;        // is read twice, and stays in the cache
  constexpr size_t kReleased = 1 << 20;  // entries, 8 MiB
  const StreamEntry last = stream.back();
  Cutter<T> cutter(stream.size(), cuts);
  for (size_t begin = 0; begin < stream.size(); begin += kBlock) {
    if (begin % kReleased == 0) release_huge_pages(stream.data(), begin);
    cutter.add(stream.subspan(begin, std::min(kBlock, stream.size() - begin)));
  }
  return cutter.finish(last);
}

template CutStream<int32_t> cut_stream(std::span<StreamEntry>, const SampleCuts&);
template CutStream<int64_t> cut_stream(std::span<StreamEntry>, const SampleCuts&);

}  // namespace weft
