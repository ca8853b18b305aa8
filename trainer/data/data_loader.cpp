#include "trainer/data/data_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <stdexcept>

#include "indexed_dataset/base/process/start_thread.h"

namespace weft {
namespace {

// Rows lie at random places of the files, of which the processor can guess none. While a row is
// copied, this many after it are on their way to the caches.
constexpr int64_t kPrefetchedRows = 2;

}  // namespace

DataLoader::DataLoader(Backend& backend, const BlendedDataset& dataset,
                       const DataLoaderOptions& options, BatchSizes batch_sizes)
    : backend_(backend),
      dataset_(dataset),
      options_(options),
      batch_sizes_(std::move(batch_sizes)),
      curriculum_(options.curriculum.value_or(LengthCurriculum(dataset.sequence_length()))),
      next_iteration_(options.finished_iterations + 1),
      next_first_{options.first_sample, options.consumed_tokens},
      consumed_samples_(options.first_sample) {
  slots_.resize(static_cast<size_t>(options_.num_slots));
  if (!options_.has_samples) return;
  allocate_slots();
  for (int64_t d = 0; d < dataset.num_datasets(); ++d) {
    const DatasetReader& reader = dataset.dataset(d).reader();
    reader.expect_random_reads();
    unseen_.push_back(options_.unseen ? options_.unseen->find(reader.prefix().string()) : nullptr);
  }
  try {
    if (options_.read_ahead_batches > 0)
      threads_.push_back(start_thread([this] { run_read_ahead(); }));
    for (int64_t i = 0; i < options_.num_threads; ++i)
      threads_.push_back(start_thread([this] { run_worker(); }));
  } catch (...) {
    stop();
    throw;
  }
}

DataLoader::~DataLoader() { stop(); }

void DataLoader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_available_.notify_all();
  batch_begins_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  if (memory_ == nullptr) return;
  try {
    backend_.release(memory_, Memory::kPinnedHost);
  } catch (...) {
    // The device has failed. Its error is already on its way, and the backend frees what is left.
  }
}

LoaderSlots DataLoader::slots() const {
  const int64_t max_micro_batches = batch_sizes_.max / samples_per_micro_step();
  return {.num_rows = max_micro_batches * options_.micro_batch_size,
          .sequence_length = dataset_.sequence_length(),
          .has_mask = has_mask(),
          .has_bounds = has_bounds(),
          .num_slots = options_.num_slots};
}

void DataLoader::allocate_slots() {
  const LoaderSlots sizes = slots();
  const int64_t elements = sizes.num_elements(), arrays = sizes.num_arrays();
  const int64_t max_micro_batches = sizes.num_rows / options_.micro_batch_size;
  memory_ = static_cast<int32_t*>(backend_.allocate(sizes.num_bytes(), Memory::kPinnedHost));
  int32_t* data = memory_;
  for (Slot& slot : slots_) {
    slot.tokens = data;
    slot.targets = data + elements;
    if (has_mask()) slot.loss_mask = reinterpret_cast<float*>(data + 2 * elements);
    if (has_bounds()) slot.document_bounds = data + (arrays - 2) * elements;
    slot.mask_sums.resize(static_cast<size_t>(max_micro_batches));
    data += arrays * elements;
  }
}

