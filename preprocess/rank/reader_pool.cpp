#include "preprocess/rank/reader_pool.h"

#include <algorithm>
#include <string>
#include <utility>

namespace weft {
namespace {

// Number of tokenizer threads that one reader of such a format keeps busy.
double num_workers_fed(const std::string& format) {
  if (format == "xz") return 0.5;
  if (format == "bzip2") return 0.25;
  if (format == "gzip") return 2;
  if (format == "zstd" || format == "parquet") return 4;
  return 12;
}

int num_readers_for(const WorkPlan& plan, int num_workers) {
  double count = 1;
  for (const auto& input : plan.inputs) {
    count = std::max(count, num_workers / num_workers_fed(input->layout().format));
  }
  return static_cast<int>(std::min<double>(count + 0.999, num_workers));
}

// Where there are fewer xz files than workers, several threads decode each.
DecodeOptions decode_options_for(const WorkPlan& plan, const RankOptions& options) {
  const auto num_xz = std::count_if(plan.inputs.begin(), plan.inputs.end(), [](const auto& input) {
    return input->layout().format == "xz";
  });
  const auto num_threads = options.num_workers / std::max<int64_t>(num_xz, 1);
  return {.max_output_bytes = options.max_output_bytes,
          .read_ahead = true,
          .decoder = {.max_bytes = options.max_decoder_bytes,
                      .num_threads = std::max(static_cast<int>(num_threads), 1)}};
}

}  // namespace

ReaderPool::ReaderPool(const WorkPlan& plan, const RankOptions& options,
                       std::function<void(ChunkPtr)> use)
    : plan_(plan),
      options_(options),
      decode_options_(decode_options_for(plan, options)),
      num_readers_(num_readers_for(plan, options.num_workers)),
      use_(std::move(use)) {}

void ReaderPool::start() {
  // Two for each worker: one in work and one waiting; one more for each reader.
  for (int i = 0; i < 2 * options_.num_workers + num_readers_; ++i)
    free_.push(std::make_shared<Chunk>());
  for (int i = 0; i < num_readers_; ++i) {
    threads_.start([this] {
      while (const auto task = tasks_.pop()) read_task(*task);
    });
  }
}

void ReaderPool::end() {
  is_cancelled_ = true;
  free_.close();
  tasks_.close();
  threads_.join();
}

void ReaderPool::read(const LedgerReply::Assigned& assigned) {
  ++num_reading_;
  tasks_.push({assigned.task, assigned.progress.next_offset_bytes,
               assigned.progress.counts.totals.num_file_bytes});
}

void ReaderPool::recycle(ChunkPtr chunk) {
  // Memory that one huge line took goes back: all chunks would grow to the longest line in time.
  LineChunk& lines = chunk->lines;
  if (lines.buffer.capacity() > 2 * options_.chunk_bytes) lines.buffer = std::vector<char>();
  if (chunk->rows.bytes.capacity() > 2 * options_.chunk_bytes) chunk->rows = {};
  free_.push(std::move(chunk));
}

void ReaderPool::read_task(const TaskToRead& assigned) {
  ChunkPtr chunk;
  int64_t idx = 0;
  // The next chunk, with nothing in it; false if the rank ends.
  const auto take_chunk = [&] {
    auto taken = free_.pop();
    if (!taken) return false;
    chunk = std::move(*taken);
    chunk->task = assigned.task.number;
    chunk->input_idx = assigned.task.input_idx;
    chunk->idx = idx++;
    chunk->error = nullptr;
    chunk->ends_task = false;
    chunk->clear_text();
    return true;
  };
  if (!take_chunk()) return;
  try {
    const Input& input = plan_.input_of(assigned.task);
    const auto reader = open_task(input, assigned.task, assigned.next_offset_bytes, options_,
                                  decode_options_, is_cancelled_);
    // A plain file is read from where it goes on, a compressed one from its begin again.
    const bool goes_on = input.layout().cut_anywhere;
    int64_t file_bytes_before = goes_on ? 0 : assigned.num_file_bytes;
    for (bool has_text = true; has_text;) {
      has_text = reader->next(*chunk);
      chunk->next_offset_bytes = reader->next_offset_bytes();
      chunk->num_file_bytes = reader->num_file_bytes() - file_bytes_before;
      file_bytes_before = reader->num_file_bytes();
      chunk->ends_task = !has_text;
      if (!has_text) chunk->num_range_bytes = reader->num_range_bytes();
      use_(std::exchange(chunk, {}));
      if (has_text && !take_chunk()) return;
    }
  } catch (const ReadCancelled&) {
  } catch (...) {
    if (!chunk && !take_chunk()) return;
    chunk->error = std::current_exception();
    chunk->clear_text();
    use_(std::move(chunk));
  }
}

}  // namespace weft
