#include "preprocess/rank/rank.h"

#include <algorithm>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How late a request to stop, or news of other ranks, may be noticed while nothing else happens.
constexpr milliseconds kRound{50};
constexpr milliseconds kExchangeInterval{100};

constexpr char kBadLineHint[] =
    "\n  nothing was written; repair the line, or use --on-bad-line skip to leave bad lines out";

}  // namespace

Rank::Rank(const RankOptions& options, const WorkPlan& plan,
           std::shared_ptr<const Vocabulary> vocabulary, RunFiles& files, LedgerLink& ledger)
    : options_(options),
      ledger_(ledger),
      tokenizers_(std::move(vocabulary), options.rules, options.num_workers, inbox_,
                  [this](ChunkPtr chunk) { post(std::move(chunk)); }),
      readers_(plan, options,
               [this](ChunkPtr chunk) {
                 if (chunk->is_last()) {
                   post(std::move(chunk));
                 } else {
                   tokenizers_.tokenize(std::move(chunk));
                 }
               }),
      output_(files, options.rules.json_keys.size(), tokenizers_, inbox_),
      last_passes_(files, tokenizers_) {
  tokenizers_.start();
  readers_.start();
  output_.start();
}

void Rank::run(const std::function<bool()>& stop_requested, const std::function<void()>& on_round) {
  crash_point("rank_begins");
  while (!is_all_done_) {
    round(stop_requested);
    on_round();
  }
  end_threads();
}

void Rank::end_threads() {
  last_passes_.cancel();
  readers_.end();
  tokenizers_.end();
  output_.end();
}

void Rank::round(const std::function<bool()>& stop_requested) {
  handle([this] {
    tokenizers_.check();
    readers_.check();
    output_.check();
  });
  if (has_news() || Clock::now() - last_exchange_ >= exchange_interval_) exchange();
  if (is_all_done_) return;
  if (stop_requested()) {
    leave(stopped_on_request());
    throw RankStopped{};
  }
  if (const auto message = inbox_.pop_for(std::min(kRound, exchange_interval_))) handle(*message);
  while (const auto message = inbox_.pop_for(milliseconds(0))) handle(*message);
  output_.spill_above(options_.max_held_bytes_per_worker * options_.num_workers);
  // At the end nothing else is to be waited for.
  const bool is_read = readers_.num_reading() == 0 && !output_.is_writing();
  output_.sync_sometimes(options_.sync_interval, is_read);
}

// A message that throws says that something could not be written.
void Rank::handle(const std::function<void()>& message) {
  try {
    message();
  } catch (const std::exception& error) {
    leave(failure_of(error));
    throw;
  }
}

void Rank::post(ChunkPtr chunk) {
  inbox_.push([this, chunk = std::move(chunk)] { on_chunk(chunk); });
}

void Rank::on_chunk(ChunkPtr chunk) {
  if (is_leaving_) return;
  TaskOutput& task = output_.at(chunk->task);
  if (chunk->is_last()) readers_.task_ended();
  task.put(std::move(chunk));
  while (ChunkPtr next = task.take_next()) {
    accept(task, *next);
    readers_.recycle(std::move(next));
  }
  output_.write(task);
}

void Rank::accept(TaskOutput& task, Chunk& chunk) {
  if (task.has_failed()) return;
  try {
    if (chunk.error) std::rethrow_exception(chunk.error);
  } catch (const std::exception& error) {
    own_errors_[task.task().number] = chunk.error;
    fail_task(task, failure_of(error));
    return;
  }
  if (chunk.ends_task) {
    task.end(chunk);
    request_.read_tasks.push_back({task.task().number, task.counts()});
    return;
  }
  if (options_.rules.on_bad_line == OnBadLine::kStop && !chunk.batch.bad_lines.empty()) {
    RunFailure failure{static_cast<int>(ExitCode::kBadInput), kBadLineHint,
                       chunk.batch.bad_lines.front()};
    failure.bad_line->line_number += task.counts().totals.num_lines;
    fail_task(task, std::move(failure));
    return;
  }
  request_.newly_seen.add(output_.add(task, chunk).totals);
}

