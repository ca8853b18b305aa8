#include "indexed_dataset/format/pair/reader.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "indexed_dataset/base/process/partition_point.h"
#include "indexed_dataset/base/storage/free_space.h"

namespace weft {
namespace {

[[noreturn]] void throw_bad(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error(path.string() + ": " + what);
}

// Datasets whose names begin with this one: preprocess adds the key to what --output-prefix says.
std::string longer_names(const std::filesystem::path& prefix) {
  constexpr size_t kNumShown = 3;
  const std::filesystem::path folder = folder_of(prefix);
  const std::string begin = prefix.filename().string() + "_";
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::filesystem::path& file = it->path();
    if (file.extension() == ".idx" && file.filename().string().starts_with(begin))
      found.push_back((prefix.parent_path() / file.stem()).string());
  }
  std::sort(found.begin(), found.end());
  std::string names;
  for (size_t i = 0; i < std::min(found.size(), kNumShown); ++i)
    names += (i == 0 ? "; there is '" : ", '") + found[i] + "'";
  return found.size() > kNumShown ? names + ", ..." : names;
}

MappedFile map_part(const std::filesystem::path& prefix, const char* suffix) {
  const std::filesystem::path path = prefix.string() + suffix;
  try {
    return MappedFile(path);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
    const auto extension = prefix.extension();
    std::string hint;
    if (extension == ".idx" || extension == ".bin") {
      hint = "; give the prefix without " + extension.string();
    } else if (std::filesystem::exists(prefix.string() + ".merge")) {
      hint = "; there is a " + prefix.filename().string() +
             ".merge: the merge that writes it has not finished or was killed";
    } else if (std::filesystem::exists(prefix.string() + ".bin")) {
      hint = "; its .bin is there: see whether weft-data repair can make it again";
    } else {
      hint = longer_names(prefix);
    }
    throw std::system_error(error.code(), "no dataset file '" + path.string() + "'" + hint);
  }
}

TokenType token_type_of(uint8_t code, const std::filesystem::path& path) {
  if ((code >= 1 && code <= 5) || code == 8) return static_cast<TokenType>(code);
  throw_bad(path, "token type code " + std::to_string(code) + " at byte 17 is " +
                      (code == 6   ? "float64, a floating-point type, which holds no tokens"
                       : code == 7 ? "float32, a floating-point type, which holds no tokens"
                                   : "unknown (1-5 and 8 are known)"));
}

template <typename T>
void widen(const std::byte* data, int64_t count, int32_t* tokens) {
  for (int64_t i = 0; i < count; ++i) {
    const T token = load_number<T>(data + i * static_cast<int64_t>(sizeof(T)));
    if constexpr (sizeof(T) > sizeof(int32_t)) {
      if (token > std::numeric_limits<int32_t>::max() ||
          token < std::numeric_limits<int32_t>::min()) {
        throw std::runtime_error("token id " + std::to_string(token) + " does not fit 32 bits");
      }
    }
    tokens[i] = static_cast<int32_t>(token);
  }
}

}  // namespace

