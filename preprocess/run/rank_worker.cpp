#include "preprocess/run/rank_worker.h"

#include <algorithm>
#include <system_error>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/storage/file_io.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How late a request to stop, or news of other ranks, may be noticed while nothing else happens.
constexpr milliseconds kRound{50};
constexpr milliseconds kExchangeInterval{100};

constexpr char kBadLineHint[] =
    "\n  nothing was written; repair the line, or use --on-bad-line skip to leave bad lines out";

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return caught.what();
  }
}

RunFailure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return {static_cast<int>(exit_code_for(caught)), caught.what(), {}};
  }
}

// Of one thread that decompresses, against one that tokenizes: how many the latter feed on.
double workers_fed_by_a_reader(const std::string& format) {
  if (format == "xz") return 0.5;
  if (format == "bzip2") return 0.25;
  if (format == "gzip") return 2;
  if (format == "zstd") return 4;
  return 12;
}

int num_readers_for(const WorkPlan& plan, int num_workers) {
  double count = 1;
  for (const InputLayout& layout : plan.layouts) {
    count = std::max(count, num_workers / workers_fed_by_a_reader(layout.format));
  }
  return static_cast<int>(std::min<double>(count + 0.999, num_workers));
}

}  // namespace

RankWorker::RankWorker(const RankSettings& settings, const WorkPlan& plan,
                       std::shared_ptr<const Vocabulary> vocabulary, RunFiles& files,
                       LedgerLink& ledger)
    : settings_(settings),
      plan_(plan),
      vocabulary_(std::move(vocabulary)),
      files_(files),
      ledger_(ledger),
      num_readers_(num_readers_for(plan, settings.num_workers)),
      gate_(settings.long_line_bytes, 2 + settings.num_workers / 2),
      windows_(settings.windows, settings.on_first_window_wait) {}

RankWorker::~RankWorker() { end_threads(); }

void RankWorker::run(const std::function<bool()>& stop_requested,
                     const std::function<void()>& on_round) {
  crash_point("rank_begins");
  start_threads();
  last_sync_ = Clock::now();
  while (!is_all_done_) {
    round(stop_requested);
    on_round();
  }
  end_threads();
}

void RankWorker::round(const std::function<bool()>& stop_requested) {
  if (has_news() || Clock::now() - last_exchange_ >= kExchangeInterval) exchange();
  if (is_all_done_) return;
  if (stop_requested()) {
    leave(static_cast<int>(ExitCode::kStoppedOnRequest), "stopped on request");
    throw RankStopped{};
  }
  if (auto event = events_.pop_for(kRound)) handle(*event);
  while (auto event = events_.pop_for(milliseconds(0))) handle(*event);
  stage_if_too_much_is_held();
  // At the end nothing else is to be waited for.
  const bool is_idle = reading_.empty() && num_underway_ == 0;
  const bool is_due = Clock::now() - last_sync_ >= settings_.sync_interval;
  if (!dirty_.empty() && !is_syncing_ && (is_due || is_idle)) start_sync();
}

void RankWorker::handle(Event& event) {
  if (auto* segment = std::get_if<SegmentPtr>(&event)) {
    on_segment(std::move(*segment));
  } else if (auto* written = std::get_if<PieceWritten>(&event)) {
    --num_underway_;
    OpenTask& task = open_.at(written->task);
    keep_for_reuse(written->piece->result);
    task.piece_written(*written->piece);
    crash_point("piece_written");
    dispatch(task);
  } else if (auto* unstaged = std::get_if<Unstaged>(&event)) {
    --num_underway_;
    OpenTask& task = open_.at(unstaged->task);
    task.unstaged();
    dispatch(task);
  } else if (auto* synced = std::get_if<Synced>(&event)) {
    on_synced(*synced);
  } else {
    const auto [error, is_sync] = std::get<WriteFailed>(event);
    has_sync_failed_ = has_sync_failed_ || is_sync;
    const RunFailure failure = failure_of(error);
    leave(failure.exit_code, failure.message);
    std::rethrow_exception(error);
  }
}

void RankWorker::on_segment(SegmentPtr segment) {
  OpenTask& task = open_.at(segment->task);
  if (segment->ends_task || (segment->error && segment->chunk.size_bytes == 0)) {
    reading_.erase(segment->task);
  }
  task.put(std::move(segment));
  while (SegmentPtr next = task.take_next()) {
    accept(task, *next);
    recycle(std::move(next));
  }
  dispatch(task);
}

