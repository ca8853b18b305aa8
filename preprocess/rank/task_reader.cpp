#include "preprocess/rank/task_reader.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/documents/row_reader.h"
#include "preprocess/stream/owned_lines.h"

namespace weft {
namespace {

// The rest of a range that was read before: no bytes.
class NoBytes final : public ByteSource {
 public:
  size_t read(char*, size_t) override { return 0; }
  int64_t num_bytes_taken() const override { return 0; }
};

// The first bytes of a source.
class FirstBytes final : public ByteSource {
 public:
  FirstBytes(ByteSource& source, int64_t num_bytes) : source_(source), num_left_(num_bytes) {}
  size_t read(char* data, size_t size_bytes) override {
    const auto wanted = std::min(num_left_, static_cast<int64_t>(size_bytes));
    const size_t got = wanted > 0 ? source_.read(data, static_cast<size_t>(wanted)) : 0;
    num_left_ -= static_cast<int64_t>(got);
    return got;
  }
  int64_t num_bytes_taken() const override { return source_.num_bytes_taken(); }

 private:
  ByteSource& source_;
  int64_t num_left_;
};

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

class LineTask final : public TaskReader {
 public:
  LineTask(const Input& input, const Task& task, int64_t next_offset_bytes,
           const RankOptions& options, const DecodeOptions& decode_options,
           const std::atomic<bool>& cancelled);

  bool next(Chunk& chunk) override { return chunker_->next(chunk.lines); }
  int64_t next_offset_bytes() const override { return chunker_->offset_bytes(); }
  int64_t num_file_bytes() const override { return lines_->num_bytes_taken(); }
  int64_t num_range_bytes() const override { return skipped_bytes_ + lines_->num_range_bytes(); }

 private:
  int64_t skipped_bytes_ = 0;  // of a plain file's range, not read again
  std::optional<OwnedLines> lines_;
  std::unique_ptr<ByteSource> first_bytes_;  // of lines_, in a task with a limit
  std::optional<LineChunker> chunker_;
};

LineTask::LineTask(const Input& input, const Task& task, int64_t next_offset_bytes,
                   const RankOptions& options, const DecodeOptions& decode_options,
                   const std::atomic<bool>& cancelled) {
  const InputLayout& layout = input.layout();
  OwnedLines::OpenRest open_rest;
  if (task.end >= 0 && task.end < layout.file_bytes) {
    open_rest = [&input, end = task.end, decode_options, &cancelled] {
      return input.open(end, -1, cancelled, decode_options);
    };
  }
  std::unique_ptr<ByteSource> range;
  bool owns_first_line = task.begin == 0;
  const int64_t length = task.end - task.begin;
  if (layout.cut_anywhere && next_offset_bytes > 0) {
    // A line that starts at the range's very end still belongs to it, one behind it does not.
    skipped_bytes_ = std::min(next_offset_bytes, length);
    owns_first_line = true;
    if (next_offset_bytes > length) {
      range = std::make_unique<NoBytes>();
      open_rest = {};
    }
  }
  if (!range) range = input.open(task.begin + skipped_bytes_, task.end, cancelled, decode_options);
  lines_.emplace(std::move(range), std::move(open_rest), owns_first_line);
  if (skipped_bytes_ == 0 && next_offset_bytes > 0) {
    pass_over(*lines_, next_offset_bytes - lines_->first_offset_bytes());
  }
  const int64_t offset_bytes =
      next_offset_bytes > 0 ? next_offset_bytes : lines_->first_offset_bytes();
  if (task.limit_bytes >= 0) {
    first_bytes_ = std::make_unique<FirstBytes>(
        *lines_, std::max<int64_t>(task.limit_bytes - offset_bytes, 0));
  }
  chunker_.emplace(first_bytes_ ? *first_bytes_ : *lines_, options.chunk_bytes,
                   options.rules.max_line_bytes, offset_bytes, options.rules.split_at());
  if (options.rules.split_texts_at) chunker_->pass_byte_order_mark();
}

class RowTask final : public TaskReader {
 public:
  RowTask(const Input& input, const Task& task, int64_t next_row, const RankOptions& options,
          const DecodeOptions& decode_options, const std::atomic<bool>& cancelled)
      : input_(input),
        rows_(input.open_rows(task.begin, task.end, next_row, rows_wanted(options), cancelled)),
        limit_(task.limit_bytes),
        max_text_bytes_(decode_options.max_output_bytes),
        cancelled_(cancelled),
        next_row_(next_row) {}

  bool next(Chunk& chunk) override;
  int64_t next_offset_bytes() const override { return next_row_; }
  int64_t num_file_bytes() const override { return rows_->num_bytes_passed(); }
  int64_t num_range_bytes() const override { return next_row_; }

 private:
  const Input& input_;
  std::unique_ptr<RowSource> rows_;
  const int64_t limit_;  // < 0: none
  const int64_t max_text_bytes_;
  const std::atomic<bool>& cancelled_;
  int64_t next_row_;
  int64_t num_text_bytes_ = 0;
};

bool RowTask::next(Chunk& chunk) {
  RowChunk& rows = chunk.rows;
  if (cancelled_.load(std::memory_order_relaxed)) throw ReadCancelled{};
  if (next_row_ == limit_ || !rows_->next(rows)) {
    rows.clear();
    return false;
  }
  if (limit_ >= 0) rows.cut(std::min(rows.num_rows(), limit_ - next_row_));
  next_row_ += rows.num_rows();
  num_text_bytes_ += std::ssize(rows.bytes);
  if (num_text_bytes_ <= max_text_bytes_) return true;
  throw LimitExceeded(input_.name() + ": gives more than the " + std::to_string(max_text_bytes_) +
                      " bytes allowed per input; if it is no decompression bomb, raise "
                      "--max-output");
}

}  // namespace

RowRequest rows_wanted(const RankOptions& options) {
  const TokenizeRules& rules = options.rules;
  return row_request(rules.json_keys, rules.origin_key, rules.where, rules.max_line_bytes,
                     options.chunk_bytes, options.max_decoder_bytes);
}

std::unique_ptr<TaskReader> open_task(const Input& input, const Task& task,
                                      int64_t next_offset_bytes, const RankOptions& options,
                                      const DecodeOptions& decode_options,
                                      const std::atomic<bool>& cancelled) {
  if (input.layout().has_rows) {
    return std::make_unique<RowTask>(input, task, next_offset_bytes, options, decode_options,
                                     cancelled);
  }
  return std::make_unique<LineTask>(input, task, next_offset_bytes, options, decode_options,
                                    cancelled);
}

}  // namespace weft
