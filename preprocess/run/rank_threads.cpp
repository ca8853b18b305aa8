// The threads of RankWorker that its coordinator commands.
#include "preprocess/run/rank_worker.h"

namespace weft {

void RankWorker::start_threads() {
  // Two for each worker: one in work and one waiting; one more for each reader.
  const int num_segments = 2 * settings_.num_workers + num_readers_;
  for (int i = 0; i < num_segments; ++i) free_.push(std::make_unique<Segment>());
  for (int i = 0; i < num_readers_; ++i) threads_.emplace_back([this] { read_tasks(); });
  for (int i = 0; i < settings_.num_workers; ++i) threads_.emplace_back([this] { work(); });
  threads_.emplace_back([this] { sync_files(); });
}

void RankWorker::end_threads() {
  is_cancelled_ = true;
  gate_.close();
  windows_.close();
  free_.close();
  given_.close();
  to_sync_.close();
  work_.close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void RankWorker::work() {
  ChunkTokenizer tokenizer(vocabulary_, settings_.rules);
  while (auto job = work_.pop()) (*job)(tokenizer);
}

void RankWorker::sync_files() {
  while (auto durable = to_sync_.pop()) {
    try {
      files_.sync();
      events_.push(Synced{std::move(*durable)});
    } catch (...) {
      events_.push(WriteFailed{std::current_exception(), /*is_sync=*/true});
    }
  }
}

void RankWorker::read_tasks() {
  while (auto given = given_.pop()) read_task(*given);
}

void RankWorker::read_task(const Given& given) {
  SegmentPtr segment;
  int64_t idx = 0;
  // The next segment, with nothing in it; false if the rank ends.
  const auto take_segment = [&] {
    auto taken = free_.pop();
    if (!taken) return false;
    segment = std::move(*taken);
    segment->task = given.task.number;
    segment->idx = idx++;
    segment->error = nullptr;
    segment->ends_task = false;
    segment->chunk.size_bytes = 0;
    segment->chunk.is_too_long_line = false;
    return true;
  };
  if (!take_segment()) return;
  try {
    TaskReader reader(plan_, given.task, given.next_offset_bytes, settings_.read_limits, gate_,
                      windows_, is_cancelled_);
    // A plain file is read from where it goes on, a compressed one from its begin again.
    int64_t file_bytes_before =
        plan_.layouts[static_cast<size_t>(given.task.input_idx)].cut_anywhere
            ? 0
            : given.num_file_bytes;
    for (;;) {
      const bool has_text = !*given.is_unwanted && reader.next(segment->chunk);
      segment->next_offset_bytes = reader.next_offset_bytes();
      segment->num_file_bytes = reader.num_file_bytes() - file_bytes_before;
      file_bytes_before = reader.num_file_bytes();
      if (!has_text) break;
      work_.push([this, passed = std::make_shared<SegmentPtr>(std::move(segment))](
                     ChunkTokenizer& tokenizer) {
        SegmentPtr text = std::move(*passed);
        try {
          tokenizer.tokenize(text->chunk, text->result);
          if (text->chunk.long_line_permit) text->chunk.buffer = std::vector<char>();
        } catch (...) {
          text->error = std::current_exception();
        }
        events_.push(std::move(text));
      });
      if (!take_segment()) return;
    }
    segment->ends_task = true;
    segment->num_range_bytes = reader.num_range_bytes();
    events_.push(std::move(segment));
  } catch (const ReadCancelled&) {
  } catch (...) {
    if (!segment && !take_segment()) return;
    segment->error = std::current_exception();
    segment->chunk.size_bytes = 0;
    events_.push(std::move(segment));
  }
}

}  // namespace weft
