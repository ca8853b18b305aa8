// verify_dataset (reader.h): the checks that Megatron's own reader does not make.
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "indexed_dataset/index_view.h"
#include "indexed_dataset/reader.h"

namespace weft {
namespace {

// Damage often repeats for every following entry; the first few positions tell where it starts.
constexpr int kMaxProblemsOfAKind = 5;

class ProblemList {
 public:
  explicit ProblemList(std::filesystem::path path) : path_(std::move(path)) {}
  // `describe` makes the text; it is not called for problems beyond the first few.
  template <typename Describe>
  void add(Describe describe) {
    if (++count_ <= kMaxProblemsOfAKind) problems_.push_back(path_.string() + ": " + describe());
  }
  void move_to(std::vector<std::string>& all) {
    if (count_ > kMaxProblemsOfAKind) {
      problems_.push_back(path_.string() + ": and " + std::to_string(count_ - kMaxProblemsOfAKind) +
                          " more problems of this kind");
    }
    all.insert(all.end(), problems_.begin(), problems_.end());
  }

 private:
  std::filesystem::path path_;
  std::vector<std::string> problems_;
  int64_t count_ = 0;
};

// Returns the size that .bin should have.
int64_t check_sequences(const IndexView& index, const std::filesystem::path& idx_path,
                        std::vector<std::string>& problems) {
  ProblemList bad_lengths(idx_path), bad_offsets(idx_path);
  int64_t expected_bytes = 0;
  for (int64_t i = 0; i < index.num_sequences; ++i) {
    const int32_t length = index.length(i);
    if (length < 0) {
      bad_lengths.add([&] {
        return "length of sequence " + std::to_string(i) + " is " + std::to_string(length);
      });
    }
    if (index.offset_bytes(i) != expected_bytes) {
      bad_offsets.add([&] {
        return "sequence " + std::to_string(i) + " starts at byte " +
               std::to_string(index.offset_bytes(i)) + ", but the lengths before it make " +
               std::to_string(expected_bytes);
      });
    }
    expected_bytes += std::max(length, 0) * size_bytes(index.type);
  }
  bad_lengths.move_to(problems);
  bad_offsets.move_to(problems);
  return expected_bytes;
}

void check_bounds(const IndexView& index, const std::filesystem::path& idx_path,
                  std::vector<std::string>& problems) {
  ProblemList bad(idx_path);
  if (index.bound(0) != 0) {
    bad.add([&] { return "document bound 0 is " + std::to_string(index.bound(0)) + ", not 0"; });
  }
  for (int64_t i = 1; i < index.num_bounds; ++i) {
    if (index.bound(i) < index.bound(i - 1)) {
      bad.add([&] {
        return "document bound " + std::to_string(i) + " is " + std::to_string(index.bound(i)) +
               ", less than the one before it (" + std::to_string(index.bound(i - 1)) + ")";
      });
    }
  }
  const int64_t last = index.bound(index.num_bounds - 1);
  if (index.num_bounds > 1 && last != index.num_sequences) {
    bad.add([&] {
      return "the last document bound (" + std::to_string(index.num_bounds - 1) + ") is " +
             std::to_string(last) + ", but there are " + std::to_string(index.num_sequences) +
             " sequences";
    });
  }
  bad.move_to(problems);
}

template <typename T>
void check_ids(std::span<const std::byte> bin, int64_t vocabulary_size, ProblemList& bad) {
  const int64_t limit =
      vocabulary_size > 0 ? vocabulary_size : int64_t{std::numeric_limits<int32_t>::max()} + 1;
  const auto count = static_cast<int64_t>(bin.size() / sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<int64_t>(load_unaligned<T>(bin.data() + i * sizeof(T)));
    if (id < 0 || id >= limit) {
      bad.add([&] {
        return "token id " + std::to_string(id) + " at byte " + std::to_string(i * sizeof(T)) +
               " is not in [0, " + std::to_string(limit) + ")";
      });
    }
  }
}

void check_all_ids(TokenType type, std::span<const std::byte> bin, int64_t vocabulary_size,
                   ProblemList& bad) {
  switch (type) {
    case TokenType::kUInt8:
      return check_ids<uint8_t>(bin, vocabulary_size, bad);
    case TokenType::kInt8:
      return check_ids<int8_t>(bin, vocabulary_size, bad);
    case TokenType::kInt16:
      return check_ids<int16_t>(bin, vocabulary_size, bad);
    case TokenType::kInt32:
      return check_ids<int32_t>(bin, vocabulary_size, bad);
    case TokenType::kInt64:
      return check_ids<int64_t>(bin, vocabulary_size, bad);
    case TokenType::kUInt16:
      return check_ids<uint16_t>(bin, vocabulary_size, bad);
  }
}

}  // namespace

std::vector<std::string> verify_dataset(const std::filesystem::path& prefix,
                                        int64_t vocabulary_size) {
  const std::filesystem::path idx_path = prefix.string() + ".idx";
  const std::filesystem::path bin_path = prefix.string() + ".bin";
  const MappedFile idx(idx_path), bin(bin_path);
  IndexView index;
  try {
    index = parse_index(idx.bytes(), idx_path);
  } catch (const std::runtime_error& error) {
    return {error.what()};
  }
  std::vector<std::string> problems;
  const int64_t expected_bytes = check_sequences(index, idx_path, problems);
  check_bounds(index, idx_path, problems);
  if (static_cast<int64_t>(bin.bytes().size()) != expected_bytes) {
    problems.push_back(bin_path.string() + ": has " + std::to_string(bin.bytes().size()) +
                       " bytes, but the lengths in the .idx make " +
                       std::to_string(expected_bytes));
  }
  ProblemList bad_ids(bin_path);
  check_all_ids(index.type, bin.bytes(), vocabulary_size, bad_ids);
  bad_ids.move_to(problems);
  return problems;
}

}  // namespace weft
