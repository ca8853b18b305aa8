#include "indexed_dataset/soundness/rebuild_index.h"

#include <algorithm>
#include <limits>

#include "indexed_dataset/pair/index_view.h"
#include "indexed_dataset/process/parallel_for.h"
#include "indexed_dataset/storage/file_io.h"

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

  std::optional<RebuiltIndex> mend() const {
    RebuiltIndex index{type_, {}, {}};
    const bool has_lengths = take_lengths(index.lengths, &DamagedIndex::end_by_length) ||
                             take_lengths(index.lengths, &DamagedIndex::end_by_offset) ||
                             take_lengths(index.lengths, &DamagedIndex::end_by_both);
    if (!has_lengths) return std::nullopt;
    if (!mend_bounds(index.bounds)) index.bounds.clear();
    return index;
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

  // Where sequence i ends if it begins at `at`; -1: not known.
  int64_t end_by_length(int64_t i, int64_t at) const {
    return length_bytes(i) < 0 ? -1 : at + length_bytes(i);
  }
  int64_t end_by_offset(int64_t i, int64_t at) const {
    return is_length(offset(i + 1) - at) ? offset(i + 1) : -1;
  }
  // Where the two contradict each other, the length if the sequence behind it then fits.
  int64_t end_by_both(int64_t i, int64_t at) const {
    const int64_t by_length = end_by_length(i, at), by_offset = end_by_offset(i, at);
    if (by_offset < 0 || by_offset > bin_bytes_) return by_length;
    const bool length_fits =
        by_length >= 0 && by_length <= bin_bytes_ && length_bytes(i + 1) >= 0 &&
        by_length + length_bytes(i + 1) == offset(std::min(i + 2, num_sequences_));
    return length_fits ? by_length : by_offset;
  }

  // Goes from sequence to sequence; the last one must end where .bin does.
  bool take_lengths(std::vector<int32_t>& lengths,
                    int64_t (DamagedIndex::*end_of)(int64_t, int64_t) const) const {
    lengths.clear();
    int64_t at = 0;
    for (int64_t i = 0; i < num_sequences_; ++i) {
      const int64_t end = (this->*end_of)(i, at);
      if (end < at || end > bin_bytes_) return false;
      lengths.push_back(static_cast<int32_t>((end - at) / size_bytes(type_)));
      at = end;
    }
    return at == bin_bytes_;
  }

  bool mend_bounds(std::vector<int64_t>& bounds) const {
    const int64_t begin = kIndexHeaderBytes + 12 * num_sequences_;
    const bool one_each = num_bounds_ - 1 == num_sequences_;
    for (int64_t k = 0; k < num_bounds_; ++k) {
      const auto stored = [&](int64_t i) {
        const int64_t at = begin + 8 * i;
        return holds(at, 8) ? std::max<int64_t>(load_number<int64_t>(bytes_.data() + at), -1) : -1;
      };
      const int64_t low = bounds.empty() ? 0 : bounds.back();
      // A bound that is too large would make all that follow too small.
      int64_t bound = one_each ? k : stored(k);
      const int64_t high = k + 1 < num_bounds_ ? stored(k + 1) : num_sequences_;
      if (k == 0) bound = 0;
      if (k > 0 && k + 1 == num_bounds_) bound = num_sequences_;
      if (bound < low || bound > num_sequences_ || (high >= low && bound > high && !one_each)) {
        bound = high - low <= 1 ? low : -1;  // more than one answer: none
        if (high - low == 1) bound = high;
      }
      if (bound < low || bound > num_sequences_) return false;
      bounds.push_back(bound);
    }
    return true;
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

std::optional<std::vector<int32_t>> lengths_by_end_of_document(const std::filesystem::path& bin,
                                                               TokenType type,
                                                               int64_t end_of_document,
                                                               int num_threads) {
  const InputFile file(bin);
  const int64_t item_bytes = size_bytes(type);
  if (file.size_bytes() % item_bytes != 0) return std::nullopt;
  // Where documents end within each block, in tokens.
  constexpr int64_t kBlockBytes = int64_t{1} << 20;
  const int64_t num_blocks = (file.size_bytes() + kBlockBytes - 1) / kBlockBytes;
  std::vector<std::vector<uint32_t>> ends(static_cast<size_t>(num_blocks));
  parallel_for(num_blocks, num_threads, [&](int64_t block) {
    thread_local std::vector<std::byte> bytes;
    const int64_t at = block * kBlockBytes;
    bytes.resize(static_cast<size_t>(std::min(kBlockBytes, file.size_bytes() - at)));
    file.read_at(bytes.data(), bytes.size(), at);
    const auto count = static_cast<int64_t>(bytes.size()) / item_bytes;
    for (int64_t i = 0; i < count; ++i) {
      if (load_token(bytes.data() + i * item_bytes, type) == end_of_document)
        ends[static_cast<size_t>(block)].push_back(static_cast<uint32_t>(i) + 1);
    }
  });
  std::vector<int32_t> lengths;
  int64_t begin = 0;
  for (int64_t block = 0; block < num_blocks; ++block) {
    for (const uint32_t end : ends[static_cast<size_t>(block)]) {
      const int64_t end_token = block * (kBlockBytes / item_bytes) + end;
      if (end_token - begin > std::numeric_limits<int32_t>::max()) return std::nullopt;
      lengths.push_back(static_cast<int32_t>(end_token - begin));
      begin = end_token;
    }
  }
  if (begin * item_bytes != file.size_bytes()) return std::nullopt;
  return lengths;
}

std::vector<int64_t> bounds_with_empty_documents(int64_t num_sequences,
                                                 std::span<const int64_t> empty_documents) {
  std::vector<int64_t> bounds = {0};
  auto next_empty = empty_documents.begin();
  const int64_t num_documents = num_sequences + std::ssize(empty_documents);
  for (int64_t document = 0; document < num_documents; ++document) {
    const bool is_empty = next_empty != empty_documents.end() && *next_empty == document;
    if (is_empty) ++next_empty;
    bounds.push_back(bounds.back() + (is_empty ? 0 : 1));
  }
  if (bounds.back() != num_sequences) return {};
  return bounds;
}

bool mend_index(std::span<const std::byte> damaged, int64_t bin_bytes,
                const ExpectedCounts& expected, const std::function<bool(RebuiltIndex)>& accept) {
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
      auto index =
          DamagedIndex(damaged, counts.num_sequences, counts.num_bounds, type, bin_bytes).mend();
      if (index && accept(std::move(*index))) return true;
    }
  }
  return false;
}

void write_index(const std::filesystem::path& path, const RebuiltIndex& index) {
  const auto num_sequences = static_cast<uint64_t>(index.lengths.size());
  const auto num_bounds = static_cast<uint64_t>(index.bounds.size());
  OutputFile file(path);
  file.append(kIndexMagic.data(), kIndexMagic.size());
  file.append(&kIndexVersion, 8);
  file.append(&index.type, 1);
  file.append(&num_sequences, 8);
  file.append(&num_bounds, 8);
  file.append(index.lengths.data(), 4 * index.lengths.size());
  constexpr size_t kAtATime = size_t{1} << 17;
  std::vector<int64_t> offsets;
  int64_t offset_bytes = 0;
  for (const int32_t length : index.lengths) {
    offsets.push_back(offset_bytes);
    offset_bytes += length * size_bytes(index.type);
    if (offsets.size() == kAtATime) {
      file.append(offsets.data(), 8 * offsets.size());
      offsets.clear();
    }
  }
  file.append(offsets.data(), 8 * offsets.size());
  file.append(index.bounds.data(), 8 * index.bounds.size());
  file.sync();
  file.close();
}

}  // namespace weft
