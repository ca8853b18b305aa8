#include "indexed_dataset/format/repair/rebuild_index.h"

#include <algorithm>
#include <limits>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/index_view.h"

namespace weft {
namespace {

int64_t load_token(const std::byte* data, TokenType type) {
  switch (type) {
    case TokenType::kUInt8:
      return load_number<uint8_t>(data);
    case TokenType::kInt8:
      return load_number<int8_t>(data);
    case TokenType::kInt16:
      return load_number<int16_t>(data);
    case TokenType::kInt32:
      return load_number<int32_t>(data);
    case TokenType::kInt64:
      return load_number<int64_t>(data);
    case TokenType::kUInt16:
      return load_number<uint16_t>(data);
  }
  return -1;
}

std::optional<TokenType> known_type(uint8_t code) {
  if ((code >= 1 && code <= 5) || code == 8) return static_cast<TokenType>(code);
  return std::nullopt;
}

struct IndexCounts {
  int64_t num_sequences, num_bounds;
};

// As the header says, or one of them from elsewhere and the other from the file's size. Those that
// fit the size come first: a cut file fits none.
std::vector<IndexCounts> likely_counts(std::span<const std::byte> damaged,
                                       const ExpectedCounts& expected) {
  const int64_t rest_bytes = static_cast<int64_t>(damaged.size()) - kIndexHeaderBytes;
  const auto header_sequences = load_number<int64_t>(damaged.data() + 18);
  const auto header_bounds = load_number<int64_t>(damaged.data() + 26);
  std::vector<IndexCounts> all = {{header_sequences, header_bounds}};
  for (const int64_t num_bounds : {header_bounds, expected.num_documents + 1}) {
    if (num_bounds < 1 || num_bounds > rest_bytes) continue;
    all.push_back({(rest_bytes - 8 * num_bounds) / 12, num_bounds});
    all.push_back({header_sequences, num_bounds});
  }
  if (header_sequences >= 0 && header_sequences <= rest_bytes)
    all.push_back({header_sequences, (rest_bytes - 12 * header_sequences) / 8});
  std::erase_if(all, [&](const IndexCounts& counts) {
    // At least all lengths must be there. (This also keeps the products below from overflowing.)
    return counts.num_sequences < 0 || counts.num_sequences > rest_bytes / 4 ||
           counts.num_bounds < 1 || counts.num_bounds > rest_bytes ||
           (expected.num_documents >= 0 && counts.num_bounds - 1 != expected.num_documents);
  });
  std::stable_partition(all.begin(), all.end(), [&](const IndexCounts& counts) {
    return 12 * counts.num_sequences + 8 * counts.num_bounds == rest_bytes;
  });
  return all;
}

// A damaged .idx whose counts are taken for `num_sequences` and `num_bounds`.
class DamagedIndex {
 public:
  DamagedIndex(std::span<const std::byte> bytes, int64_t num_sequences, int64_t num_bounds,
               TokenType type, int64_t bin_bytes)
      : bytes_(bytes),
        num_sequences_(num_sequences),
        num_bounds_(num_bounds),
        type_(type),
        bin_bytes_(bin_bytes) {}

  // False if the lengths cannot be told.
  bool write_lengths(IndexDraft& draft) const {
    return take_lengths(draft, &DamagedIndex::end_by_length) ||
           take_lengths(draft, &DamagedIndex::end_by_offset) ||
           take_lengths(draft, &DamagedIndex::end_by_both);
  }

  bool write_bounds(IndexDraft& draft) const {
    int64_t k = 0, last = 0;
    return draft.finish(num_bounds_, [&] {
      const int64_t bound = mended_bound(k++, last);
      last = bound;
      return bound;
    });
  }

 private:
  bool holds(int64_t at, int64_t size_bytes) const {
    return at + size_bytes <= static_cast<int64_t>(bytes_.size());
  }
  // Offset of a sequence; the one after the last is the end of .bin. -1: not there, or negative.
  int64_t offset(int64_t i) const {
    if (i == num_sequences_) return bin_bytes_;
    const int64_t at = kIndexHeaderBytes + 4 * num_sequences_ + 8 * i;
    return holds(at, 8) ? std::max<int64_t>(load_number<int64_t>(bytes_.data() + at), -1) : -1;
  }
  // Bytes of a sequence by its length; -1: not there, or it cannot be.
  int64_t length_bytes(int64_t i) const {
    if (i >= num_sequences_) return 0;
    const int64_t at = kIndexHeaderBytes + 4 * i;
    const int64_t length = holds(at, 4) ? load_number<int32_t>(bytes_.data() + at) : -1;
    return length < 0 ? -1 : length * size_bytes(type_);
  }
  bool is_length(int64_t bytes) const {
    return bytes >= 0 && bytes % size_bytes(type_) == 0 &&
           bytes / size_bytes(type_) <= std::numeric_limits<int32_t>::max();
  }

  // Return where sequence i ends if it begins at `at`; -1 if that is not known.
  int64_t end_by_length(int64_t i, int64_t at) const {
    return length_bytes(i) < 0 ? -1 : at + length_bytes(i);
  }
  int64_t end_by_offset(int64_t i, int64_t at) const {
    return is_length(offset(i + 1) - at) ? offset(i + 1) : -1;
  }
  // Takes the length if the two contradict each other and the sequence behind it then fits.
  int64_t end_by_both(int64_t i, int64_t at) const {
    const int64_t by_length = end_by_length(i, at), by_offset = end_by_offset(i, at);
    if (by_offset < 0 || by_offset > bin_bytes_) return by_length;
    const bool length_fits =
        by_length >= 0 && by_length <= bin_bytes_ && length_bytes(i + 1) >= 0 &&
        by_length + length_bytes(i + 1) == offset(std::min(i + 2, num_sequences_));
    return length_fits ? by_length : by_offset;
  }

