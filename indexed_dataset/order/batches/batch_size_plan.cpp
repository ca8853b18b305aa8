#include "indexed_dataset/order/batches/batch_size_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

[[noreturn]] void throw_bad(const std::string& schedule, const std::string& what) {
  throw UsageError("--step-batch-size-schedule '" + schedule + "': " + what +
                   "; give TOKENS:SIZE TOKENS:SIZE ..., such as 0:768 250B:1536");
}

// "250B", "1.5M", "768". Megatron multiplies as doubles, too, and drops what is behind the point.
std::optional<int64_t> find_number(std::string text) {
  constexpr const char* kSuffixes = "KMBT";
  double factor = 1;
  if (!text.empty()) {
    const char upper = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
    if (const char* at = std::strchr(kSuffixes, upper); at != nullptr && *at != '\0') {
      factor = std::pow(1000.0, static_cast<double>(at - kSuffixes + 1));
      text.pop_back();
    }
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr double kMost = 9.0e18;
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) ||
      !(value * factor < kMost))
    return std::nullopt;
  return static_cast<int64_t>(value * factor);
}

}  // namespace

BatchSizePlan::BatchSizePlan(int64_t full, const std::vector<int64_t>& rampup) : steps_{{0, full}} {
  if (rampup.size() != 3 || rampup[0] < 1 || rampup[0] > full || rampup[1] < 1) return;
  start_ = rampup[0];
  increment_ = rampup[1];
  samples_ = rampup[2];
  const int64_t num_increments = (full - start_) / increment_;
  samples_per_increment_ = static_cast<double>(samples_) / static_cast<double>(num_increments);
}

BatchSizePlan BatchSizePlan::of_steps(const std::string& schedule, int64_t sequence_length) {
  BatchSizePlan plan;
  std::string words = schedule;
  std::replace(words.begin(), words.end(), ',', ' ');
  std::istringstream stream(words);
  int64_t tokens_before = 0;
  for (std::string word; stream >> word;) {
    const size_t colon = word.find(':');
    if (colon == std::string::npos) throw_bad(schedule, word + " has no colon");
    const auto tokens = find_number(word.substr(0, colon)),
               size = find_number(word.substr(colon + 1));
    if (!tokens || !size || *size < 1) throw_bad(schedule, word + " is not TOKENS:SIZE");
    // A suffix that was mistyped would otherwise move a size to another place without a word.
    if (!plan.steps_.empty() && *tokens <= tokens_before) {
      throw_bad(schedule, word + " comes after a size from " + std::to_string(tokens_before) +
                              " tokens on, and tokens must increase");
    }
    tokens_before = *tokens;
    plan.steps_.push_back({*tokens / sequence_length, *size});
  }
  if (plan.steps_.empty() || plan.steps_.front().first_sample != 0)
    throw_bad(schedule, "the first size must be that from 0 on");
  for (size_t i = 1; i < plan.steps_.size(); ++i) {
    if (plan.steps_[i].first_sample == plan.steps_[i - 1].first_sample) {
      throw_bad(schedule, "two sizes begin with sample " +
                              std::to_string(plan.steps_[i].first_sample) + " of --seq-length " +
                              std::to_string(sequence_length));
    }
  }
  return plan;
}

BatchSizePlan BatchSizePlan::of_options(const std::string& step_schedule, int64_t full,
                                        const std::vector<int64_t>& rampup,
                                        int64_t sequence_length) {
  return step_schedule.empty() ? BatchSizePlan(full, rampup)
                               : of_steps(step_schedule, sequence_length);
}

int64_t BatchSizePlan::largest() const {
  int64_t largest = 0;
  for (const Step& step : steps_) largest = std::max(largest, step.batch_size);
  return largest;
}

std::vector<int64_t> BatchSizePlan::sizes() const {
  std::vector<int64_t> sizes;
  for (const Step& step : steps_) sizes.push_back(step.batch_size);
  return sizes;
}

BatchSizePlan::Stretch BatchSizePlan::stretch_at(int64_t consumed) const {
  if (increment_ > 0 && consumed <= samples_ && samples_ > 0) {
    const auto steps = static_cast<int64_t>(static_cast<double>(consumed) / samples_per_increment_);
    return {start_ + steps * increment_, 1};
  }
  const auto next =
      std::upper_bound(steps_.begin(), steps_.end(), consumed,
                       [](int64_t sample, const Step& step) { return sample < step.first_sample; });
  const int64_t size = std::prev(next)->batch_size;
  if (next == steps_.end()) return {size, INT64_MAX};
  return {size, (next->first_sample - consumed - 1) / size + 1};
}

std::optional<int64_t> BatchSizePlan::consumed_after(int64_t iterations, int64_t consumed) const {
  while (iterations > 0) {
    const Stretch stretch = stretch_at(consumed);
    const int64_t count = std::min(iterations, stretch.num_batches);
    int64_t taken = 0;
    if (__builtin_mul_overflow(count, stretch.batch_size, &taken) ||
        __builtin_add_overflow(consumed, taken, &consumed))
      return std::nullopt;
    iterations -= count;
  }
  return consumed;
}

int64_t BatchSizePlan::iterations_within(int64_t num_samples, int64_t consumed) const {
  int64_t iterations = 0;
  if (consumed >= num_samples) return 0;
  while (true) {
    const Stretch stretch = stretch_at(consumed);
    const int64_t count =
        std::min((num_samples - consumed) / stretch.batch_size, stretch.num_batches);
    iterations += count;
    consumed += count * stretch.batch_size;
    if (count < stretch.num_batches) return iterations;
  }
}

}  // namespace weft
