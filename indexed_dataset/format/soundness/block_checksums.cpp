#include "indexed_dataset/format/soundness/block_checksums.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

constexpr std::string_view kFirstLines = "weft-checksums 1\nxxh3-64 16777216\n";

// Small enough to stay in a core's second cache between reading and hashing: 1 MiB would not
// everywhere.
constexpr int64_t kPieceBytes = int64_t{256} << 10;
static_assert(kChecksumBlockBytes % kPieceBytes == 0);

int64_t num_blocks(int64_t size_bytes) {
  return size_bytes / kChecksumBlockBytes + (size_bytes % kChecksumBlockBytes != 0);
}

std::string to_hex(uint64_t value) {
  std::string hex(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) hex[i] = "0123456789abcdef"[value & 15];
  return hex;
}

// Takes the file's lines apart. Every member throws for what is not as it should be.
class LineReader {
 public:
  LineReader(std::string_view text, const std::filesystem::path& path) : text_(text), path_(path) {}

  std::string_view next() {
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) fail("a line is missing");
    const std::string_view line = text_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }
  bool at_end() const { return at_ == text_.size(); }

  uint64_t hex(std::string_view digits) const {
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 16 || error != std::errc() || end != digits.data() + 16) {
      fail("a checksum is not 16 hexadecimal digits");
    }
    return value;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(path_.string() + ": not a list of block checksums of weft-data: " +
                             what + " near byte " + std::to_string(at_));
  }

 private:
  std::string_view text_;
  const std::filesystem::path& path_;
  size_t at_ = 0;
};

// "file .bin 33554433 bytes"
FileChecksums parse_file_line(std::string_view line, const LineReader& lines) {
  FileChecksums file;
  const size_t blank = line.find(' ', 5);
  if (!line.starts_with("file .") || blank == std::string_view::npos) {
    lines.fail("no line 'file SUFFIX SIZE bytes'");
  }
  file.suffix = line.substr(5, blank - 5);
  // It becomes part of a path that is opened.
  if (file.suffix.find_first_not_of(".abcdefghijklmnopqrstuvwxyz") != std::string::npos) {
    lines.fail("a suffix is not of small letters");
  }
  const std::string_view rest = line.substr(blank + 1);
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), file.size_bytes);
  if (error != std::errc() || file.size_bytes < 0 ||
      std::string_view(end, static_cast<size_t>(rest.data() + rest.size() - end)) != " bytes") {
    lines.fail("a size is not a number of bytes");
  }
  return file;
}

}  // namespace

std::filesystem::path checksums_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".checksums";
}

std::vector<FileChecksums> compute_block_checksums(std::span<const DatasetFile> files,
                                                   int num_threads, const SeePiece& see) {
  struct Block {
    size_t file_idx;
    int64_t block_idx;
  };
  std::vector<InputFile> inputs;
  std::vector<FileChecksums> checksums;
  std::vector<Block> blocks;
  for (const DatasetFile& file : files) {
    inputs.emplace_back(file.path);
    const int64_t size_bytes = inputs.back().size_bytes();
    checksums.push_back({file.suffix, size_bytes, {}});
    checksums.back().blocks.resize(static_cast<size_t>(num_blocks(size_bytes)));
    for (int64_t i = 0; i < num_blocks(size_bytes); ++i) blocks.push_back({inputs.size() - 1, i});
  }
  parallel_for(static_cast<int64_t>(blocks.size()), num_threads, [&](int64_t i) {
    const auto [file_idx, block_idx] = blocks[static_cast<size_t>(i)];
    const InputFile& input = inputs[file_idx];
    const int64_t begin = block_idx * kChecksumBlockBytes;
    const int64_t end = std::min(input.size_bytes(), begin + kChecksumBlockBytes);
    checksums[file_idx].blocks[static_cast<size_t>(block_idx)] = compute_block_checksum(
        input, begin, end, [&, file = file_idx](int64_t at, std::span<const std::byte> bytes) {
          if (see) see(file, at, bytes);
        });
  });
  return checksums;
}

