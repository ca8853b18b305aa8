#include "trainer/checkpoint/background_save.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/start_thread.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/rank_file.h"

namespace weft {
namespace {

constexpr int64_t kStagedAlignment = 256;

int64_t aligned(int64_t num_bytes) {
  return (num_bytes + kStagedAlignment - 1) / kStagedAlignment * kStagedAlignment;
}

// The writer reads the snapshot in parts of this size.
constexpr int64_t kPartBytes = 16 << 20;

void read_from_memory(const StateTensor& tensor, const Consume& consume) {
  const char* bytes = tensor.tensor.as<char>();
  const int64_t num_bytes = tensor.tensor.num_bytes();
  for (int64_t done = 0; done < num_bytes; done += kPartBytes)
    consume(bytes + done, std::min(kPartBytes, num_bytes - done));
}

}  // namespace

int64_t snapshot_bytes(const std::vector<StateTensor>& tensors) {
  int64_t num_bytes = 0;
  for (const StateTensor& tensor : tensors) num_bytes += aligned(tensor.tensor.num_bytes());
  return std::max(kStagedAlignment, num_bytes);
}

BackgroundSave::BackgroundSave(Backend& backend, HostGroup& ranks, BackgroundSaveOptions options,
                               Tensor snapshot)
    : backend_(backend),
      ranks_(ranks),
      options_(std::move(options)),
      snapshot_(snapshot),
      computed_(backend.create_event()),
      copied_(backend.create_event()) {}

BackgroundSave::~BackgroundSave() {
  is_abandoned_ = true;
  if (worker_.joinable()) worker_.join();
}

EventId BackgroundSave::begin(const CheckpointInfo& info, const std::vector<StateTensor>& tensors) {
  if (is_running()) throw std::logic_error("checkpoint: the save before has not ended");
  info_ = info;
  file_ = begin_checkpoint(options_.dir, iteration(), ranks_) / file_of_rank(ranks_.rank());
  tensors_ = tensors;
  backend_.record(computed_, Stream::kCompute);
  backend_.wait(Stream::kCopy, computed_);
  char* to = snapshot_.as<char>();
  const char* const end = to + snapshot_.num_bytes();
  for (StateTensor& tensor : tensors_) {
    const Tensor source = tensor.tensor;
    if (source.num_bytes() > end - to)
      throw std::logic_error("checkpoint: the snapshot is smaller than the state of this rank");
    tensor.tensor = Tensor(to, source.dtype(), {source.num_elements()});
    backend_.copy(to, source.data(), source.num_bytes(), Stream::kCopy);
    to += aligned(source.num_bytes());
  }
  backend_.record(copied_, Stream::kCopy);
  stage_ = Stage::kCopying;
  return copied_;
}

bool BackgroundSave::is_busy() {
  if (stage_ == Stage::kCopying) {
    if (!backend_.has_happened(copied_)) return true;
    begin_writing();
  }
  rethrow_failure();
  const std::lock_guard lock(mutex_);
  return works_;
}

bool BackgroundSave::advance() {
  if (stage_ == Stage::kWriting) {
    std::vector<std::string> of_ranks = ranks_.gather(pieces_);
    stage_ = Stage::kCommitting;
    if (ranks_.rank() != 0) return false;
    start_worker([this, of_ranks = std::move(of_ranks)] {
      std::optional<int64_t> previous;
      if (options_.retention.retain_interval) previous = latest_iteration(options_.dir);
      commit_checkpoint(options_.dir, info_, of_ranks);
      remove_after_save(options_.dir, iteration(), previous, options_.retention, complete_);
    });
    return false;
  }
  if (stage_ != Stage::kCommitting) throw std::logic_error("checkpoint: no save is under way");
  stage_ = Stage::kNone;
  return true;
}

void BackgroundSave::finish() {
  if (stage_ == Stage::kCopying) {
    backend_.synchronize(copied_);
    begin_writing();
  }
  while (is_running()) {
    wait_for_worker();
    if (stage_ == Stage::kCommitting) ranks_.all_gather("");  // the first rank has committed
    advance();
  }
}

void BackgroundSave::begin_writing() {
  stage_ = Stage::kWriting;
  start_worker([this] {
    crash_point("checkpoint_in_background");
    const auto count = [this](int64_t num_bytes) {
      if (is_abandoned_) throw std::runtime_error("the save was abandoned");
      const std::lock_guard lock(mutex_);
      written_bytes_ += num_bytes;
      changed_.notify_all();
    };
    try {
      pieces_ = pieces_to_text(write_rank_file(file_, tensors_, read_from_memory, count));
    } catch (...) {
      abandon_rank_file(options_.dir, iteration(), ranks_);
      throw;
    }
  });
}

void BackgroundSave::start_worker(std::function<void()> work) {
  if (worker_.joinable()) worker_.join();  // it has ended
  works_ = true;
  worker_ = start_thread([this, work = std::move(work)] {
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    works_ = false;
    changed_.notify_all();
  });
}

// Other ranks may wait for this one as long as it writes.
void BackgroundSave::wait_for_worker() {
  {
    std::unique_lock lock(mutex_);
    int64_t seen_bytes = -1;
    while (works_) {
      if (std::exchange(seen_bytes, written_bytes_) != written_bytes_)
        ranks_.recorder().note_work();
      changed_.wait(lock);
    }
  }
  rethrow_failure();
}

void BackgroundSave::rethrow_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace weft