  // Goes from sequence to sequence; the last one must end where .bin does.
  bool take_lengths(IndexDraft& draft,
                    int64_t (DamagedIndex::*end_of)(int64_t, int64_t) const) const {
    draft.restart(type_);
    int64_t at = 0;
    for (int64_t i = 0; i < num_sequences_; ++i) {
      const int64_t end = (this->*end_of)(i, at);
      if (end < at || end > bin_bytes_) return false;
      draft.add_length(static_cast<int32_t>((end - at) / size_bytes(type_)));
      at = end;
    }
    return at == bin_bytes_;
  }

  int64_t stored_bound(int64_t k) const {
    const int64_t at = kIndexHeaderBytes + 12 * num_sequences_ + 8 * k;
    return holds(at, 8) ? std::max<int64_t>(load_number<int64_t>(bytes_.data() + at), -1) : -1;
  }

  // Bound k, of which the one before is `low`; -1: it cannot be told.
  int64_t mended_bound(int64_t k, int64_t low) const {
    const bool one_each = num_bounds_ - 1 == num_sequences_;
    if (k == 0) return 0;
    if (one_each) return k;
    const bool is_last = k + 1 == num_bounds_;
    const int64_t high = is_last ? num_sequences_ : stored_bound(k + 1);
    const int64_t bound = is_last ? num_sequences_ : stored_bound(k);
    // A bound that is too large would make all that follow too small.
    const bool fits = bound >= low && bound <= num_sequences_ && (high < low || bound <= high);
    if (fits) return bound;
    const int64_t only_answer = high - low == 1 ? high : low;
    return high - low <= 1 && only_answer <= num_sequences_ ? only_answer : -1;
  }

  std::span<const std::byte> bytes_;
  int64_t num_sequences_, num_bounds_;
  TokenType type_;
  int64_t bin_bytes_;
};

}  // namespace

std::optional<int64_t> last_token(const std::filesystem::path& bin, TokenType type) {
  const InputFile file(bin);
  const int64_t item_bytes = size_bytes(type);
  if (file.size_bytes() < item_bytes) return std::nullopt;
  std::byte bytes[8] = {};
  file.read_at(bytes, static_cast<size_t>(item_bytes), file.size_bytes() - item_bytes);
  return load_token(bytes, type);
}

bool add_lengths_by_end_of_document(const std::filesystem::path& bin, TokenType type,
                                    int64_t end_of_document, int num_threads, IndexDraft& draft) {
  const InputFile file(bin);
  const int64_t item_bytes = size_bytes(type);
  if (file.size_bytes() % item_bytes != 0) return false;
  // So many blocks at a time, then the ends in them in their order.
  constexpr int64_t kBlockBytes = int64_t{1} << 18;
  const int64_t num_blocks = (file.size_bytes() + kBlockBytes - 1) / kBlockBytes;
  std::vector<std::vector<uint32_t>> ends(4 * static_cast<size_t>(std::max(num_threads, 1)));
  int64_t document_begin = 0;  // in tokens
  for (int64_t first = 0; first < num_blocks; first += std::ssize(ends)) {
    const int64_t count = std::min(std::ssize(ends), num_blocks - first);
    parallel_for(count, num_threads, [&](int64_t k) {
      std::vector<uint32_t>& found = ends[static_cast<size_t>(k)];
      found.clear();
      thread_local std::vector<std::byte> bytes;
      const int64_t at = (first + k) * kBlockBytes;
      bytes.resize(static_cast<size_t>(std::min(kBlockBytes, file.size_bytes() - at)));
      file.read_at(bytes.data(), bytes.size(), at);
      for (size_t i = 0; i < bytes.size(); i += static_cast<size_t>(item_bytes)) {
        if (load_token(bytes.data() + i, type) == end_of_document)
          found.push_back(static_cast<uint32_t>(i / static_cast<size_t>(item_bytes)) + 1);
      }
    });
    for (int64_t k = 0; k < count; ++k) {
      for (const uint32_t end : ends[static_cast<size_t>(k)]) {
        const int64_t end_token = (first + k) * (kBlockBytes / item_bytes) + end;
        if (end_token - document_begin > std::numeric_limits<int32_t>::max()) return false;
        draft.add_length(static_cast<int32_t>(end_token - document_begin));
        document_begin = end_token;
      }
    }
  }
  return document_begin * item_bytes == file.size_bytes();
}

bool mend_index(std::span<const std::byte> damaged, int64_t bin_bytes,
                const ExpectedCounts& expected, IndexDraft& draft,
                const std::function<bool(bool has_bounds)>& accept) {
  const auto file_bytes = static_cast<int64_t>(damaged.size());
  if (file_bytes < kIndexHeaderBytes) return false;
  std::vector<TokenType> types = {TokenType::kUInt16, TokenType::kInt32};
  if (const auto type = known_type(load_number<uint8_t>(damaged.data() + 17))) {
    std::erase(types, *type);
    types.insert(types.begin(), *type);
  }
  for (const TokenType type : types) {
    if (expected.num_tokens >= 0 && expected.num_tokens * size_bytes(type) != bin_bytes) continue;
    for (const IndexCounts& counts : likely_counts(damaged, expected)) {
      const DamagedIndex index(damaged, counts.num_sequences, counts.num_bounds, type, bin_bytes);
      if (index.write_lengths(draft) && accept(index.write_bounds(draft))) return true;
    }
  }
  return false;
}

}  // namespace weft
