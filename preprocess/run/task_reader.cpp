#include "preprocess/run/task_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "preprocess/web/kept_source.h"
#include "preprocess/web/open_input.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

// Of one request for a task's bytes, four of which are under way, and for the rest of its last
// line.
constexpr int64_t kTaskRequestBytes = 4 << 20, kRestRequestBytes = 128 << 10;

// Nothing: the rest of a range that was read before.
class NoBytes final : public ByteSource {
 public:
  explicit NoBytes(std::string format) : format_(std::move(format)) {}
  size_t read(char*, size_t) override { return 0; }
  int64_t num_bytes_taken() const override { return 0; }
  std::string format() const override { return format_; }

 private:
  std::string format_;
};

// Which bytes of a URL are wanted, and how far ahead they are fetched.
enum class UrlPart {
  kWhole,  // one task: a server may send it from its start again and again
  kTask,   // several at a time may be read by one process: half as much memory for each
  kRest,   // of one line, as a rule
};

// Must still be the file that was planned with. `kept` is the file for what is fetched of a whole
// one, or empty.
std::unique_ptr<ByteSource> open_planned_url(const InputIdentity& identity,
                                             const InputLayout& layout, ByteRange range,
                                             UrlPart part, const std::filesystem::path& kept,
                                             bool allow_http, const DecodeOptions& decode_options,
                                             const std::atomic<bool>& cancelled) {
  UrlOptions options;
  options.fetch.http.allow_http = allow_http;
  options.expected = parse_version_text(identity.version);
  const std::string name = display_name(identity.path);
  if (part == UrlPart::kWhole) {
    const OpenStreamAt open = [url = identity.path, options, &cancelled](int64_t offset) {
      return open_url_source(url, options, {offset, FetchPlan::kEndless}, cancelled);
    };
    // What begins in the middle is not looked at for a format.
    if (layout.format == "plain") return open(range.begin);
    if (kept.empty()) return decode(open(0), name, decode_options);
    const std::string stream = name + "\n" + identity.version;
    return decode(open_kept_source(kept, stream, open), name, decode_options);
  }
  options.fetch.part_bytes = part == UrlPart::kTask ? kTaskRequestBytes : kRestRequestBytes;
  if (part == UrlPart::kRest) options.fetch.num_connections = 1;
  return decode_range(open_url_source(identity.path, options, range, cancelled), name, layout,
                      range.begin, range.end, decode_options);
}

// Reads and drops.
void pass_over(ByteSource& source, int64_t num_bytes) {
  std::vector<char> block(static_cast<size_t>(std::clamp<int64_t>(num_bytes, 0, 1 << 20)));
  while (num_bytes > 0) {
    const size_t got = source.read(
        block.data(), static_cast<size_t>(std::min<int64_t>(num_bytes, std::ssize(block))));
    if (got == 0) return;
    num_bytes -= static_cast<int64_t>(got);
  }
}

// A pipe cannot; of a URL nobody would know whether it is the same.
bool can_be_read_again(const WorkPlan& plan, const Task& task) {
  const auto input_idx = static_cast<size_t>(task.input_idx);
  const InputIdentity& identity = plan.identities.at(input_idx);
  return looks_like_url(identity.path) ? !identity.version.empty()
                                       : plan.layouts.at(input_idx).file_bytes >= 0;
}

}  // namespace

bool is_fetched_whole(const WorkPlan& plan, const Task& task) {
  const auto input_idx = static_cast<size_t>(task.input_idx);
  const InputLayout& layout = plan.layouts.at(input_idx);
  const InputIdentity& identity = plan.identities.at(input_idx);
  return looks_like_url(identity.path) && layout.format != "plain" && !identity.version.empty() &&
         task.begin == 0 && task.end == layout.file_bytes;
}

