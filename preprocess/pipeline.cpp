#include "preprocess/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "indexed_dataset/writer.h"
#include "preprocess/bounded_queue.h"
#include "preprocess/byte_source.h"

namespace weft {
namespace {

// What travels through the pipeline. An error travels in it too, so that errors are met in input
// order.
struct Parcel {
  int64_t number = 0;
  size_t input_idx = 0;
  LineChunk chunk;
  TokenizedChunk result;
  std::exception_ptr error;
  size_t held_bytes = 0;       // of the budget
  int64_t num_file_bytes = 0;  // taken from all inputs when this chunk was read
  bool ends_input = false;     // no text: the input is read to its end, `input` says what it was
  InputReport input;
};
using ParcelPtr = std::unique_ptr<Parcel>;

// Hands parcels out by number, whatever the order in which they come.
class Reorderer {
 public:
  void put(ParcelPtr parcel) {
    {
      std::lock_guard lock(mutex_);
      const int64_t number = parcel->number;
      parcels_.emplace(number, std::move(parcel));
    }
    ready_.notify_one();
  }

  // Parcel `number`, or null if it does not come within `timeout`.
  ParcelPtr take(int64_t number, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    const auto has_it = [&] { return parcels_.contains(number); };
    if (!ready_.wait_for(lock, timeout, has_it)) return nullptr;
    return std::move(parcels_.extract(number).mapped());
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::map<int64_t, ParcelPtr> parcels_;
};

// Bounds the text in all parcels together. Parcels of ordinary size never wait for it; of those
// that hold one long line each, only so many travel at a time as fit.
class ByteBudget {
 public:
  explicit ByteBudget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Waits until `size_bytes` fit, or nothing else is held. False once closed.
  bool acquire(size_t size_bytes) {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] {
      return closed_ || held_bytes_ == 0 || held_bytes_ + size_bytes <= limit_bytes_;
    });
    held_bytes_ += size_bytes;
    return !closed_;
  }
  void release(size_t size_bytes) {
    {
      std::lock_guard lock(mutex_);
      held_bytes_ -= size_bytes;
    }
    freed_.notify_one();
  }
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  size_t limit_bytes_, held_bytes_ = 0;
  bool closed_ = false;
};

class Pipeline {
 public:
  Pipeline(const PipelineConfig& config, std::shared_ptr<const Vocabulary> vocabulary,
           const PipelineEvents& events)
      : config_(config),
        vocabulary_(std::move(vocabulary)),
        events_(events),
        budget_(std::max(config.max_text_bytes, 2 * config.chunk_bytes * num_parcels())) {
    const TokenType type = token_type_for_vocabulary(vocabulary_->size());
    for (const auto& prefix : config.output_prefixes) {
      writers_.push_back(std::make_unique<DatasetWriter>(prefix, type));
    }
    // Two per worker keep it busy while its last result waits for its turn; two more for reader and
    // writer.
    for (size_t i = 0; i < num_parcels(); ++i) free_.push(std::make_unique<Parcel>());
  }

  PipelineReport run() {
    std::vector<std::thread> threads;
    // Whatever ends this function, the threads end first.
    const JoinOnExit join{*this, threads};
    threads.emplace_back([this] { read_inputs(); });
    for (int i = 0; i < config_.num_workers; ++i) threads.emplace_back([this] { work(); });
    write_in_order();
    for (size_t k = 0; k < writers_.size(); ++k) {
      report_.outputs.push_back(
          {config_.output_prefixes[k], writers_[k]->num_documents(), writers_[k]->num_tokens()});
    }
    check_any_document();
    // All datasets are whole before the first one gets its name: one without the others would look
    // complete.
    for (auto& writer : writers_) writer->seal();
    if (events_.before_commit) events_.before_commit(report_);
    for (auto& writer : writers_) writer->finish();
    return std::move(report_);
  }

 private:
  size_t num_parcels() const { return 2 * static_cast<size_t>(config_.num_workers) + 2; }

