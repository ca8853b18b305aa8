// Records when operations ran on the streams of a device, by a pair of timed events around each.
//
// Between begin_step() and end_step() every operation leaves a span. Nothing waits: the events are
// read when the device has passed them, and then serve again. A wait of the compute stream for
// another stream is a span too, from the moment that the compute stream has nothing left to do
// until it goes on.
//
//   compute     |op|op|~~wait~~|op|      |op|        spans of operations and waits; the rest is idle
//   reduction      |all_reduce |
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/backend.h"
#include "trainer/profile/operation.h"

namespace weft {

// Times are in ms since the first recorded step began.
struct OperationSpan {
  static constexpr int kWait = -1;
  int operation = kWait;             // an index into OperationRecorder::operations()
  Stream stream = Stream::kCompute;  // where it ran, or the stream that was waited for
  double begin_ms = 0, end_ms = 0;
};
struct RecordedStep {
  double begin_ms = 0, end_ms = 0;   // on the compute stream
  std::vector<OperationSpan> spans;  // in the order in which the host enqueued them
};

class OperationRecorder {
 public:
  // Events are created, recorded and read on `device`, which outlives the recorder.
  explicit OperationRecorder(Backend& device) : device_(device) {}
  OperationRecorder(const OperationRecorder&) = delete;
  OperationRecorder& operator=(const OperationRecorder&) = delete;

  void begin_step();
  void end_step();
  bool is_recording() const { return is_recording_; }
  // Tells whether a step is recorded and no operation is under way: what a collective does on the
  // device to get its data to the host is part of it.
  bool takes_operations() const { return is_recording_ && !is_in_operation_; }

  // Between the construction of a Scope and its end() one operation is enqueued on `stream`. Only
  // while takes_operations(). An operation that throws has no end: on a lost device nothing can be
  // recorded.
  class Scope {
   public:
    Scope(OperationRecorder& recorder, const Operation& operation, Stream stream);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void end() { recorder_.end_span(span_, stream_); }

   private:
    OperationRecorder& recorder_;
    const Stream stream_;
    const size_t span_;
  };
  // `event` was recorded on `stream`; this is called for every record, also outside of steps.
  void note_record(EventId event, Stream stream);
  // Makes the compute stream wait for `event`. Only while takes_operations().
  void wait_on_compute(EventId event);

  // Reads the spans of the steps that the device has passed.
  void collect();
  // Returns the last events of the steps that are not collected: all others have happened when
  // these have.
  std::vector<EventId> uncollected_events() const;

  const std::vector<Operation>& operations() const { return operations_; }
  // Returns the steps that are collected, oldest first.
  const std::vector<RecordedStep>& steps() const { return steps_; }

 private:
  struct PendingSpan {
    OperationSpan span;
    EventId begin = 0, end = 0;
  };
  struct PendingStep {
    EventId begin = 0, end = 0;
    std::vector<PendingSpan> spans;
  };
  EventId take_event();
  // The CPU executes in place, so whatever is enqueued there holds up the compute stream.
  Stream place_of(Stream stream) const;
  // Its events are recorded on `recorded_on`, which for a wait is not the span's stream.
  size_t begin_span(const OperationSpan& span, Stream recorded_on);
  void end_span(size_t span, Stream recorded_on);
  int index_of(const Operation& operation);
  static std::vector<EventId> last_events(const PendingStep& step);
  void collect_oldest();

  Backend& device_;
  bool is_recording_ = false, is_in_operation_ = false;
  std::vector<Operation> operations_;
  std::deque<PendingStep> pending_;  // the last one is being recorded while is_recording_
  std::vector<RecordedStep> steps_;
  // The beginning of the latest collected step: the next one's is measured from it, since one event
  // pair far apart would be exact to some microseconds only.
  EventId latest_begin_ = 0;
  std::vector<EventId> free_events_;
  std::vector<Stream> stream_of_event_;  // by event
};

}  // namespace weft