TaskReader::TaskReader(const WorkPlan& plan, const Task& task, int64_t next_offset_bytes,
                       const ReadLimits& limits, LongLineGate& gate, WindowBudget& windows,
                       const std::atomic<bool>& cancelled)
    : plan_(plan),
      task_(task),
      limits_(limits),
      gate_(gate),
      cancelled_(cancelled),
      window_(windows) {
  std::optional<int64_t> window_bytes;
  if (!can_be_read_again(plan, task)) window_bytes = windows.max_bytes();
  open_with_window(next_offset_bytes, window_bytes);
}

bool TaskReader::next(LineChunk& chunk) {
  for (;;) {
    std::optional<int64_t> window_bytes;
    try {
      return chunker_->next(chunk);
    } catch (const NeedsLargerWindow& needed) {
      window_bytes = needed.size_bytes;
    }
    const int64_t next_offset_bytes = chunker_->offset_bytes();
    num_file_bytes_ = num_file_bytes();
    chunk.drop_grown();
    open_with_window(next_offset_bytes, window_bytes);
  }
}

// With nothing: a window that needs no claim.
void TaskReader::open_with_window(int64_t next_offset_bytes, std::optional<int64_t> window_bytes) {
  for (;;) {
    chunker_.reset();
    lines_.reset();
    if (window_bytes) window_.renew(*window_bytes);
    try {
      open(next_offset_bytes);
      return;
    } catch (const NeedsLargerWindow& needed) {
      window_bytes = needed.size_bytes;
    }
  }
}

void TaskReader::open(int64_t next_offset_bytes) {
  const auto input_idx = static_cast<size_t>(task_.input_idx);
  const InputLayout& layout = plan_.layouts.at(input_idx);
  const DecodeOptions options{
      .max_output_bytes = limits_.max_output_bytes, .read_ahead = true, .window = window_.limits()};
  const InputIdentity& identity = plan_.identities.at(input_idx);
  const bool is_whole = task_.begin == 0 && task_.end == layout.file_bytes;
  const std::filesystem::path kept = !limits_.kept_folder.empty() && is_fetched_whole(plan_, task_)
                                         ? kept_path(limits_.kept_folder, task_.number)
                                         : "";
  const auto open_range = [&identity, &layout, &cancelled = cancelled_,
                           allow_http = limits_.allow_http, options,
                           kept](ByteRange range, UrlPart part) {
    if (looks_like_url(identity.path)) {
      return open_planned_url(identity, layout, range, part, kept, allow_http, options, cancelled);
    }
    return open_input_range(identity.path, layout, range.begin, range.end, cancelled, options);
  };
  OwnedLines::OpenRest open_rest;
  if (task_.end >= 0 && task_.end < layout.file_bytes) {
    open_rest = [open_range, &layout, end = task_.end] {
      return open_range({end, layout.file_bytes}, UrlPart::kRest);
    };
  }
  std::unique_ptr<ByteSource> range;
  bool owns_first_line = task_.begin == 0;
  const int64_t length = task_.end - task_.begin;
  if (layout.cut_anywhere && next_offset_bytes > 0) {
    // A line that starts at the range's very end still belongs to it, one behind it does not.
    skipped_bytes_ = std::min(next_offset_bytes, length);
    owns_first_line = true;
    if (next_offset_bytes > length) {
      range = std::make_unique<NoBytes>(layout.format);
      open_rest = {};
    }
  }
  if (!range) {
    range = open_range({task_.begin + skipped_bytes_, task_.end},
                       is_whole ? UrlPart::kWhole : UrlPart::kTask);
  }
  lines_ = std::make_unique<OwnedLines>(std::move(range), std::move(open_rest), owns_first_line);
  if (skipped_bytes_ == 0 && next_offset_bytes > 0) {
    pass_over(*lines_, next_offset_bytes - lines_->first_offset_bytes());
  }
  chunker_ = std::make_unique<LineChunker>(
      *lines_, limits_.chunk_bytes, limits_.max_line_bytes, &gate_,
      next_offset_bytes > 0 ? next_offset_bytes : lines_->first_offset_bytes());
}

}  // namespace weft
