#include "indexed_dataset/format/merge/merge_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

static_assert(PairMerge::kPieceBytes == kChecksumBlockBytes, "a piece is compared as one block");

[[noreturn]] void throw_damaged(const std::filesystem::path& prefix, const std::string& what) {
  throw ChecksumMismatch(fmt::format(
      "the part {} is damaged: {}, so nothing was merged; 'weft-data verify {}' names its "
      "documents; make it again, or take it from a sound copy",
      prefix.string(), what, prefix.string()));
}

// Returns the checksums of one file of a part. Throws where they are of a file of another size.
const FileChecksums* find_file(const std::vector<FileChecksums>& files, const char* suffix,
                               size_t size_bytes, const std::filesystem::path& prefix) {
  for (const FileChecksums& file : files) {
    if (file.suffix != suffix) continue;
    if (file.size_bytes != static_cast<int64_t>(size_bytes)) {
      throw_damaged(prefix, fmt::format("its {} has {} bytes, and {} when its checksums were made",
                                        suffix, size_bytes, file.size_bytes));
    }
    return &file;
  }
  return nullptr;
}

}  // namespace

PartChecks::PartChecks(const PairMerge& pairs, int num_threads) : parts_(pairs.parts().size()) {
  parallel_for(std::ssize(parts_), num_threads, [&](int64_t i) {
    const DatasetReader& reader = pairs.parts()[static_cast<size_t>(i)].reader;
    Part& part = parts_[static_cast<size_t>(i)];
    part.prefix = reader.prefix();
    const auto stored = read_block_checksums(checksums_path(part.prefix));
    if (!stored) return;
    if (const FileChecksums* bin =
            find_file(*stored, ".bin", reader.bin_bytes().size(), part.prefix))
      part.bin_blocks = bin->blocks;
    const FileChecksums* idx = find_file(*stored, ".idx", reader.idx_bytes().size(), part.prefix);
    if (idx == nullptr) return;
    if (compute_block_checksums(".idx", reader.idx_bytes()).blocks != idx->blocks)
      throw_damaged(part.prefix, "its .idx has other bytes than when its checksums were made");
  });
}

void PartChecks::compare(size_t part_idx, int64_t offset_bytes,
                         std::span<const std::byte> bytes) const {
  const Part& part = parts_[part_idx];
  if (!part.bin_blocks) return;
  const auto block = static_cast<size_t>(offset_bytes / kChecksumBlockBytes);
  if (XXH3_64bits(bytes.data(), bytes.size()) == part.bin_blocks->at(block)) return;
  throw_damaged(part.prefix,
                fmt::format("bytes {} to {} of its .bin are others than when its checksums were "
                            "made",
                            offset_bytes, offset_bytes + std::ssize(bytes)));
}

ReadBack::ReadBack(std::vector<WrittenFile> files) : files_(std::move(files)) {
  for (const WrittenFile& file : files_) {
    const int64_t end_bytes = file.begin_bytes + file.crc.num_bytes();
    blocks_.emplace_back(static_cast<size_t>(end_bytes / kChecksumBlockBytes + 1));
  }
}

void ReadBack::see(size_t file_idx, int64_t offset_bytes, std::span<const std::byte> bytes) {
  const WrittenFile& file = files_[file_idx];
  const int64_t first = std::max(offset_bytes, file.begin_bytes);
  const int64_t last =
      std::min(offset_bytes + std::ssize(bytes), file.begin_bytes + file.crc.num_bytes());
  if (first >= last) return;
  blocks_[file_idx][static_cast<size_t>(offset_bytes / kChecksumBlockBytes)].add(
      bytes.subspan(static_cast<size_t>(first - offset_bytes), static_cast<size_t>(last - first)));
}

void ReadBack::check() const {
  for (size_t i = 0; i < files_.size(); ++i) {
    Crc32 found;
    for (const Crc32& block : blocks_[i]) found.append(block);
    if (found == files_[i].crc) continue;
    throw ChecksumMismatch(fmt::format(
        "{} does not hold what was written to it: its file system has lost or changed bytes, so "
        "the merge ends without a result; look at that file system, then give the command again",
        files_[i].path.string()));
  }
}

}  // namespace weft