uint64_t compute_block_checksum(
    const InputFile& file, int64_t begin_bytes, int64_t end_bytes,
    const std::function<void(int64_t offset_bytes, std::span<const std::byte> bytes)>& see) {
  thread_local const auto buffer = std::make_unique<std::byte[]>(kPieceBytes);
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  for (int64_t at = begin_bytes; at < end_bytes; at += kPieceBytes) {
    const auto size = static_cast<size_t>(std::min(kPieceBytes, end_bytes - at));
    file.read_at(buffer.get(), size, at);
    XXH3_64bits_update(&hash, buffer.get(), size);
    see(at, {buffer.get(), size});
  }
  return XXH3_64bits_digest(&hash);
}

FileChecksums compute_block_checksums(std::string suffix, std::span<const std::byte> bytes) {
  FileChecksums checksums{std::move(suffix), static_cast<int64_t>(bytes.size()), {}};
  for (size_t at = 0; at < bytes.size(); at += kChecksumBlockBytes) {
    const auto block = bytes.subspan(at, std::min<size_t>(kChecksumBlockBytes, bytes.size() - at));
    checksums.blocks.push_back(XXH3_64bits(block.data(), block.size()));
  }
  return checksums;
}

void write_block_checksums(const std::filesystem::path& path, std::span<const DatasetFile> files,
                           int num_threads, const SeePiece& see) {
  write_block_checksums(path, compute_block_checksums(files, num_threads, see));
}

void write_block_checksums(const std::filesystem::path& path,
                           std::span<const FileChecksums> checksums) {
  std::string text(kFirstLines);
  for (const FileChecksums& file : checksums) {
    text += "file " + file.suffix + " " + std::to_string(file.size_bytes) + " bytes\n";
    for (const uint64_t block : file.blocks) text += to_hex(block) + "\n";
  }
  text += "end " + to_hex(XXH3_64bits(text.data(), text.size())) + "\n";
  write_synced_file(path, text);
}

std::optional<std::vector<FileChecksums>> read_block_checksums(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  LineReader lines(text, path);
  // The last line first: a flipped bit must be called damage, wherever it is.
  constexpr size_t kEndBytes = 4 + 16 + 1;
  const size_t end_at = text.size() < kEndBytes ? 0 : text.size() - kEndBytes;
  if (text.substr(end_at) != "end " + to_hex(XXH3_64bits(text.data(), end_at)) + "\n") {
    throw ChecksumMismatch(path.string() +
                           ": is damaged: its last line is not the checksum of the lines before; "
                           "the dataset may be sound, but that cannot be told");
  }
  if (!text.starts_with(kFirstLines)) lines.fail("unknown version or block size");
  lines.next();
  lines.next();
  std::vector<FileChecksums> files;
  for (std::string_view line = lines.next(); !line.starts_with("end "); line = lines.next()) {
    files.push_back(parse_file_line(line, lines));
    FileChecksums& file = files.back();
    // A line a block: the text's size bounds what a lying size can make this loop do.
    for (int64_t i = 0; i < num_blocks(file.size_bytes); ++i) {
      file.blocks.push_back(lines.hex(lines.next()));
    }
  }
  if (!lines.at_end()) lines.fail("lines after the end");
  return files;
}

std::string xxh3_of_file(const std::filesystem::path& path) {
  const InputFile file(path);
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  std::vector<char> piece(static_cast<size_t>(std::min(kPieceBytes, file.size_bytes())));
  for (int64_t begin = 0; begin < file.size_bytes(); begin += kPieceBytes) {
    const auto count = static_cast<size_t>(std::min(kPieceBytes, file.size_bytes() - begin));
    file.read_at(piece.data(), count, begin);
    XXH3_64bits_update(&hash, piece.data(), count);
  }
  return to_hex(XXH3_64bits_digest(&hash));
}

}  // namespace weft
