// The work of a run: the inputs cut into tasks, in output order. It depends on the inputs only, so
// that every rank, and every later run, cuts alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/compressed/input_layout.h"
#include "preprocess/ledger/ledger_link.h"
#include "preprocess/web/url.h"

namespace weft {

// 32 MiB: what is held in memory until its place is known is about half of it for each task that is
// being read; a message to the ledger for so much costs nothing.
inline constexpr int64_t kTaskBytes = int64_t{32} << 20;

// Tells whether an input is still the same: by its size and time of change, or a server's ETag.
struct InputIdentity {
  std::string path;
  std::string version;      // empty: cannot be told (a pipe), so a stopped run starts anew
  int64_t file_bytes = -1;  // -1: unknown
  // The time when a local file's content, name or rights changed last. Other computers may have
  // copies of the file, so this only tells whether a run on this one can go on.
  std::string status_changed{};
  UrlIdentity at_url{};  // of a URL: what its server said of the file
};

struct WorkPlan {
  std::vector<InputIdentity> identities;  // one per input
  std::vector<InputLayout> layouts;       // likewise
  std::vector<Task> tasks;

  std::vector<bool> compressed_inputs() const;  // for each: whether it is
  bool can_resume() const;                      // every input can be told from a changed one
};

// Looks at every input. `task_bytes` of the file (compressed where compressed) make a task, or more
// where the file cannot be cut so finely; a URL is one task. Throws std::system_error or
// NetworkError if one cannot be read, ReadCancelled.
WorkPlan plan_work(const std::vector<std::string>& inputs, int64_t task_bytes,
                   bool allow_http = false);

// The first input that is no longer what the plan was made for; nothing if all are.
std::optional<std::string> find_changed_input(const WorkPlan& plan);

// The bytes of files that all tasks read; -1 if it is not known where one of them ends.
int64_t num_file_bytes(const WorkPlan& plan);

// The share of the plan for part `index` of `count`: a run of consecutive tasks with about the same
// number of file bytes as every other part, numbered from 0. Parts in order make the whole.
WorkPlan shard_of(WorkPlan plan, int64_t index, int64_t count);

}  // namespace weft