GlobalBatch DataLoader::next() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (taken_ - released_ >= options_.num_slots)
    throw std::logic_error("data loader: all batches are in use");
  if (!options_.has_samples) {
    begin_batch();
    slot_of(made_).num_unfinished = 0;
    end_batch();
  }
  Slot& slot = slot_of(taken_);
  const auto is_ready = [&] { return taken_ < made_ && slot.num_unfinished == 0; };
  // Another thread may still fill this batch while one has met the end of the dataset behind it.
  batch_ready_.wait(lock, [&] { return is_ready() || (error_ && num_filling_ == 0); });
  if (!is_ready()) std::rethrow_exception(error_);
  ++taken_;
  consumed_samples_ = slot.first.rows + num_rows(slot);
  waited_ms_ +=
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const LengthCurriculum::Consumed after =
      curriculum_.after(slot.first, slot.iteration, num_rows(slot));
  double num_loss_tokens = 0;
  const size_t num_sums = slot.loss_mask ? static_cast<size_t>(slot.num_micro_batches) : 0;
  for (double& sum : std::span(slot.mask_sums).first(num_sums)) {
    num_loss_tokens += sum;
    // A micro-batch of end-of-document tokens alone has loss 0. Dividing by 1 keeps it 0.
    sum = options_.samples_per_pass
              ? static_cast<double>(options_.micro_batch_size * dataset_.sequence_length())
              : std::max(sum, 1.0);
  }
  return {.num_micro_batches = slot.num_micro_batches,
          .seq_length = curriculum_.length(slot.iteration),
          .num_new_tokens = after.tokens - slot.first.tokens,
          .num_loss_tokens = num_loss_tokens,
          .tokens = slot.tokens,
          .targets = slot.targets,
          .loss_mask = slot.loss_mask,
          .mask_sums = slot.loss_mask ? slot.mask_sums.data() : nullptr,
          .document_bounds = slot.document_bounds};
}

void DataLoader::release() {
  {
    const std::lock_guard lock(mutex_);
    if (released_ == taken_)
      throw std::logic_error("data loader: release() without a batch in use");
    ++released_;
  }
  work_available_.notify_all();
}

// --- threads ---

void DataLoader::run_worker() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_available_.wait(lock, [this] { return stopping_ || error_ || can_hand_out(); });
    if (stopping_ || error_) return;
    try {
      const Work work = hand_out();
      ++num_filling_;
      lock.unlock();
      fill(work);
      lock.lock();
      --num_filling_;
      if (--work.slot->num_unfinished == 0 || error_) batch_ready_.notify_all();
    } catch (...) {
      if (!lock.owns_lock()) {
        lock.lock();
        --num_filling_;
      }
      if (!error_) error_ = std::current_exception();
      batch_ready_.notify_all();
      work_available_.notify_all();
      return;
    }
  }
}

// Asks for the samples of up to read_ahead_batches that follow the batch in preparation.
void DataLoader::run_read_ahead() {
  LengthCurriculum::Consumed first{options_.first_sample, options_.consumed_tokens};
  for (int64_t batch_idx = 0;; ++batch_idx) {
    const int64_t iteration = options_.finished_iterations + 1 + batch_idx;
    {
      std::unique_lock lock(mutex_);
      batch_begins_.wait(lock, [&] {
        return stopping_ || error_ || batch_idx <= made_ + options_.read_ahead_batches;
      });
      if (stopping_ || error_) return;
    }
    const int64_t num_rows = batch_size(first.rows);
    const LengthCurriculum::Consumed next = curriculum_.after(first, iteration, num_rows);
    if (ends_before(next)) return;
    for (int64_t k = 0; k < num_rows / samples_per_micro_step(); ++k) {
      const int64_t own =
          k * samples_per_micro_step() + options_.dp_rank * options_.micro_batch_size;
      try {
        for (int64_t b = 0; b < options_.micro_batch_size; ++b) {
          if (const auto row = find_row(first, iteration, own + b))
            dataset_.will_need(row->sample, row->begin, row->length + 1);
        }
      } catch (const std::exception&) {
        return;  // The thread that fills this batch will meet the same error and tell it.
      }
    }
    first = next;
  }
}

int64_t DataLoader::batch_size(int64_t consumed_rows) const {
  const int64_t size = batch_sizes_.at(consumed_rows);
  if (!options_.samples_per_pass) return size;
  return std::min(size, rows_per_pass() - consumed_rows % rows_per_pass());
}

bool DataLoader::ends_before(LengthCurriculum::Consumed consumed) const {
  return !options_.samples_per_pass && curriculum_.samples_begun(consumed) > dataset_.end();
}