IndexView parse_layout(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("TNTIDX")) {
    throw_bad(path,
              "is in the older fairseq format (TNTIDX), which is not supported: tokenize the "
              "corpus anew");
  }
  if (!text.starts_with(kIndexMagic)) {
    throw_bad(path, "is not a Megatron index (its first 9 bytes are not MMIDIDX and two NULs)");
  }
  const int64_t size_bytes = static_cast<int64_t>(bytes.size());
  if (size_bytes < kIndexHeaderBytes) {
    throw_bad(path,
              "is truncated: " + std::to_string(size_bytes) + " bytes, the header alone has 34");
  }
  const auto version = load_number<uint64_t>(bytes.data() + 9);
  if (version != kIndexVersion) {
    throw_bad(path, "has version " + std::to_string(version) + " at byte 9; only 1 is known");
  }
  IndexView index;
  index.type_code = load_number<uint8_t>(bytes.data() + 17);
  const auto num_sequences = load_number<uint64_t>(bytes.data() + 18);
  const auto num_bounds = load_number<uint64_t>(bytes.data() + 26);
  const std::string counts = std::to_string(num_sequences) + " sequences (byte 18) and " +
                             std::to_string(num_bounds) + " document bounds (byte 26)";
  // Compared by division first: counts of a damaged header may overflow the product.
  const auto rest_bytes = static_cast<uint64_t>(size_bytes - kIndexHeaderBytes);
  if (num_sequences > rest_bytes / 12 || num_bounds > rest_bytes / 8 ||
      12 * num_sequences + 8 * num_bounds > rest_bytes) {
    throw_bad(path, "is truncated or damaged: " + std::to_string(size_bytes) +
                        " bytes are too few for " + counts);
  }
  const uint64_t extra_bytes = rest_bytes - 12 * num_sequences - 8 * num_bounds;
  if (extra_bytes != 0) {
    throw_bad(path,
              "has " + std::to_string(extra_bytes) + " bytes more than " + counts + " need" +
                  (extra_bytes == num_sequences
                       ? ": a multimodal dataset (one mode a sequence), which is not supported"
                       : ""));
  }
  if (num_bounds == 0) throw_bad(path, "has no document bounds; at least a 0 must be there");
  index.num_sequences = static_cast<int64_t>(num_sequences);
  index.num_bounds = static_cast<int64_t>(num_bounds);
  index.lengths = bytes.data() + kIndexHeaderBytes;
  index.offsets = index.lengths + 4 * num_sequences;
  index.bounds = index.offsets + 8 * num_sequences;
  return index;
}

IndexView parse_index(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  IndexView index = parse_layout(bytes, path);
  index.type = token_type_of(index.type_code, path);
  return index;
}

int64_t document_of_sequence(const IndexView& index, int64_t sequence_idx) {
  if (index.num_bounds == 1) return sequence_idx;
  // In most datasets each document is one sequence. Then two neighbouring numbers tell it, where
  // the search below touches twenty places.
  if (sequence_idx >= 0 && sequence_idx + 1 < index.num_bounds &&
      index.bound(sequence_idx) == sequence_idx && index.bound(sequence_idx + 1) > sequence_idx) {
    return sequence_idx;
  }
  return partition_point(0, index.num_bounds,
                         [&](int64_t document) { return index.bound(document) <= sequence_idx; }) -
         1;
}

int64_t SequenceLengths::first_misfit(int64_t begin, int64_t end) const {
  if (index_ == nullptr || begin >= end) return end;
  // Unsigned: the numbers of a damaged index may overflow.
  const auto item_bytes = static_cast<uint64_t>(size_bytes(index_->type));
  auto offset_bytes = static_cast<uint64_t>(index_->offset_bytes(begin));
  for (int64_t i = begin; i + 1 < end; ++i) {
    offset_bytes += static_cast<uint64_t>(index_->length(i)) * item_bytes;
    if (static_cast<uint64_t>(index_->offset_bytes(i + 1)) != offset_bytes) return i;
  }
  return end;
}

DatasetReader::DatasetReader(const std::filesystem::path& prefix)
    : prefix_(prefix), idx_(map_part(prefix, ".idx")), bin_(map_part(prefix, ".bin")) {
  index_ = parse_index(idx_.bytes(), prefix.string() + ".idx");
  const int64_t last = num_sequences() - 1;
  const auto bin_bytes = static_cast<int64_t>(bin_.bytes().size());
  const int64_t last_at = last < 0 ? 0 : offset_bytes(last);
  const int64_t last_bytes = last < 0 ? 0 : length(last) * size_bytes(token_type());
  if (last_at < 0 || last_bytes < 0 || last_at != bin_bytes - last_bytes) {
    throw_bad(prefix.string() + ".bin",
              "has " + std::to_string(bin_bytes) +
                  " bytes, but by the .idx its last sequence has " + std::to_string(last_bytes) +
                  " bytes from byte " + std::to_string(last_at) +
                  " on: the two files are not of one dataset, or damaged");
  }
  check_bounds();
}

// Bounds that leave out sequences would give them to no document, or to a number that no document
// has.
void DatasetReader::check_bounds() const {
  const int64_t first = document_bound(0), last = document_bound(num_documents());
  if (first == 0 && (num_documents() == 0 || last == num_sequences())) return;
  throw_bad(prefix_.string() + ".idx",
            "its document bounds go from " + std::to_string(first) + " to " + std::to_string(last) +
                " and must go from 0 to the number of sequences, " +
                std::to_string(num_sequences()) +
                ": the index is damaged (weft-data repair makes it again where a token ends each "
                "document)");
}

