#include "preprocess/rank/task_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "preprocess/web/open_input.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

// The rest of a range that was read before: no bytes.
class NoBytes final : public ByteSource {
 public:
  size_t read(char*, size_t) override { return 0; }
  int64_t num_bytes_taken() const override { return 0; }
};

// The URL must still be the file that was planned with. What begins in the middle is plain.
std::unique_ptr<ByteSource> open_planned_url(const InputIdentity& identity, int64_t begin,
                                             bool allow_http, const DecodeOptions& decode_options,
                                             const std::atomic<bool>& cancelled) {
  UrlOptions options;
  options.fetch.http.allow_http = allow_http;
  options.expected = identity.at_url;
  auto raw = open_url_source(identity.path, options, begin, cancelled);
  if (begin > 0) return raw;
  return decode(std::move(raw), display_name(identity.path), decode_options);
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

// A pipe cannot be read again; a URL without a version may be another file by then.
bool can_be_read_again(const WorkPlan& plan, const Task& task) {
  const auto input_idx = static_cast<size_t>(task.input_idx);
  const InputIdentity& identity = plan.identities.at(input_idx);
  return looks_like_url(identity.path) ? !identity.version.empty()
                                       : plan.layouts.at(input_idx).file_bytes >= 0;
}

}  // namespace

TaskReader::TaskReader(const WorkPlan& plan, const Task& task, int64_t next_offset_bytes,
                       const RankOptions& options, LongLineGate& gate, WindowBudget& windows,
                       const std::atomic<bool>& cancelled)
    : plan_(plan),
      task_(task),
      options_(options),
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
  const DecodeOptions decode_options{.max_output_bytes = options_.max_output_bytes,
                                     .read_ahead = true,
                                     .window = window_.limits()};
  const InputIdentity& identity = plan_.identities.at(input_idx);
  const auto open_range = [&identity, &layout, &cancelled = cancelled_,
                           allow_http = options_.allow_http,
                           decode_options](int64_t begin, int64_t end) {
    if (looks_like_url(identity.path)) {
      return open_planned_url(identity, begin, allow_http, decode_options, cancelled);
    }
    return open_input_range(identity.path, layout, begin, end, cancelled, decode_options);
  };
  OwnedLines::OpenRest open_rest;
  if (task_.end >= 0 && task_.end < layout.file_bytes) {
    open_rest = [open_range, &layout, end = task_.end] {
      return open_range(end, layout.file_bytes);
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
      range = std::make_unique<NoBytes>();
      open_rest = {};
    }
  }
  if (!range) {
    range = open_range(task_.begin + skipped_bytes_, task_.end);
  }
  lines_ = std::make_unique<OwnedLines>(std::move(range), std::move(open_rest), owns_first_line);
  if (skipped_bytes_ == 0 && next_offset_bytes > 0) {
    pass_over(*lines_, next_offset_bytes - lines_->first_offset_bytes());
  }
  chunker_ = std::make_unique<LineChunker>(
      *lines_, options_.chunk_bytes, options_.rules.max_line_bytes, &gate_,
      next_offset_bytes > 0 ? next_offset_bytes : lines_->first_offset_bytes());
}

}  // namespace weft