  struct JoinOnExit {
    Pipeline& pipeline;
    std::vector<std::thread>& threads;
    ~JoinOnExit() {
      pipeline.cancelled_ = true;
      pipeline.budget_.close();
      pipeline.free_.close(/*discard=*/true);
      pipeline.filled_.close(/*discard=*/true);
      for (std::thread& thread : threads) thread.join();
    }
  };

  // Reader thread. The parcel after the last one carries nothing: its input_idx is one past the
  // last input.
  void read_inputs() {
    int64_t number = 0;
    int64_t num_file_bytes_before = 0;
    for (size_t i = 0; i < config_.inputs.size(); ++i) {
      if (!read_input(i, number, num_file_bytes_before)) return;
    }
    auto last = free_.pop();
    if (!last) return;
    (*last)->number = number;
    (*last)->input_idx = config_.inputs.size();
    done_.put(std::move(*last));
  }

  // False if reading must end: an error, which was handed on, or the pipeline stops.
  bool read_input(size_t input_idx, int64_t& number, int64_t& num_file_bytes_before) {
    std::unique_ptr<ByteSource> source;
    std::unique_ptr<LineChunker> chunker;
    for (;;) {
      auto popped = free_.pop();
      if (!popped) return false;
      ParcelPtr parcel = std::move(*popped);
      parcel->number = number++;
      parcel->input_idx = input_idx;
      parcel->ends_input = false;
      try {
        if (!source) {
          source = open_input(config_.inputs[input_idx], cancelled_);
          chunker = std::make_unique<LineChunker>(*source, config_.chunk_bytes,
                                                  config_.rules.max_line_bytes);
        }
        parcel->ends_input = !chunker->next(parcel->chunk);
      } catch (const ReadCancelled&) {
        return false;
      } catch (...) {
        parcel->error = std::current_exception();
        done_.put(std::move(parcel));
        return false;
      }
      parcel->num_file_bytes = num_file_bytes_before + source->num_bytes_taken();
      if (!parcel->ends_input) {
        parcel->held_bytes = parcel->chunk.buffer.size();
        if (!budget_.acquire(parcel->held_bytes)) return false;
        filled_.push(std::move(parcel));
        continue;
      }
      num_file_bytes_before = parcel->num_file_bytes;
      parcel->input = {config_.inputs[input_idx], source->format(), source->num_bytes_taken(),
                       chunker->num_bytes(), 0};
      done_.put(std::move(parcel));
      return true;
    }
  }

  void work() {
    std::unique_ptr<ChunkTokenizer> tokenizer;
    while (auto popped = filled_.pop()) {
      ParcelPtr parcel = std::move(*popped);
      try {
        if (!tokenizer) tokenizer = std::make_unique<ChunkTokenizer>(vocabulary_, config_.rules);
        tokenizer->tokenize(parcel->chunk, parcel->result);
      } catch (...) {
        parcel->error = std::current_exception();
      }
      done_.put(std::move(parcel));
    }
  }

  void write_in_order() {
    size_t num_inputs_begun = 0;
    for (int64_t number = 0;; ++number) {
      ParcelPtr parcel = take_parcel(number);
      if (parcel->error) std::rethrow_exception(parcel->error);
      if (parcel->input_idx == config_.inputs.size()) return;
      if (num_inputs_begun == parcel->input_idx) {
        ++num_inputs_begun;
        num_lines_before_ = 0;
        if (events_.on_input) events_.on_input(display_name(config_.inputs[parcel->input_idx]));
      }
      if (parcel->ends_input) {
        parcel->input.num_lines = num_lines_before_;
        report_.inputs.push_back(std::move(parcel->input));
      } else {
        write(*parcel);
      }
      recycle(std::move(parcel));
    }
  }