// A walk over all offsets would take longer than opening; these three numbers lie side by side.
void DatasetReader::check_place(int64_t sequence_idx) const {
  const auto bin_bytes = static_cast<int64_t>(bin_.bytes().size());
  const int64_t begin = offset_bytes(sequence_idx);
  const int64_t end =
      sequence_idx + 1 < num_sequences() ? offset_bytes(sequence_idx + 1) : bin_bytes;
  if (begin >= 0 && begin <= end && end <= bin_bytes &&
      end - begin == length(sequence_idx) * size_bytes(token_type()))
    return;
  throw_bad(prefix_.string() + ".idx", "sequence " + std::to_string(sequence_idx) + " has " +
                                           std::to_string(length(sequence_idx)) +
                                           " tokens, but begins at byte " + std::to_string(begin) +
                                           " of the .bin and ends at byte " + std::to_string(end) +
                                           ": the index is damaged (weft-data verify tells more)");
}

int64_t DatasetReader::num_tokens() const {
  return static_cast<int64_t>(bin_.bytes().size()) / size_bytes(token_type());
}

int64_t DatasetReader::document_of_sequence(int64_t sequence_idx) const {
  return weft::document_of_sequence(index_, sequence_idx);
}

void DatasetReader::copy_tokens(int64_t sequence_idx, int64_t begin, int64_t count,
                                int32_t* tokens) const {
  if (sequence_idx < 0 || sequence_idx >= num_sequences()) {
    throw std::out_of_range(prefix_.string() + ": no sequence " + std::to_string(sequence_idx) +
                            " (there are " + std::to_string(num_sequences()) + ")");
  }
  if (begin < 0 || count < 0 || begin > length(sequence_idx) - count) {
    throw std::out_of_range(prefix_.string() + ": " + std::to_string(count) + " tokens from " +
                            std::to_string(begin) + " on of sequence " +
                            std::to_string(sequence_idx) + ", which has " +
                            std::to_string(length(sequence_idx)));
  }
  check_place(sequence_idx);
  const int64_t item_bytes = size_bytes(token_type());
  const std::byte* data = bin_.bytes().data() + offset_bytes(sequence_idx) + begin * item_bytes;
  with_number_type(token_type(), [&]<typename T>(T) { widen<T>(data, count, tokens); });
}

void DatasetReader::will_need(int64_t sequence_idx, int64_t begin, int64_t count) const {
  if (sequence_idx < 0 || sequence_idx >= num_sequences() || begin < 0 || count < 0) return;
  const int64_t item_bytes = size_bytes(token_type());
  bin_.will_need(static_cast<size_t>(offset_bytes(sequence_idx) + begin * item_bytes),
                 static_cast<size_t>(count * item_bytes));
}

void DatasetReader::prefetch(int64_t sequence_idx, int64_t begin, int64_t count) const {
  if (sequence_idx < 0 || sequence_idx >= num_sequences() || begin < 0 || count <= 0) return;
  constexpr int64_t kCacheLineBytes = 64;
  const int64_t item_bytes = size_bytes(token_type());
  const std::span<const std::byte> bin = bin_.bytes();
  const int64_t from = offset_bytes(sequence_idx) + begin * item_bytes;
  const int64_t to = std::min(from + count * item_bytes, std::ssize(bin));
  if (from < 0) return;
  for (int64_t at = from; at < to; at += kCacheLineBytes) __builtin_prefetch(bin.data() + at);
}

std::vector<int32_t> DatasetReader::tokens(int64_t sequence_idx) const {
  if (sequence_idx < 0 || sequence_idx >= num_sequences()) {
    copy_tokens(sequence_idx, 0, 0, nullptr);  // throws the message
  }
  // A damaged length does not decide what is allocated: no sequence has more tokens than the .bin.
  const int64_t most = static_cast<int64_t>(bin_.bytes().size()) / size_bytes(token_type());
  std::vector<int32_t> result(
      static_cast<size_t>(std::clamp<int64_t>(length(sequence_idx), 0, most)));
  copy_tokens(sequence_idx, 0, length(sequence_idx), result.data());
  return result;
}

}  // namespace weft
