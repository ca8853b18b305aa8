#include "indexed_dataset/format/soundness/verify.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/index_view.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/damaged_blocks.h"
#include "indexed_dataset/format/soundness/problem_list.h"
#include "indexed_dataset/format/soundness/token_id_check.h"

namespace weft {
namespace {

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
    // Unsigned: the lengths of a damaged index may overflow.
    expected_bytes = static_cast<int64_t>(static_cast<uint64_t>(expected_bytes) +
                                          static_cast<uint64_t>(std::max(length, 0)) *
                                              static_cast<uint64_t>(size_bytes(index.type)));
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

std::optional<IndexView> check_index(const MappedFile& idx, const std::filesystem::path& idx_path,
                                     const DatasetFile& bin, std::vector<std::string>& problems) {
  IndexView index;
  try {
    index = parse_index(idx.bytes(), idx_path);
  } catch (const std::runtime_error& error) {
    problems.push_back(error.what());
    return std::nullopt;
  }
  const int64_t expected_bytes = check_sequences(index, idx_path, problems);
  check_bounds(index, idx_path, problems);
  const int64_t bin_bytes = InputFile(bin.path).size_bytes();
  if (bin_bytes != expected_bytes) {
    problems.push_back(bin.path.string() + ": has " + std::to_string(bin_bytes) +
                       " bytes, but the lengths in the .idx make " +
                       std::to_string(expected_bytes));
  }
  return index;
}

// PREFIX.checksums where it is there and sound.
std::optional<std::vector<FileChecksums>> stored_checksums(const std::filesystem::path& prefix,
                                                           VerifyResult& result) {
  result.has_checksums = true;
  try {
    auto stored = read_block_checksums(checksums_path(prefix));
    result.has_checksums = stored.has_value();
    return stored;
  } catch (const ChecksumMismatch& error) {
    result.checksum_problems.push_back(error.what());
  } catch (const std::runtime_error& error) {
    // std::system_error is one, too: a list that cannot be read is no list that was not written.
    if (dynamic_cast<const std::system_error*>(&error) != nullptr) throw;
    result.structure_problems.push_back(error.what());
  }
  return std::nullopt;
}

// The pair, and what else is covered. A covered file that is gone is a problem.
std::vector<DatasetFile> files_to_read(const std::filesystem::path& prefix,
                                       const std::vector<FileChecksums>& stored,
                                       std::vector<std::string>& problems) {
  std::vector<DatasetFile> files = {{".bin", prefix.string() + ".bin"},
                                    {".idx", prefix.string() + ".idx"}};
  for (const FileChecksums& file : stored) {
    if (file.suffix == ".bin" || file.suffix == ".idx") continue;
    const std::filesystem::path path = prefix.string() + file.suffix;
    if (std::filesystem::exists(path)) {
      files.push_back({file.suffix, path});
    } else {
      problems.push_back(path.string() + ": is missing; " + checksums_path(prefix).string() +
                         " covers it");
    }
  }
  return files;
}

}  // namespace

VerifyResult verify_dataset_files(const std::filesystem::path& prefix, int64_t vocabulary_size,
                                  int num_threads, const OnProgress& on_progress) {
  VerifyResult result;
  const auto stored = stored_checksums(prefix, result);
  const std::vector<DatasetFile> files = files_to_read(
      prefix, stored.value_or(std::vector<FileChecksums>{}), result.checksum_problems);
  const DatasetFile &bin = files[0], &idx = files[1];
  const MappedFile idx_bytes(idx.path);
  const size_t num_problems_before = result.structure_problems.size();
  const std::optional<IndexView> index =
      check_index(idx_bytes, idx.path, bin, result.structure_problems);
  const bool fits_itself = index && result.structure_problems.size() == num_problems_before;
  result.index_is_sound = fits_itself;

  std::optional<TokenIdCheck> ids;
  if (index) ids.emplace(index->type, vocabulary_size);
  int64_t num_bytes = 0;
  for (const DatasetFile& file : files) num_bytes += InputFile(file.path).size_bytes();
  const auto found = compute_block_checksums(
      files, num_threads,
      [&](size_t file_idx, int64_t offset_bytes, std::span<const std::byte> bytes) {
        if (file_idx == 0 && ids) ids->see(offset_bytes, bytes);
        if (on_progress) on_progress("verified", std::ssize(bytes), num_bytes);
      });
  if (ids) {
    ProblemList bad_ids(bin.path);
    ids->move_to(bad_ids);
    bad_ids.move_to(result.structure_problems);
  }
  if (!stored) return result;
  const DatasetPlaces places(fits_itself ? &*index : nullptr, prefix.string() + ".sources");
  for (const FileChecksums& expected : *stored) {
    for (size_t i = 0; i < files.size(); ++i) {
      if (files[i].suffix != expected.suffix) continue;
      compare_blocks(files[i].path, expected, found[i], places, result.checksum_problems);
      if (expected.suffix == ".idx") result.index_is_sound = expected == found[i];
    }
  }
  return result;
}

void check_file_sizes(const std::filesystem::path& prefix) {
  const auto fail = [&prefix](const std::string& why) {
    throw ChecksumMismatch(
        "the finished dataset " + prefix.string() + " is damaged: " + why +
        "; weft-data verify says more, and weft-data repair or --overwrite makes "
        "it whole again");
  };
  const auto stored = read_block_checksums(checksums_path(prefix));
  if (!stored) fail(checksums_path(prefix).string() + " is missing");
  for (const FileChecksums& file : *stored) {
    const std::filesystem::path path = prefix.string() + file.suffix;
    if (!std::filesystem::exists(path)) fail(path.string() + " is missing");
    const int64_t size_bytes = InputFile(path).size_bytes();
    if (size_bytes == file.size_bytes) continue;
    fail(path.string() + " has " + std::to_string(size_bytes) + " bytes instead of " +
         std::to_string(file.size_bytes));
  }
}

std::vector<std::string> VerifyResult::problems() const {
  std::vector<std::string> all = structure_problems;
  all.insert(all.end(), checksum_problems.begin(), checksum_problems.end());
  return all;
}

}  // namespace weft
