#include "preprocess/run/disk_space_check.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "indexed_dataset/base/storage/free_space.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/rank/spill_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr double kTextBytesPerToken = 3.5;
constexpr double kTextBytesPerDocument = 4000;
constexpr double kIndexBytesPerDocument = 28;

double expansion_of(const std::string& format) {
  if (format == "gzip") return 3;
  if (format == "parquet") return 2.5;  // of other columns than the text's as well
  if (format == "zstd" || format == "bzip2") return 4;
  if (format == "xz") return 4.5;
  return 1;
}

// True if the file system has fewer inodes left than a run makes files; some of a run that failed
// are removed before this is asked. File systems without such a limit (Btrfs) report 0 inodes in
// all.
bool lacks_inodes(const fs::path& folder) {
  constexpr fsfilcnt_t kFilesOfRun = 16;
  struct statvfs status {};
  return ::statvfs(folder.c_str(), &status) == 0 && status.f_files > 0 &&
         status.f_favail < kFilesOfRun;
}

// Counts the bytes that the output has so far. Spilled documents need their room in the output as
// well, so they do not count, and neither do the holes where other tasks are yet to be written.
int64_t bytes_in(const fs::path& folder) {
  int64_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    struct stat status {};
    const std::string name = at->path().filename().string();
    if (is_spill_name(name)) continue;
    if (::stat(at->path().c_str(), &status) != 0) continue;
    sum += std::min<int64_t>(status.st_size, int64_t{512} * status.st_blocks);
  }
  return sum;
}

double text_bytes_of(const WorkPlan& plan, const Task& task) {
  const InputLayout& layout = plan.input_of(task).layout();
  return expansion_of(layout.format) *
         static_cast<double>(std::max<int64_t>(task.end - task.begin, 0));
}

double pair_bytes_of(double text_bytes, TokenType type) {
  return text_bytes / kTextBytesPerToken * static_cast<double>(size_bytes(type)) +
         text_bytes / kTextBytesPerDocument * kIndexBytesPerDocument;
}

int64_t rounded(double bytes) { return static_cast<int64_t>(std::min(bytes, 9e18)); }

}  // namespace

int64_t estimated_output_bytes(const WorkPlan& plan, TokenType type, bool has_origins) {
  double text_bytes = 0;
  for (const Task& task : plan.tasks) text_bytes += text_bytes_of(plan, task);
  return rounded(pair_bytes_of(text_bytes, type) +
                 text_bytes / kTextBytesPerDocument *
                     static_cast<double>(source_entry_bytes(has_origins)));
}

std::vector<int64_t> estimated_task_bytes(const WorkPlan& plan, TokenType type) {
  std::vector<int64_t> bytes;
  for (const Task& task : plan.tasks) {
    bytes.push_back(rounded(pair_bytes_of(text_bytes_of(plan, task), type)));
  }
  return bytes;
}

int64_t spill_limit_bytes(const fs::path& work_folder, int64_t need_bytes) {
  const auto free = free_bytes(folder_of(work_folder));
  if (!free) return INT64_MAX;
  const int64_t missing_bytes = std::max<int64_t>(need_bytes - bytes_in(work_folder), 0);
  return std::max(kLeastSpillLimitBytes, (*free - missing_bytes) / 2);
}

int64_t most_spilled_bytes(const std::vector<int64_t>& task_bytes, int64_t limit_bytes) {
  double sum = 0;
  for (size_t i = 1; i < task_bytes.size(); ++i) sum += static_cast<double>(task_bytes[i]);
  return std::min(rounded(sum), limit_bytes);
}

std::optional<std::string> lack_of_space(const fs::path& work_folder, int64_t need_bytes,
                                         int64_t spilled_bytes) {
  const fs::path folder = folder_of(work_folder);
  const auto free = free_bytes(folder);
  const int64_t missing_bytes = need_bytes - bytes_in(work_folder);
  if (!free || missing_bytes <= *free - spilled_bytes) return std::nullopt;
  std::string for_a_while;
  if (spilled_bytes > 0) {
    for_a_while = fmt::format(
        ", and up to {} for a while (for what is read before its offset is known)", spilled_bytes);
  }
  return fmt::format(
      "warning: the output needs about {} bytes more (estimated from the size of the inputs){}, "
      "the file system of '{}' has {} free; a run that does not fit ends with exit code 5, and the "
      "same command goes on when there is room",
      missing_bytes, for_a_while, folder.string(), *free);
}

bool is_lack_of_space(const std::error_code& code) {
  return code.value() == ENOSPC || code.value() == EDQUOT;
}

std::string how_to_go_on(const fs::path& work_folder, bool work_is_kept) {
  const fs::path folder = folder_of(work_folder);
  const auto free = free_bytes(folder);
  const bool needs_inodes = lacks_inodes(folder);
  return fmt::format(
      "; the file system of '{}' has {}{} bytes free. {}, then run the same command again{}",
      folder.string(), needs_inodes ? "no room for more files (its inodes are used up), and " : "",
      free ? std::to_string(*free) : "an unknown number of",
      needs_inodes ? "Delete files" : "Make space",
      work_is_kept ? ": it goes on with the work so far" : ", from the start: the input is a pipe");
}

}  // namespace weft
