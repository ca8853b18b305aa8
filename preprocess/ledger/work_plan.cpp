#include "preprocess/ledger/work_plan.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "preprocess/compressed/decompress.h"
#include "preprocess/stream/byte_source.h"
#include "preprocess/web/open_input.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

// More tasks of one file would be more to keep in mind than to read: those of a file of over 32 TiB
// are larger.
constexpr int64_t kMaxTasksOfFile = 1 << 20;
// 9 PB: what file sizes sum up to stays far below an overflow.
constexpr int64_t kMaxInputBytes = int64_t{1} << 53;

// Bytes of a task that is a whole input.
constexpr int64_t kOneTask = std::numeric_limits<int64_t>::max();

constexpr char kFileVersion[] = "changed ";  // of a local file: when it was changed last

// True for a file that has bytes to read although its size is 0, as those of /proc and of some FUSE
// file systems: it is read as a pipe is.
bool has_hidden_bytes(const std::string& path) {
  return std::ifstream(path, std::ios::binary).peek() != std::ifstream::traits_type::eof();
}

InputIdentity identity_of(const std::string& path) {
  InputIdentity identity{path, "", -1};
  struct stat status {};
  if (path == "-") return identity;
  if (::stat(path.c_str(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot stat '" + path + "'");
  }
  if (!S_ISREG(status.st_mode) || (status.st_size == 0 && has_hidden_bytes(path))) return identity;
  identity.file_bytes = status.st_size;
  const auto text_of = [](const timespec& time) {
    return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
  };
  identity.version = kFileVersion + text_of(status.st_mtim);
  identity.status_changed = text_of(status.st_ctim);
  return identity;
}

// Asks the server for what it knows of the file, and for its first bytes.
InputLayout layout_of_url(bool allow_http, InputIdentity& identity) {
  UrlOptions options;
  options.fetch.http.allow_http = allow_http;
  const UrlStat stat = stat_url(identity.path, options, stop_flag());
  identity.at_url = stat.identity;
  identity.version = version_text(stat.identity);
  identity.file_bytes = stat.identity.size_bytes;
  InputLayout layout;
  layout.file_bytes = stat.identity.size_bytes;
  const auto decoder = decoder_for(stat.first_bytes);
  layout.format = decoder ? decoder->format() : "plain";
  // A run that goes on asks for the rest only, where the server can prove that it is one.
  layout.cut_anywhere = !decoder && layout.file_bytes >= 0 && !identity.version.empty();
  return layout;
}

void add_tasks(const InputLayout& layout, int32_t input_idx, int64_t task_bytes,
               std::vector<Task>& tasks) {
  const auto add = [&](int64_t begin, int64_t end) {
    tasks.push_back({std::ssize(tasks), input_idx, begin, end});
  };
  if (layout.cut_anywhere) {
    int64_t begin = 0;
    task_bytes = std::max(task_bytes, layout.file_bytes / kMaxTasksOfFile);
    for (; layout.file_bytes - begin > task_bytes; begin += task_bytes)
      add(begin, begin + task_bytes);
    add(begin, layout.file_bytes);
    return;
  }
  // An input that does not say its size is one task.
  int64_t begin = 0;
  for (const int64_t part_begin : layout.part_begins) {
    if (part_begin - begin < task_bytes) continue;
    add(begin, part_begin);
    begin = part_begin;
  }
  add(begin, layout.file_bytes);
}

}  // namespace

int64_t num_file_bytes(const WorkPlan& plan) {
  int64_t sum = 0;
  for (const Task& task : plan.tasks) {
    if (task.end < 0) return -1;
    sum += task.end - task.begin;
  }
  return sum;
}

bool WorkPlan::can_resume() const {
  return std::none_of(identities.begin(), identities.end(),
                      [](const InputIdentity& identity) { return identity.version.empty(); });
}

std::vector<bool> WorkPlan::compressed_inputs() const {
  std::vector<bool> are_compressed;
  for (const InputLayout& layout : layouts) {
    are_compressed.push_back(layout.format != "plain" && layout.format != "stream");
  }
  return are_compressed;
}

WorkPlan plan_work(const std::vector<std::string>& inputs, int64_t task_bytes, bool allow_http) {
  WorkPlan plan;
  int64_t num_bytes = 0;
  for (const std::string& path : inputs) {
    const bool is_url = looks_like_url(path);
    plan.identities.push_back(is_url ? InputIdentity{path, "", -1} : identity_of(path));
    // A pipe must not be looked into: what was read would be gone.
    InputLayout layout;
    layout.format = "stream";
    layout.file_bytes = -1;
    int64_t bytes_of_task = task_bytes;
    if (is_url) {
      bytes_of_task = kOneTask;
      layout = layout_of_url(allow_http, plan.identities.back());
    } else if (plan.identities.back().file_bytes >= 0) {
      layout = input_layout(path);
    }
    num_bytes += std::clamp<int64_t>(layout.file_bytes, 0, kMaxInputBytes);
    if (num_bytes >= kMaxInputBytes) {
      throw std::runtime_error(display_name(path) +
                               ": with it the inputs have over 2^53 bytes; is " +
                               "it a file with holes?");
    }
    add_tasks(layout, static_cast<int32_t>(plan.layouts.size()), bytes_of_task, plan.tasks);
    plan.layouts.push_back(std::move(layout));
  }
  return plan;
}

std::optional<std::string> find_changed_input(const WorkPlan& plan) {
  for (const InputIdentity& identity : plan.identities) {
    if (!identity.version.starts_with(kFileVersion)) continue;
    const InputIdentity now = identity_of(identity.path);
    if (now.version != identity.version || now.file_bytes != identity.file_bytes ||
        now.status_changed != identity.status_changed) {
      return identity.path;
    }
  }
  return std::nullopt;
}

WorkPlan shard_of(WorkPlan plan, int64_t index, int64_t count) {
  const auto weight = [](const Task& task) { return std::max<int64_t>(task.end - task.begin, 1); };
  int64_t total = 0;
  for (const Task& task : plan.tasks) total += weight(task);
  // A task belongs to the part in which its middle lies.
  std::vector<Task> mine;
  int64_t before = 0;
  for (Task& task : plan.tasks) {
    const auto middle = static_cast<double>(before) + 0.5 * static_cast<double>(weight(task));
    const auto part =
        static_cast<int64_t>(middle / static_cast<double>(total) * static_cast<double>(count));
    before += weight(task);
    if (std::min(part, count - 1) != index) continue;
    task.number = std::ssize(mine);
    mine.push_back(task);
  }
  plan.tasks = std::move(mine);
  return plan;
}

}  // namespace weft
