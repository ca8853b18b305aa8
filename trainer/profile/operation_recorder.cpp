#include "trainer/profile/operation_recorder.h"

#include <algorithm>
#include <cassert>

namespace weft {

EventId OperationRecorder::take_event() {
  if (free_events_.empty()) return device_.create_timed_event();
  const EventId event = free_events_.back();
  free_events_.pop_back();
  return event;
}

Stream OperationRecorder::place_of(Stream stream) const {
  return device_.kind() == DeviceKind::kCpu ? Stream::kCompute : stream;
}

void OperationRecorder::begin_step() {
  assert(!is_recording_);
  is_recording_ = true;
  PendingStep& step = pending_.emplace_back();
  step.begin = take_event();
  device_.record(step.begin, Stream::kCompute);
}

void OperationRecorder::end_step() {
  assert(is_recording_);
  is_recording_ = false;
  PendingStep& step = pending_.back();
  step.end = take_event();
  device_.record(step.end, Stream::kCompute);
}

size_t OperationRecorder::begin_span(const OperationSpan& span, Stream recorded_on) {
  assert(takes_operations());
  is_in_operation_ = true;
  std::vector<PendingSpan>& spans = pending_.back().spans;
  spans.push_back({.span = span, .begin = take_event()});
  device_.record(spans.back().begin, recorded_on);
  return spans.size() - 1;
}

void OperationRecorder::end_span(size_t span, Stream recorded_on) {
  PendingSpan& pending = pending_.back().spans[span];
  pending.end = take_event();
  device_.record(pending.end, recorded_on);
  is_in_operation_ = false;
}

OperationRecorder::Scope::Scope(OperationRecorder& recorder, const Operation& operation,
                                Stream stream)
    : recorder_(recorder),
      stream_(recorder.place_of(stream)),
      span_(recorder.begin_span({.operation = recorder.index_of(operation), .stream = stream_},
                                stream_)) {}

void OperationRecorder::note_record(EventId event, Stream stream) {
  const auto idx = static_cast<size_t>(event);
  if (idx >= stream_of_event_.size()) stream_of_event_.resize(idx + 1, Stream::kCompute);
  stream_of_event_[idx] = stream;
}

void OperationRecorder::wait_on_compute(EventId event) {
  const auto idx = static_cast<size_t>(event);
  const Stream awaited = idx < stream_of_event_.size() ? stream_of_event_[idx] : Stream::kCompute;
  const size_t span = begin_span({.stream = place_of(awaited)}, Stream::kCompute);
  device_.wait(Stream::kCompute, event);
  end_span(span, Stream::kCompute);
}

int OperationRecorder::index_of(const Operation& operation) {
  // A step has some dozens of kinds of operations.
  const auto same = std::find_if(operations_.begin(), operations_.end(), [&](const Operation& o) {
    return is_same_kind(o, operation) && o.flops == operation.flops && o.bytes == operation.bytes;
  });
  if (same != operations_.end()) return static_cast<int>(same - operations_.begin());
  operations_.push_back(operation);
  return static_cast<int>(operations_.size()) - 1;
}

std::vector<EventId> OperationRecorder::last_events(const PendingStep& step) {
  std::vector<EventId> events{step.end};
  for (const Stream stream : {Stream::kCommunication, Stream::kReduction, Stream::kCopy}) {
    const auto last =
        std::find_if(step.spans.rbegin(), step.spans.rend(), [&](const PendingSpan& pending) {
          return pending.span.operation != OperationSpan::kWait && pending.span.stream == stream;
        });
    if (last != step.spans.rend()) events.push_back(last->end);
  }
  return events;
}

std::vector<EventId> OperationRecorder::uncollected_events() const {
  std::vector<EventId> events;
  for (const PendingStep& step : pending_) {
    const std::vector<EventId> last = last_events(step);
    events.insert(events.end(), last.begin(), last.end());
  }
  return events;
}

void OperationRecorder::collect() {
  while (!pending_.empty() && !(is_recording_ && pending_.size() == 1)) {
    for (const EventId event : last_events(pending_.front())) {
      if (!device_.has_happened(event)) return;
    }
    collect_oldest();
  }
}

void OperationRecorder::collect_oldest() {
  const PendingStep& pending = pending_.front();
  RecordedStep step;
  if (!steps_.empty()) {
    step.begin_ms = steps_.back().begin_ms + device_.elapsed_ms(latest_begin_, pending.begin);
    free_events_.push_back(latest_begin_);
  }
  latest_begin_ = pending.begin;
  const auto ms_of = [&](EventId event) {
    return step.begin_ms + device_.elapsed_ms(pending.begin, event);
  };
  step.end_ms = ms_of(pending.end);
  free_events_.push_back(pending.end);
  for (const PendingSpan& span : pending.spans) {
    step.spans.push_back(span.span);
    step.spans.back().begin_ms = ms_of(span.begin);
    step.spans.back().end_ms = ms_of(span.end);
    free_events_.push_back(span.begin);
    free_events_.push_back(span.end);
  }
  steps_.push_back(std::move(step));
  pending_.pop_front();
}

}  // namespace weft
