// Will the output fit? Asked before hours of work; and what to do when it did not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "indexed_dataset/format/pair/dtype.h"
#include "preprocess/inputs/work_plan.h"

namespace weft {

// About how many bytes the work needs in the output's folder, with what stands there only while it
// goes on. By experience, not by looking at the text:
//   text      the tasks' bytes of a file, x 3 for gzip, 4 for zstd and bzip2, 4.5 for xz; a pipe: 0
//   .bin      a token for each 3.5 bytes of text
//   the rest  40 bytes a document (.idx, .sources, bounds), 72 with origins, a document for each
//             4000 bytes of text
// (Several keys share the text.)
int64_t estimated_output_bytes(const WorkPlan& plan, TokenType type, bool has_origins = false);
// Likewise of each task, without .sources: what it takes in a spill file.
std::vector<int64_t> estimated_task_bytes(const WorkPlan& plan, TokenType type);

// 60 tasks of plain text: so many threads can be ahead of one that is slow, on any disk.
inline constexpr int64_t kLeastSpillLimitBytes = int64_t{1} << 30;
// Returns how much may lie in spill files at a time: half of what `need_bytes` leave free beside
// what is in `work_folder`, but at least kLeastSpillLimitBytes. No limit if the file system does
// not say.
int64_t spill_limit_bytes(const std::filesystem::path& work_folder, int64_t need_bytes);
// Returns the most that can come to lie there: all tasks but the first, or the limit.
int64_t most_spilled_bytes(const std::vector<int64_t>& task_bytes, int64_t limit_bytes);

// In a sentence, that the file system around `work_folder` has less room left than the work needs
// beside what lies in the folder already, `spilled_bytes` of it for a while. Nothing if it has
// enough, or does not say.
std::optional<std::string> lack_of_space(const std::filesystem::path& work_folder,
                                         int64_t need_bytes, int64_t spilled_bytes = 0);

// No room, or none within the quota: ENOSPC or EDQUOT.
bool is_lack_of_space(const std::error_code& code);

// An error for want of space with what it takes to go on: still a std::system_error of its code.
class OutOfSpace : public std::system_error {
 public:
  OutOfSpace(const std::error_code& code, std::string message)
      : std::system_error(code), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// Words to add to such an error's message: how much is free around `work_folder`, and that the same
// command goes on.
std::string how_to_go_on(const std::filesystem::path& work_folder, bool work_is_kept);

}  // namespace weft