void RankWorker::accept(OpenTask& task, Segment& segment) {
  if (task.has_failed()) return;
  if (segment.error) {
    own_errors_[message_of(segment.error)] = segment.error;
    fail_task(task, failure_of(segment.error));
    return;
  }
  if (segment.ends_task) {
    task.end(segment);
    request_.read_tasks.push_back({task.task().number, task.counts()});
    return;
  }
  if (settings_.rules.on_bad_line == OnBadLine::kStop && !segment.result.bad_lines.empty()) {
    RunFailure failure{static_cast<int>(ExitCode::kBadInput), kBadLineHint,
                       segment.result.bad_lines.front()};
    failure.bad_line->line_number += task.counts().totals.num_lines;
    fail_task(task, std::move(failure));
    return;
  }
  const OpenTask::Piece& piece = task.add_piece(segment);
  held_bytes_ += held_bytes(piece.result);
  // The next long line waits for this one's memory: it must not wait for its place.
  if (piece.long_line_permit && !task.has_base()) task.begin_staging();
  request_.newly_seen.add(piece.counts.totals);
}

void RankWorker::fail_task(OpenTask& task, RunFailure failure) {
  task.fail();
  const int64_t number = task.task().number;
  *is_unwanted_.at(number) = true;
  if (!request_.failed_task || number < request_.failed_task->task) {
    request_.failed_task = LedgerRequest::Failed{number, std::move(failure)};
  }
}

void RankWorker::dispatch(OpenTask& task) {
  const int64_t number = task.task().number;
  held_bytes_ -= task.has_base() || task.is_staging() ? task.num_held_bytes() : 0;
  for (OpenTask::PiecePtr& piece : task.take_writable()) {
    ++num_underway_;
    work_.push_urgent([this, number, piece, input_idx = task.task().input_idx](ChunkTokenizer&) {
      try {
        if (piece->staged_at >= 0) {
          files_.stage(number, piece->staged_at, piece->result.outputs);
        } else {
          files_.write(piece->place, input_idx, piece->result.outputs);
        }
        events_.push(PieceWritten{number, piece});
      } catch (...) {
        events_.push(WriteFailed{std::current_exception()});
      }
    });
  }
  if (task.take_unstage()) {
    ++num_underway_;
    work_.push_urgent([this, number, base = task.stage_base(), stage = task.stage(),
                       input_idx = task.task().input_idx](ChunkTokenizer&) {
      try {
        files_.unstage(number, stage, base, input_idx);
        events_.push(Unstaged{number});
      } catch (...) {
        events_.push(WriteFailed{std::current_exception()});
      }
    });
  }
  if (task.take_changed()) dirty_.insert(number);
}

// What is held saves a copy from the stage file; windows save whole decoders from waiting.
int64_t RankWorker::max_held_bytes() const {
  const int64_t for_windows =
      std::max<int64_t>(windows_.taken_bytes() - WindowLimits::kDefaultMaxBytes, 0);
  return std::max(settings_.max_held_bytes - 3 * for_windows / 2, settings_.max_held_bytes / 8);
}

// The last tasks first: those before them will have their places sooner.
void RankWorker::stage_if_too_much_is_held() {
  const int64_t max_bytes = max_held_bytes();
  for (auto at = open_.rbegin(); at != open_.rend() && held_bytes_ > max_bytes; ++at) {
    OpenTask& task = at->second;
    if (task.has_base() || task.num_held_bytes() == 0) continue;
    task.begin_staging();
    dispatch(task);
  }
}

void RankWorker::start_sync() {
  std::vector<LedgerRequest::Durable> durable;
  for (const int64_t number : dirty_) durable.push_back({number, open_.at(number).written()});
  dirty_.clear();
  is_syncing_ = true;
  to_sync_.push(std::move(durable));
}

void RankWorker::on_synced(const Synced& synced) {
  is_syncing_ = false;
  last_sync_ = Clock::now();
  for (const auto& durable : synced.durable) {
    request_.durable.push_back(durable);
    if (!durable.progress.is_read) continue;
    if (!durable.progress.stage.empty()) {
      files_.close_stage(durable.task);  // tasks may wait by the thousand
      continue;
    }
    const auto found = open_.find(durable.task);
    if (found == open_.end()) continue;
    if (auto stage = found->second.stage(); !stage.empty()) {
      stages_to_remove_[durable.task] = {request_.number + 1, std::move(stage)};
    }
    open_.erase(found);
    is_unwanted_.erase(durable.task);
  }
}

bool RankWorker::has_news() const {
  return !request_.durable.empty() || !request_.read_tasks.empty() || request_.failed_task ||
         (may_be_given_tasks_ && std::ssize(reading_) < num_readers_);
}

