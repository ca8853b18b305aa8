// Global batches, which background threads prepare in pinned memory ahead of the step.
//
// The order is that of Megatron's sequential sampler
// [Megatron-LM megatron/legacy/data/data_samplers.py]. In the step that starts after `consumed`
// samples, sample s of micro-batch k of rank r is
//
//   consumed + k * B * dp + r * B + s
//
// So the samples of a step do not depend on the topology, and a run resumes at its consumed
// samples. With a curriculum the rows of a batch are pieces of samples, and "sample" above is a row
// (indexed_dataset/order/batches/length_curriculum.h).
//
// Samples lie all over the mapped files. One more thread goes through the samples of this rank some
// batches ahead and asks the kernel for their pages, so that cold disks and network file systems
// read many at once while the threads that fill batches find them in the page cache.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "indexed_dataset/order/batches/length_curriculum.h"
#include "indexed_dataset/order/blends/blended_dataset.h"
#include "indexed_dataset/run_record/unseen_documents.h"
#include "kernels/backend.h"
#include "trainer/data/document_bounds.h"
#include "trainer/data/global_batch.h"
#include "trainer/data/loader_plan.h"

namespace weft {

struct DataLoaderOptions {
  int64_t micro_batch_size = 1;
  int64_t dp_rank = 0, dp_size = 1;
  int64_t first_sample = 0;  // samples consumed so far
  // If it is given, it tells the lengths of sequences and which tokens they hold. The run then
  // needs to know the iterations and tokens that are behind it, too.
  std::optional<LengthCurriculum> curriculum = {};
  int64_t finished_iterations = 0, consumed_tokens = 0;
  int64_t vocab_size = 0;           // token ids from here on are errors
  int32_t end_of_document_id = -1;  // no token has the id -1
  bool eod_mask_loss = false;       // positions whose input is that token have no loss
  DocumentEnds document_ends = DocumentEnds::kNone;
  // If it is given, the samples are gone through again and again, so many each time, and no batch
  // holds those of two passes. The last batch of a pass is smaller, and rows that fill it up to
  // whole micro-batches have no loss. All mask_sums are B * T then: every token of a pass weighs
  // the same.
  std::optional<int64_t> samples_per_pass = {};
  // Without samples a batch has sizes alone, neither tokens nor a mask: a pipeline stage between
  // the first and the last needs no more. Then there are no threads.
  bool has_samples = true;
  // If it is given, positions whose input or label is a token of these documents have no loss.
  std::shared_ptr<const UnseenDocuments> unseen = {};
  int64_t num_threads = 2;
  // Batches in memory: two in flight on the device, one ready, one in preparation.
  int64_t num_slots = 4;
  // Ahead of the batch in preparation; 0 reads nothing ahead.
  int64_t read_ahead_batches = 16;
};

class DataLoader {
 public:
  // The global batch size after a number of consumed samples, and its maximum.
  struct BatchSizes {
    std::function<int64_t(int64_t consumed_samples)> at;
    int64_t max = 0;
  };

  // Starts the threads, which prepare batches until the dataset's samples are used up. `dataset`
  // and `backend` must outlive the loader. Throws LimitExceeded if there can be no more threads.
  DataLoader(Backend& backend, const BlendedDataset& dataset, const DataLoaderOptions& options,
             BatchSizes batch_sizes);
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;
  ~DataLoader();

  // Returns the next batch and waits until it is ready. The batch stays valid until release() has
  // been called as often as next(). Throws std::runtime_error for a token id outside the
  // vocabulary, naming sample and document, and for a dataset that has no further whole batch;
  // std::logic_error if all slots are in use.
  GlobalBatch next();
  // Releases the oldest batch: the device has read it.
  void release();

  // Returns the samples (rows) up to the end of the latest batch that next() returned.
  int64_t consumed_samples() const { return consumed_samples_; }
  double waited_ms() const { return waited_ms_; }  // time spent in next() so far
  // Returns the bytes of pinned memory that its slots take.
  int64_t slot_bytes() const { return options_.has_samples ? slots().num_bytes() : 0; }
  // Returns the number of batches of a pass, where there are passes.
  int64_t batches_per_pass() const {
    return (rows_per_pass() + batch_sizes_.max - 1) / batch_sizes_.max;
  }