std::optional<LengthCurriculum::Row> DataLoader::find_row(LengthCurriculum::Consumed first,
                                                          int64_t iteration, int64_t idx) const {
  LengthCurriculum::Row row = curriculum_.row(first, iteration, idx);
  if (!options_.samples_per_pass) return row;
  row.sample %= rows_per_pass();
  if (row.sample >= *options_.samples_per_pass) return std::nullopt;
  return row;
}

bool DataLoader::can_hand_out() const {
  return batch_begun_ || made_ - released_ < options_.num_slots;
}

// Returns the next micro-batch to fill.
DataLoader::Work DataLoader::hand_out() {
  if (!batch_begun_) begin_batch();
  Slot& slot = slot_of(made_);
  const Work work{&slot, handed_out_++};
  if (handed_out_ == slot.num_micro_batches) end_batch();
  work_available_.notify_all();
  return work;
}

void DataLoader::begin_batch() {
  const int64_t num_rows = batch_size(next_first_.rows);
  const LengthCurriculum::Consumed next = curriculum_.after(next_first_, next_iteration_, num_rows);
  if (ends_before(next)) {
    const int64_t end = curriculum_.samples_begun(next);
    const int64_t first = curriculum_.samples_begun(next_first_);
    throw std::runtime_error(
        fmt::format("{}: its {} samples are used up: the next batch needs {} from sample {} on",
                    dataset_.description(), dataset_.num_samples(), end - first, first));
  }
  Slot& slot = slot_of(made_);
  slot.iteration = next_iteration_;
  slot.first = next_first_;
  slot.num_micro_batches = num_rows / samples_per_micro_step();
  slot.num_unfinished = slot.num_micro_batches;
  handed_out_ = 0;
  batch_begun_ = true;
  batch_begins_.notify_all();
}

// The next batch may begin.
void DataLoader::end_batch() {
  next_first_ = curriculum_.after(next_first_, next_iteration_, num_rows(slot_of(made_)));
  ++next_iteration_;
  batch_begun_ = false;
  ++made_;
}

void DataLoader::fill(const Work& work) {
  const int64_t B = options_.micro_batch_size;
  const Slot& slot = *work.slot;
  const int64_t first_row = (work.micro_batch_idx * options_.dp_size + options_.dp_rank) * B;
  double mask_sum = 0;
  std::vector<std::optional<LengthCurriculum::Row>> rows;
  rows.reserve(static_cast<size_t>(B));
  for (int64_t b = 0; b < B; ++b)
    rows.push_back(find_row(slot.first, slot.iteration, first_row + b));
  const auto prefetch = [&](int64_t b) {
    if (b >= B || !rows[static_cast<size_t>(b)]) return;
    const LengthCurriculum::Row& row = *rows[static_cast<size_t>(b)];
    dataset_.prefetch(row.sample, row.begin, row.length + 1);
  };
  for (int step = 0; step < GptDataset::kNumStepsToToken; ++step) {
    for (const auto& row : rows) {
      if (row) dataset_.prefetch_step(row->sample, step);
    }
  }
  for (int64_t b = 0; b < kPrefetchedRows; ++b) prefetch(b);
  for (int64_t b = 0; b < B; ++b) {
    prefetch(b + kPrefetchedRows);
    const auto& row = rows[static_cast<size_t>(b)];
    const int64_t T = curriculum_.length(slot.iteration);
    const int64_t offset = (work.micro_batch_idx * B + b) * T;
    int32_t* inputs = slot.tokens + offset;
    int32_t* bounds = slot.document_bounds ? slot.document_bounds + 2 * offset : nullptr;
    if (!row) {
      std::fill_n(inputs, T, 0);
      std::fill_n(slot.targets + offset, T, 0);
      std::fill_n(slot.loss_mask + offset, T, 0.0F);
      if (bounds) find_bounds_by_tokens(inputs, T, options_.end_of_document_id, bounds);
      continue;
    }
    dataset_.row(row->sample, row->begin, T, inputs, slot.targets + offset);
    check_tokens(*row, inputs, slot.targets[offset + T - 1]);
    if (slot.loss_mask) mask_sum += fill_mask(*row, inputs, slot.loss_mask + offset);
    if (bounds) fill_bounds(*row, inputs, bounds);
  }
  work.slot->mask_sums[static_cast<size_t>(work.micro_batch_idx)] = mask_sum;  // 0 without a mask
}