void RankWorker::exchange() {
  last_exchange_ = Clock::now();
  ++request_.number;
  request_.num_tasks_wanted = std::max<int64_t>(0, num_readers_ - std::ssize(reading_));
  const LedgerReply reply = ledger_.exchange(request_);
  const int64_t number = request_.number;
  request_ = {};
  request_.number = number;
  if (reply.failure) throw_failure(*reply.failure);
  // Without one now, it is worth asking again when something has changed, or after a while.
  may_be_given_tasks_ = !reply.tasks.empty();
  for (const auto& given : reply.tasks) open_task(given);
  for (const auto& based : reply.bases) {
    OpenTask& task = open_.at(based.task);
    task.set_base(based.base);
    dispatch(task);
  }
  remove_stages(reply.journaled_request);
  is_all_done_ = reply.all_done;
}

void RankWorker::open_task(const LedgerReply::Given& given) {
  crash_point("task_given");
  const int64_t number = given.task.number;
  open_.try_emplace(number, given.task, given.progress, settings_.rules.json_keys.size(),
                    files_.writer());
  is_unwanted_[number] = std::make_shared<std::atomic<bool>>(false);
  if (given.progress.is_read) return;  // staged by an earlier run: it only waits for its place
  reading_.insert(number);
  given_.push({given.task, given.progress.next_offset_bytes,
               given.progress.counts.totals.num_file_bytes, is_unwanted_[number]});
}

// A stage file is needed until the journal says that its content is at its place.
void RankWorker::remove_stages(int64_t journaled_request) {
  for (auto at = stages_to_remove_.begin(); at != stages_to_remove_.end();) {
    const auto& [request, stage] = at->second;
    if (request > journaled_request) {
      ++at;
      continue;
    }
    files_.remove_stage(at->first, stage);
    at = stages_to_remove_.erase(at);
  }
}

// What is written is made to last and told, so that little is done again.
void RankWorker::settle() {
  end_threads();
  while (auto event = events_.pop_for(milliseconds(0))) {
    if (auto* written = std::get_if<PieceWritten>(&*event)) {
      open_.at(written->task).piece_written(*written->piece);
    } else if (auto* synced = std::get_if<Synced>(&*event)) {
      on_synced(*synced);
    } else if (auto* failed = std::get_if<WriteFailed>(&*event)) {
      has_sync_failed_ = has_sync_failed_ || failed->is_sync;
    }
  }
  // A sync that fails is told once: what it could not write is lost, and the next sync succeeds.
  if (has_sync_failed_) return;
  try {
    files_.sync();
    for (auto& [number, task] : open_) request_.durable.push_back({number, task.written()});
  } catch (const std::system_error&) {
    // The disk may be why we end: what was told before is what is safe.
  }
}

void RankWorker::leave(int exit_code, const std::string& message) {
  settle();
  ++request_.number;
  request_.num_tasks_wanted = 0;
  request_.leaving = RunFailure{exit_code, message, {}};
  (void)ledger_.exchange(request_);
}

void RankWorker::throw_failure(const RunFailure& failure) {
  settle();
  ++request_.number;
  request_.num_tasks_wanted = 0;
  (void)ledger_.exchange(request_);
  const auto own = own_errors_.find(failure.message);
  if (own != own_errors_.end()) std::rethrow_exception(own->second);
  throw RunFailed(failure.exit_code, failure.message);
}

// To grow a result's memory anew for every segment takes copies and page faults.
void RankWorker::keep_for_reuse(TokenizedChunk& result) {
  size_t num_bytes = 0;
  for (TokenizedChunk::Output& output : result.outputs) {
    output.clear();
    num_bytes += 2 * output.tokens_16.capacity() + 4 * output.tokens_32.capacity();
  }
  if (std::ssize(spare_results_) < 2 * settings_.num_workers &&
      num_bytes <= 2 * settings_.read_limits.chunk_bytes) {
    spare_results_.push_back(std::move(result));
  }
}

void RankWorker::recycle(SegmentPtr segment) {
  if (!spare_results_.empty()) {
    segment->result = std::move(spare_results_.back());
    spare_results_.pop_back();
  }
  // Memory that one huge line took goes back; all segments would grow to the longest line in time.
  if (segment->chunk.buffer.capacity() > 2 * settings_.read_limits.chunk_bytes) {
    segment->chunk.drop_grown();
  }
  segment->chunk.long_line_permit.reset();
  free_.push(std::move(segment));
}

}  // namespace weft
