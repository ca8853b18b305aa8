#include "preprocess/inspect/lookup/run_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "indexed_dataset/base/process/parallel_for.h"

namespace weft {
namespace {

// The samples that one run takes in one iteration.
struct Batch {
  const RunSegment* segment = nullptr;
  int64_t first = 0, last = 0;
};

// The batches of iterations [first, last], as far as the run's arguments go.
std::vector<Batch> batches_of(const std::vector<RunSegment>& segments, int64_t first,
                              int64_t last) {
  std::vector<Batch> batches;
  const SegmentSamples begin = samples_of_iteration(segments, first);
  int64_t iteration = first, sample = begin.first;
  for (const Stretch& stretch : stretches_of(segments, Split::kTrain)) {
    if (stretch.last <= sample) continue;
    sample = std::max(sample, stretch.first);
    const BatchSizePlan plan = batch_sizes_of(stretch.segment->order);
    for (; sample < stretch.last && iteration <= last; ++iteration) {
      const int64_t next = sample + plan.batch_size(sample);
      batches.push_back({stretch.segment, sample, next});
      sample = next;
    }
  }
  return batches;
}

const DatasetIdentity* find_identity(const RunSegment& segment, const std::string& prefix) {
  const std::vector<std::string> prefixes = segment.order.data.blends.prefixes();
  const auto found = std::find(prefixes.begin(), prefixes.end(), prefix);
  const auto at = static_cast<size_t>(found - prefixes.begin());
  return at < segment.datasets.size() ? &segment.datasets[at] : nullptr;
}

// Both sides of two batches, whose samples are compared.
class BatchPair {
 public:
  BatchPair(const Batch& a, const TakenSamples& samples_a, const Batch& b,
            const TakenSamples& samples_b)
      : a_(a), b_(b), samples_a_(samples_a), samples_b_(samples_b) {}

  DifferentIteration compare() const {
    DifferentIteration difference;
    const int64_t size_a = a_.last - a_.first, size_b = b_.last - b_.first;
    difference.num_samples = std::max(size_a, size_b);
    for (int64_t i = 0; i < difference.num_samples; ++i) {
      if (i < size_a && i < size_b && are_equal(a_.first + i, b_.first + i)) continue;
      if (difference.num_different++ > 0) continue;
      difference.slot_idx = i;
      if (i < size_a) difference.samples[0] = a_.first + i;
      if (i < size_b) difference.samples[1] = b_.first + i;
    }
    return difference;
  }

 private:
  bool are_equal(int64_t a, int64_t b) const {
    const LengthCurriculum::Row row_a = samples_a_.row(a), row_b = samples_b_.row(b);
    if (row_a.length != row_b.length || row_a.num_repeated != row_b.num_repeated) return false;
    if (unseen_tokens(samples_a_, a) != unseen_tokens(samples_b_, b)) return false;
    // Both runs' datasets were compared with what lies there: one prefix is one dataset.
    if (samples_a_.reader(a).prefix() == samples_b_.reader(b).prefix() &&
        samples_a_.parts(a) == samples_b_.parts(b))
      return true;
    return samples_a_.tokens(a) == samples_b_.tokens(b);
  }

  // Returns where the pieces without loss lie in a sample.
  static std::vector<std::pair<int64_t, int64_t>> unseen_tokens(const TakenSamples& samples,
                                                                int64_t i) {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    if (!samples.unseen()) return ranges;
    int64_t begin = 0;
    for (const SamplePart& part : samples.parts(i)) {
      if (samples.is_unseen(i, part)) ranges.emplace_back(begin, begin + part.num_tokens);
      begin += part.num_tokens;
    }
    return ranges;
  }