double DataLoader::fill_mask(const LengthCurriculum::Row& row, const int32_t* inputs,
                             float* mask) const {
  const int32_t masked_id = options_.eod_mask_loss ? options_.end_of_document_id : -1;
  for (int64_t t = 0; t < row.length; ++t)
    mask[t] = t < row.num_repeated || inputs[t] == masked_id ? 0.0F : 1.0F;
  if (options_.unseen) mask_unseen(row, mask);
  double sum = 0;
  for (int64_t t = 0; t < row.length; ++t) sum += static_cast<double>(mask[t]);
  return sum;
}

void DataLoader::mask_unseen(const LengthCurriculum::Row& row, float* mask) const {
  const UnseenSequences* unseen =
      unseen_[static_cast<size_t>(dataset_.locate(row.sample).dataset_idx)];
  if (!unseen) return;
  int64_t begin = -row.begin;  // of the part's tokens, counted from the row's first input
  for (const SamplePart& part : dataset_.sample_parts(row.sample)) {
    const int64_t end = begin + part.num_tokens;
    if (unseen->contains(part.sequence_idx)) {
      // The position before the first token has it as its label.
      const int64_t first = std::clamp(begin - 1, int64_t{0}, row.length);
      std::fill(mask + first, mask + std::clamp(end, first, row.length), 0.0F);
    }
    begin = end;
  }
}

void DataLoader::fill_bounds(const LengthCurriculum::Row& row, const int32_t* inputs,
                             int32_t* bounds) const {
  if (options_.document_ends == DocumentEnds::kDataset) {
    find_bounds_by_parts(dataset_.sample_parts(row.sample), row, bounds);
  } else {
    find_bounds_by_tokens(inputs, row.length, options_.end_of_document_id, bounds);
  }
}

// A row's tokens are its inputs and its last label. The loop has no way out, so that it takes many
// tokens at a time.
void DataLoader::check_tokens(const LengthCurriculum::Row& row, const int32_t* inputs,
                              int32_t last_label) const {
  const int64_t T = row.length;
  const auto is_wrong = [this](int32_t id) { return id < 0 || id >= options_.vocab_size; };
  auto largest = static_cast<uint32_t>(last_label);  // negative ids are large
  for (int64_t t = 0; t < T; ++t) largest = std::max(largest, static_cast<uint32_t>(inputs[t]));
  if (largest < static_cast<uint64_t>(options_.vocab_size)) return;
  const int64_t position = std::find_if(inputs, inputs + T, is_wrong) - inputs;
  throw_wrong_token(row.sample, row.begin + position, position < T ? inputs[position] : last_label);
}

void DataLoader::throw_wrong_token(int64_t sample_idx, int64_t position, int32_t id) const {
  const BlendedDataset::Place place = dataset_.locate(sample_idx);
  int64_t left = position;
  int64_t document = -1;
  for (const SamplePart& part : dataset_.sample_parts(sample_idx)) {
    document = part.document_idx;
    if (left < part.num_tokens) break;
    left -= part.num_tokens;
  }
  throw std::runtime_error(fmt::format(
      "{}: sample {}, position {} (document {}) holds token id {}, outside the vocabulary of {}; "
      "was the dataset made with another vocabulary? Give the right --vocab-file or --vocab-size",
      dataset_.dataset(place.dataset_idx).reader().prefix().string(), sample_idx, position,
      document, id, options_.vocab_size));
}

}  // namespace weft