  ParcelPtr take_parcel(int64_t number) {
    for (;;) {
      // 50 ms: how late a request to stop may be noticed while nothing arrives.
      ParcelPtr parcel = done_.take(number, std::chrono::milliseconds(50));
      if (events_.stop_requested && events_.stop_requested()) throw PipelineStopped{};
      if (parcel) return parcel;
    }
  }

  void write(const Parcel& parcel) {
    const TokenizedChunk& result = parcel.result;
    report_bad_lines(parcel);
    for (size_t k = 0; k < writers_.size(); ++k) {
      const TokenizedChunk::Output& output = result.outputs[k];
      writers_[k]->append_documents(output.tokens, output.sequence_lengths,
                                    output.document_sequences);
    }
    num_lines_before_ += result.num_lines;
    PipelineTotals& totals = report_.totals;
    totals.num_file_bytes = parcel.num_file_bytes;
    totals.num_bytes += static_cast<int64_t>(parcel.chunk.size_bytes) +
                        (parcel.chunk.is_too_long_line ? parcel.chunk.too_long_line_bytes : 0);
    totals.num_code_points += result.num_code_points;
    totals.num_documents += result.num_documents;
    totals.num_empty_documents += result.num_empty_documents;
    totals.num_tokens += result.num_tokens;
    totals.num_replaced_surrogates += result.num_replaced_surrogates;
    if (events_.on_progress) events_.on_progress(totals);
  }

  void report_bad_lines(const Parcel& parcel) {
    for (BadLine bad_line : parcel.result.bad_lines) {
      bad_line.input = display_name(config_.inputs[parcel.input_idx]);
      bad_line.line_number += num_lines_before_;
      if (config_.rules.on_bad_line == OnBadLine::kStop) {
        throw std::runtime_error(bad_line.message() +
                                 "\n  nothing was written; repair the line, or use --on-bad-line "
                                 "skip to leave bad lines out");
      }
      if (std::ssize(report_.shown_bad_lines) >= kNumShownBadLines) break;
      if (events_.on_bad_line) events_.on_bad_line(bad_line);
      report_.shown_bad_lines.push_back(std::move(bad_line));
      check_bad_lines(std::ssize(report_.shown_bad_lines));
    }
    report_.totals.bad_lines.add(parcel.result.bad_line_counts);
    check_bad_lines(report_.totals.bad_lines.total());
  }

  // An empty corpus is one; a corpus of bad lines only is a mistake, in --json-keys for one.
  void check_any_document() const {
    const BadLineCounts& bad_lines = report_.totals.bad_lines;
    if (report_.totals.num_documents > 0 || bad_lines.total() == 0) return;
    throw std::runtime_error("no line of the input is a document: " + bad_lines.summary() +
                             "; nothing was written");
  }

  void check_bad_lines(int64_t num_bad_lines) const {
    if (config_.max_bad_lines < 0 || num_bad_lines <= config_.max_bad_lines) return;
    throw std::runtime_error(
        fmt::format("more bad lines than --max-bad-lines {} allows; nothing was written",
                    config_.max_bad_lines));
  }

  // Memory that one huge line took goes back; otherwise all chunks would grow to the longest line
  // in time.
  void recycle(ParcelPtr parcel) {
    const size_t held_bytes = std::exchange(parcel->held_bytes, 0);
    if (parcel->chunk.buffer.size() > 2 * config_.chunk_bytes) *parcel = Parcel{};
    budget_.release(held_bytes);
    free_.push(std::move(parcel));
  }

  const PipelineConfig& config_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  const PipelineEvents& events_;
  std::vector<std::unique_ptr<DatasetWriter>> writers_;
  PipelineReport report_;
  int64_t num_lines_before_ = 0;  // of the current input
  std::atomic<bool> cancelled_{false};
  ByteBudget budget_;
  BoundedQueue<ParcelPtr> free_, filled_;
  Reorderer done_;
};

}  // namespace

PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events) {
  return Pipeline(config, std::move(vocabulary), events).run();
}

}  // namespace weft