void Rank::fail_task(TaskOutput& task, RunFailure failure) {
  task.fail();
  const int64_t number = task.task().number;
  if (!request_.failed_task || number < request_.failed_task->task) {
    request_.failed_task = LedgerRequest::Failed{number, std::move(failure)};
  }
}

bool Rank::has_news() const {
  const bool is_reading = readers_.num_reading() > 0;
  const int num_parts = last_passes_.num_underway();
  return output_.has_durable() || !request_.read_tasks.empty() || request_.failed_task ||
         (may_be_given_tasks_ && readers_.num_idle() > 0) ||
         (may_be_given_parts_ && !is_reading && num_parts <= options_.num_workers) ||
         (last_passes_.has_results() && num_parts == 0);
}

// While there is text to be tokenized, few workers should wait for what is read back.
int64_t Rank::num_parts_wanted() const {
  const int most =
      readers_.num_reading() == 0 ? 2 * options_.num_workers : 1 + options_.num_workers / 4;
  return std::max(0, most - last_passes_.num_underway());
}

bool Rank::is_idle() const {
  return readers_.num_reading() == 0 && output_.is_empty() && last_passes_.num_underway() == 0;
}

void Rank::exchange() {
  request_.num_tasks_wanted = readers_.num_idle();
  request_.durable = output_.take_durable();
  request_.num_parts_wanted = num_parts_wanted();
  request_.part_results = last_passes_.take_results();
  LedgerReply reply = send();
  if (reply.failure) throw_failure(*reply.failure);
  // Without one now, it is worth asking again when something has changed, or after a while.
  may_be_given_tasks_ = !reply.assigned.empty();
  for (const auto& assigned : reply.assigned) open_task(assigned);
  for (const auto& known : reply.offsets_known) output_.set_offset(known.task, known.offset);
  may_be_given_parts_ = !reply.parts.empty();
  for (LastPassPart& part : reply.parts) last_passes_.start(std::move(part));
  is_all_done_ = reply.all_done;
  // The last passes of an idle rank may come at any moment, or in hours.
  exchange_interval_ = is_idle() ? idle_interval_ : kExchangeInterval;
  idle_interval_ = is_idle() ? std::min(2 * idle_interval_, kExchangeInterval) : milliseconds(1);
}

LedgerReply Rank::send() {
  last_exchange_ = Clock::now();
  return ledger_.exchange(std::exchange(request_, {}));
}

void Rank::open_task(const LedgerReply::Assigned& assigned) {
  crash_point("task_given");
  output_.open(assigned);
  // A task that an earlier run has read to its end, and spilled, only waits for its offset.
  if (!assigned.progress.is_read) readers_.read(assigned);
}

void Rank::leave(const RunFailure& failure) {
  request_.leaving = failure;
  send_what_is_safe();
}

void Rank::throw_failure(const RunFailure& failure) {
  send_what_is_safe();
  if (failure.exit_code == static_cast<int>(ExitCode::kStoppedOnRequest)) throw RankStopped{};
  const auto own = own_errors_.find(failure.task);
  if (own != own_errors_.end()) std::rethrow_exception(own->second);
  throw RunFailed(failure.exit_code, failure.message);
}

// Syncs what is written and tells the ledger, so that little is done again.
void Rank::send_what_is_safe() {
  is_leaving_ = true;
  end_threads();
  while (const auto message = inbox_.pop_for(milliseconds(0))) {
    try {
      (*message)();
    } catch (const std::exception&) {
      // The rank has a reason to end already.
    }
  }
  request_.durable = output_.take_durable();
  for (auto& durable : output_.sync_for_the_last_time()) {
    request_.durable.push_back(std::move(durable));
  }
  request_.num_tasks_wanted = 0;
  (void)send();
}

}  // namespace weft