 private:
  struct Slot {
    int32_t* tokens = nullptr;
    int32_t* targets = nullptr;
    float* loss_mask = nullptr;
    int32_t* document_bounds = nullptr;
    std::vector<double> mask_sums;
    int64_t iteration = 0, num_micro_batches = 0;
    LengthCurriculum::Consumed first;  // what was consumed before
    int64_t num_unfinished = 0;
  };
  struct Work {
    Slot* slot = nullptr;
    int64_t micro_batch_idx = 0;
  };

  LoaderSlots slots() const;
  void allocate_slots();
  void stop();  // joins the threads and frees the slots
  void run_worker();
  void run_read_ahead();
  bool can_hand_out() const;  // the caller holds mutex_
  Work hand_out();
  void begin_batch();
  void end_batch();
  void fill(const Work& work);
  // Returns the sum of the mask.
  double fill_mask(const LengthCurriculum::Row& row, const int32_t* inputs, float* mask) const;
  void fill_bounds(const LengthCurriculum::Row& row, const int32_t* inputs, int32_t* bounds) const;
  void mask_unseen(const LengthCurriculum::Row& row, float* mask) const;
  bool has_bounds() const { return options_.document_ends != DocumentEnds::kNone; }
  // Returns row `idx` of the batch of this iteration, or nothing where the batch is filled up.
  std::optional<LengthCurriculum::Row> find_row(LengthCurriculum::Consumed first, int64_t iteration,
                                                int64_t idx) const;
  int64_t batch_size(int64_t consumed_rows) const;
  bool ends_before(LengthCurriculum::Consumed consumed) const;
  int64_t rows_per_pass() const {
    const int64_t unit = samples_per_micro_step();
    return (*options_.samples_per_pass + unit - 1) / unit * unit;
  }
  bool has_mask() const {
    return options_.eod_mask_loss || options_.samples_per_pass || options_.unseen ||
           curriculum_.reshapes();
  }
  int64_t num_rows(const Slot& slot) const {
    return slot.num_micro_batches * samples_per_micro_step();
  }
  int64_t samples_per_micro_step() const { return options_.micro_batch_size * options_.dp_size; }
  void check_tokens(const LengthCurriculum::Row& row, const int32_t* inputs,
                    int32_t last_label) const;
  [[noreturn]] void throw_wrong_token(int64_t sample_idx, int64_t position, int32_t id) const;
  Slot& slot_of(int64_t batch_idx) {
    return slots_[static_cast<size_t>(batch_idx % options_.num_slots)];
  }

  Backend& backend_;
  const BlendedDataset& dataset_;
  const DataLoaderOptions options_;
  const BatchSizes batch_sizes_;
  const LengthCurriculum curriculum_;
  std::vector<const UnseenSequences*> unseen_;  // of each dataset, null if it has none
  int32_t* memory_ = nullptr;
  std::vector<Slot> slots_;

  std::mutex mutex_;
  std::condition_variable work_available_, batch_ready_, batch_begins_;
  // Batches are numbered from 0: [released, taken) are in use, [taken, made] are ready or in
  // preparation.
  int64_t made_ = 0, taken_ = 0, released_ = 0;
  int64_t handed_out_ = 0;                 // micro-batches of batch made_ that threads have taken
  int64_t next_iteration_ = 1;             // of batch made_
  LengthCurriculum::Consumed next_first_;  // what is consumed before it
  bool batch_begun_ = false;               // the slot of batch made_ is set up
  int64_t num_filling_ = 0;                // micro-batches that threads fill just now
  bool stopping_ = false;
  std::exception_ptr error_;  // no micro-batch is handed out any more
  std::vector<std::thread> threads_;

  int64_t consumed_samples_ = 0;
  double waited_ms_ = 0;
};

}  // namespace weft
