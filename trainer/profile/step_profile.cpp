#include "trainer/profile/step_profile.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

// The lines hold sums over all steps until averages() divides them.
class Lines {
 public:
  explicit Lines(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      size_t line = 0;
      while (line < lines_.size() && !is_same_kind(lines_[line].operation, operation)) ++line;
      if (line == lines_.size()) {
        lines_.push_back({.operation = operation});
        lines_.back().operation.flops = lines_.back().operation.bytes = 0;
      }
      line_of_.push_back(line);
    }
  }

  ProfileLine& add(const Operation& operation, const OperationSpan& span) {
    ProfileLine& line = lines_[line_of_[static_cast<size_t>(span.operation)]];
    line.operation.flops += operation.flops;
    line.operation.bytes += operation.bytes;
    line.calls += 1;
    line.ms += span.end_ms - span.begin_ms;
    return line;
  }

  std::vector<ProfileLine> averages(double num_steps) {
    for (ProfileLine& line : lines_) {
      line.operation.flops /= line.calls;
      line.operation.bytes /= line.calls;
      for (double* sum : {&line.calls, &line.ms, &line.exposed_ms, &line.idle_before_ms})
        *sum /= num_steps;
    }
    std::sort(lines_.begin(), lines_.end(), [](const ProfileLine& a, const ProfileLine& b) {
      return a.exposed_ms > b.exposed_ms;
    });
    return lines_;
  }

 private:
  std::vector<ProfileLine> lines_;
  std::vector<size_t> line_of_;  // by operation
};

double overlap_ms(const OperationSpan& a, const OperationSpan& b) {
  return std::max(0.0, std::min(a.end_ms, b.end_ms) - std::max(a.begin_ms, b.begin_ms));
}

}  // namespace

StepProfile profile_of(const std::vector<Operation>& operations,
                       const std::vector<RecordedStep>& steps) {
  StepProfile profile;
  profile.num_steps = static_cast<int64_t>(steps.size());
  if (steps.empty()) return profile;
  Lines lines(operations);
  std::map<Stream, std::vector<OperationSpan>> waits;  // for each stream, in the order of time
  for (const RecordedStep& step : steps) {
    double busy_until_ms = step.begin_ms;
    for (const OperationSpan& span : step.spans) {
      const bool is_wait = span.operation == OperationSpan::kWait;
      if (is_wait) {
        waits[span.stream].push_back(span);
        profile.other_wait_ms += span.end_ms - span.begin_ms;
      }
      if (!is_wait && span.stream != Stream::kCompute) continue;
      const double idle_ms = std::max(0.0, span.begin_ms - busy_until_ms);
      profile.idle_ms += idle_ms;
      busy_until_ms = std::max(busy_until_ms, span.end_ms);
      if (is_wait) continue;
      ProfileLine& line = lines.add(operations[static_cast<size_t>(span.operation)], span);
      line.exposed_ms += span.end_ms - span.begin_ms;
      line.idle_before_ms += idle_ms;
    }
    profile.idle_ms += std::max(0.0, step.end_ms - busy_until_ms);
    profile.step_ms += step.end_ms - step.begin_ms;
  }
  for (size_t i = 0; i + 1 < steps.size(); ++i)
    profile.between_steps_ms += steps[i + 1].begin_ms - steps[i].end_ms;

  // A collective that a step enqueues may end in the next one, so this is done over all steps.
  for (const RecordedStep& step : steps) {
    for (const OperationSpan& span : step.spans) {
      if (span.operation == OperationSpan::kWait || span.stream == Stream::kCompute) continue;
      ProfileLine& line = lines.add(operations[static_cast<size_t>(span.operation)], span);
      const std::vector<OperationSpan>& of_stream = waits[span.stream];
      auto wait = std::partition_point(
          of_stream.begin(), of_stream.end(),
          [&](const OperationSpan& other) { return other.end_ms <= span.begin_ms; });
      for (; wait != of_stream.end() && wait->begin_ms < span.end_ms; ++wait) {
        const double exposed_ms = overlap_ms(span, *wait);
        line.exposed_ms += exposed_ms;
        profile.other_wait_ms -= exposed_ms;
      }
    }
  }
  const auto num_steps = static_cast<double>(profile.num_steps);
  for (double* sum : {&profile.step_ms, &profile.other_wait_ms, &profile.idle_ms})
    *sum /= num_steps;
  if (profile.num_steps > 1) profile.between_steps_ms /= num_steps - 1;
  profile.lines = lines.averages(num_steps);
  return profile;
}

}  // namespace weft