  const Batch &a_, &b_;
  const TakenSamples &samples_a_, &samples_b_;
};

std::string text_of(const Blend& blend) {
  std::string text;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    if (i > 0) text += " ";
    if (!blend.weights.empty()) text += fmt::format("{} ", blend.weights[i]);
    if (!blend.shares.empty())
      text += fmt::format("{}:{} ", blend.shares[i].first, blend.shares[i].second);
    text += blend.prefixes[i];
  }
  return text;
}

std::string text_of(const std::vector<BlendChange>& changes) {
  std::string text;
  for (const BlendChange& change : changes) {
    text += fmt::format("{}from {} {}: {}", text.empty() ? "" : "; ",
                        change.from_samples ? "sample" : "token",
                        change.from_samples ? *change.from_samples : change.from_tokens.value_or(0),
                        text_of(change.blend));
  }
  return text.empty() ? "none" : text;
}

std::string text_of(const std::optional<CyclicOptions>& cyclic) {
  if (!cyclic) return "single";
  return fmt::format("cyclic of micro-batches of {} on {} ranks{}", cyclic->micro_batch_size,
                     cyclic->data_parallel_size, cyclic->shards ? "" : ", without sharding");
}

std::string text_of(const CurriculumOptions& curriculum) {
  const auto& [type, mode, from, to, steps, step, root, lengths, ends] = curriculum;
  if (type.empty()) return "";
  if (type == "fixed_discrete") {
    return fmt::format("{} {} of {} tokens up to iterations {}", mode, type,
                       fmt::join(lengths, ", "), fmt::join(ends, ", "));
  }
  return fmt::format("{} {} from {} to {} tokens in {} iterations, by {}{}", mode, type, from, to,
                     steps, step, type == "fixed_root" ? fmt::format(", root {}", root) : "");
}

// Every value that decides which samples an iteration takes, by the option's name.
std::vector<std::pair<std::string, std::string>> facts_of(const RunSegment& segment) {
  const SampleOrder& order = segment.order;
  const DatasetOptions& data = order.data;
  std::vector<std::pair<std::string, std::string>> facts;
  const std::vector<Blend>& blends = data.blends.of(Split::kTrain);
  facts.emplace_back("the training datasets", blends.empty() ? "" : text_of(blends.front()));
  facts.emplace_back("--blend-schedule", text_of(data.blends.changes));
  facts.emplace_back("--split", data.blends.has_own_paths ? "paths of each split" : data.split);
  facts.emplace_back("--sample-order", name_of(data.order));
  facts.emplace_back("--seq-length", std::to_string(data.sequence_length));
  facts.emplace_back("--seed", std::to_string(data.seed));
  facts.emplace_back("--mid-level-dataset-surplus", fmt::format("{}", data.surplus));
  facts.emplace_back("--dataloader-type", text_of(data.cyclic));
  facts.emplace_back("--curriculum-metrics", data.curriculum ? data.curriculum->metrics : "none");
  facts.emplace_back("--curriculum-metrics-seed",
                     data.curriculum ? std::to_string(data.curriculum->seed) : "none");
  facts.emplace_back("training samples that are asked for",
                     std::to_string(num_asked_samples(order, Split::kTrain)));
  facts.emplace_back("--global-batch-size",
                     order.global_batch_size ? std::to_string(*order.global_batch_size) : "");
  facts.emplace_back("--rampup-batch-size",
                     fmt::format("{}", fmt::join(order.rampup_batch_size, " ")));
  facts.emplace_back("--step-batch-size-schedule", order.step_batch_size_schedule);
  facts.emplace_back("the curriculum", text_of(order.curriculum));
  facts.emplace_back("--unsee, by its SHA-256", segment.unsee ? segment.unsee->sha256 : "");
  for (const std::string& prefix : data.blends.prefixes()) {
    if (const DatasetIdentity* identity = find_identity(segment, prefix))
      facts.emplace_back("the dataset " + prefix, describe(*identity));
  }
  facts.emplace_back(
      "where it was resumed",
      fmt::format("iteration {}, sample {}", segment.resumed.iteration, segment.resumed.samples));
  return facts;
}

std::vector<std::string> differences_of(const RunSegment& a, const RunSegment& b) {
  std::vector<std::string> reasons;
  const auto of_b = facts_of(b);
  const std::map<std::string, std::string> values(of_b.begin(), of_b.end());
  const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
  for (const auto& [name, value] : facts_of(a)) {
    const auto other = values.find(name);
    // A dataset that one run alone has is among the training datasets already.
    if (other == values.end() || other->second == value) continue;
    reasons.push_back(name + ": " + shown(value) + " and " + shown(other->second));
  }
  return reasons;
}

}  // namespace

RunDifference compare_runs(RunSamples& a, RunSamples& b, int64_t first, int64_t last,
                           int64_t num_kept, int num_threads) {
  const std::vector<Batch> of_a = batches_of(a.segments(), first, last),
                           of_b = batches_of(b.segments(), first, last);
  const size_t count = std::min(of_a.size(), of_b.size());
  if (count == 0) throw std::invalid_argument("the runs have no such iteration in common");
  RunDifference result;
  result.first_iteration = first;
  result.last_iteration = first + static_cast<int64_t>(count) - 1;
  const auto samples_of = [](RunSamples& run, const Batch& batch) {
    const std::string& group = batch.segment->order.data.blends.of(Split::kTrain).at(0).name;
    return run.find(*batch.segment, Split::kTrain, group);
  };
  std::vector<std::pair<const TakenSamples*, const TakenSamples*>> samples(count);
  for (size_t i = 0; i < count; ++i) {
    const bool is_as_before =
        i > 0 && of_a[i].segment == of_a[i - 1].segment && of_b[i].segment == of_b[i - 1].segment;
    samples[i] =
        is_as_before ? samples[i - 1] : std::pair(samples_of(a, of_a[i]), samples_of(b, of_b[i]));
  }
  std::vector<DifferentIteration> differences(count);
  parallel_for(static_cast<int64_t>(count), num_threads, [&](int64_t at) {
    const auto i = static_cast<size_t>(at);
    const Batch &x = of_a[i], &y = of_b[i];
    differences[i].num_samples = x.last - x.first;
    // Equal arguments give equal samples: nothing need be looked at.
    const auto is_plain = [](const TakenSamples& taken) {
      return taken.are_whole() && !taken.unseen();
    };
    const bool is_same = x.first == y.first && x.last == y.last && is_plain(*samples[i].first) &&
                         is_plain(*samples[i].second) &&
                         have_equal_samples(*x.segment, *y.segment, Split::kTrain);
    if (!is_same) differences[i] = BatchPair(x, *samples[i].first, y, *samples[i].second).compare();
  });
  size_t where = 0;
  for (size_t i = 0; i < count; ++i) {
    DifferentIteration& difference = differences[i];
    difference.iteration = first + static_cast<int64_t>(i);
    result.num_samples += difference.num_samples;
    result.num_different_samples += difference.num_different;
    if (difference.num_different == 0) continue;
    if (result.num_different_iterations++ == 0) where = i;
    if (std::ssize(result.iterations) < num_kept) result.iterations.push_back(difference);
  }
  result.reasons = differences_of(*of_a[where].segment, *of_b[where].segment);
  return result;
}

}  // namespace weft
