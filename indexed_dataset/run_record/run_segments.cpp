#include "indexed_dataset/run_record/run_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "indexed_dataset/base/process/parallel_for.h"

namespace weft {
namespace {

// Returns the identity of each dataset of a split by its prefix.
std::map<std::string, const DatasetIdentity*> identities_of(const RunSegment& segment,
                                                            Split split) {
  std::map<std::string, const DatasetIdentity*> all, of_split;
  const std::vector<std::string> prefixes = segment.order.data.blends.prefixes();
  for (size_t i = 0; i < segment.datasets.size(); ++i) all[prefixes[i]] = &segment.datasets[i];
  SplitBlends blends = segment.order.data.blends;
  for (const Split other : {Split::kTrain, Split::kValid, Split::kTest}) {
    if (other != split) blends.blends[static_cast<size_t>(other)].clear();
  }
  if (split != Split::kTrain) blends.changes.clear();
  for (const std::string& prefix : blends.prefixes()) {
    if (const auto found = all.find(prefix); found != all.end()) of_split.insert(*found);
  }
  return of_split;
}

}  // namespace

DatasetNames dataset_names_of(const std::vector<RunSegment>& segments) {
  std::vector<std::string> prefixes;
  for (const RunSegment& segment : segments) {
    const std::vector<std::string> of_segment = segment.order.data.blends.prefixes();
    prefixes.insert(prefixes.end(), of_segment.begin(), of_segment.end());
  }
  return {prefixes, std::filesystem::current_path()};
}

bool have_equal_samples(const RunSegment& a, const RunSegment& b, Split split) {
  for (const RunSegment* segment : {&a, &b}) {
    if (!segment->order.data.blends.unknown_because.empty()) return false;
  }
  const auto of_b = identities_of(b, split);
  for (const auto& [prefix, identity] : identities_of(a, split)) {
    const auto found = of_b.find(prefix);
    if (found != of_b.end() && !same_bytes(*identity, *found->second)) return false;
  }
  const DatasetOptions &x = a.order.data, &y = b.order.data;
  if (split == Split::kTrain &&
      (x.blends.changes != y.blends.changes || x.curriculum != y.curriculum))
    return false;
  return x.blends.of(split) == y.blends.of(split) &&
         x.blends.has_own_paths == y.blends.has_own_paths &&
         (x.blends.has_own_paths || is_same_split(x.split, y.split)) && x.order == y.order &&
         x.sequence_length == y.sequence_length && x.seed == y.seed && x.surplus == y.surplus &&
         x.cyclic == y.cyclic && x.full_validation == y.full_validation &&
         num_asked_samples(a.order, split) == num_asked_samples(b.order, split);
}

namespace {

const RunSegment& segment_of(const std::vector<RunSegment>& segments, int64_t iteration) {
  const auto next = std::find_if(segments.begin(), segments.end(), [&](const RunSegment& segment) {
    return segment.resumed.iteration >= iteration;
  });
  if (next == segments.begin()) {
    throw std::runtime_error(
        fmt::format("the run's folder tells of iterations from {} on: the run began there, from a "
                    "checkpoint of another run, whose folder may tell of iteration {}",
                    segments.front().resumed.iteration + 1, iteration));
  }
  return *(next - 1);
}

// The one that makes up for the evaluation after an iteration; null if none does.
const RunSegment* find_made_up(const std::vector<RunSegment>& segments, int64_t iteration) {
  const auto found =
      std::find_if(segments.rbegin(), segments.rend(), [&](const RunSegment& segment) {
        return segment.makes_up_evaluation && segment.resumed.iteration == iteration;
      });
  return found == segments.rend() ? nullptr : &*found;
}

bool evaluates_after(const SampleOrder& order, int64_t iteration) {
  return order.eval_iters != 0 && iteration % order.eval_interval == 0;
}

}  // namespace

void check_step(const std::vector<RunSegment>& segments, const LoggedStep& step) {
  const RunSegment& segment = segment_of(segments, step.iteration);
  if (!segment.order.global_batch_size) return;  // it does not tell what iterations take
  const auto refuse = [&](const std::string& by_manifest) {
    throw std::runtime_error(fmt::format(
        "metrics.jsonl says that iteration {} took samples {} to {}, and run_manifest.json {}: the two "
        "files are not of one run; put the run's own files back, or start it once more if it was "
        "stopped while it was being resumed",
        step.iteration, step.first_sample(), step.consumed_samples, by_manifest));
  };
  try {
    const auto [first, last] = samples_of_iteration(segment.order, step.iteration, segment.resumed);
    if (first == step.first_sample() && last == step.consumed_samples) return;
    refuse(fmt::format("samples {} to {}", first, last));
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
}

void check_same_datasets(const RunSegment& segment, Split split, const std::string& group) {
  const std::vector<std::string>& named =
      find_group(segment.order.data.blends, split, group).prefixes;
  std::vector<std::pair<std::string, const DatasetIdentity*>> read;
  for (const auto& [prefix, identity] : identities_of(segment, split)) {
    // Training has one group, whose blend may change.
    if (split == Split::kTrain || std::find(named.begin(), named.end(), prefix) != named.end())
      read.emplace_back(prefix, identity);
  }
  const auto num_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  parallel_for(std::ssize(read), num_threads, [&](int64_t i) {
    const auto& [prefix, identity] = read[static_cast<size_t>(i)];
    if (!std::filesystem::exists(prefix + ".idx")) {
      throw std::system_error(
          std::make_error_code(std::errc::no_such_file_or_directory),
          fmt::format(
              "the run read the dataset {}, which is not there; was it moved? Link both of its "
              "files to this place: ln -s NEW.idx {}.idx, and the same for .bin",
              prefix, prefix));
    }
    check_same_dataset(prefix, *identity);
  });
}

SegmentSamples samples_of_iteration(const std::vector<RunSegment>& segments, int64_t iteration) {
  const RunSegment& segment = segment_of(segments, iteration);
  const auto [first, last] = samples_of_iteration(segment.order, iteration, segment.resumed);
  return {&segment, first, last};
}

bool has_evaluation(const std::vector<RunSegment>& segments, int64_t iteration) {
  const RunSegment* made_up = find_made_up(segments, iteration);
  return evaluates_after((made_up ? *made_up : segment_of(segments, iteration)).order, iteration);
}

void check_evaluations_known(const RunSegment& segment) {
  if (segment.unknown_evaluations.empty()) return;
  throw std::runtime_error(
      "with " + segment.unknown_evaluations +
      " the samples of validation and test are not computed here, as versions of Megatron differ "
      "in how many they take; those of training are");
}

SegmentSamples samples_of_validation(const RunSegment& segment, int64_t num_before) {
  check_evaluations_known(segment);
  const SampleOrder& order = segment.order;
  // Those programs evaluate with the batch size of the iteration before, later ones with the full one.
  if (order.data.takes_megatron_caches && rules_of(order.data.order).precedes_core &&
      batch_sizes_of(order).changes()) {
    throw std::runtime_error(
        "Megatron before Core evaluated with the batch size of the moment, which changes in this run: "
        "the samples of an evaluation are not computed; give --sample-range");
  }
  if (order.data.full_validation && order.asked_samples)
    return {&segment, 0, order.asked_samples->valid_samples};
  if (order.data.full_validation || !segment.resumed_valid_samples || !order.global_batch_size) {
    throw std::runtime_error(
        "the run's folder does not tell with which validation sample it was resumed; give "
        "--sample-range");
  }
  int64_t samples = 0, first = 0, last = 0;
  if (__builtin_mul_overflow(order.eval_iters, *order.global_batch_size, &samples) ||
      __builtin_mul_overflow(num_before, samples, &first) ||
      __builtin_add_overflow(first, *segment.resumed_valid_samples, &first) ||
      __builtin_add_overflow(first, samples, &last))
    throw std::invalid_argument("the samples of an evaluation do not fit 64 bits");
  return {&segment, first, last};
}

SegmentSamples samples_of_evaluation(const std::vector<RunSegment>& segments, int64_t iteration) {
  const RunSegment* made_up = find_made_up(segments, iteration);
  const RunSegment& segment = made_up ? *made_up : segment_of(segments, iteration);
  const SampleOrder& order = segment.order;
  if (!evaluates_after(order, iteration)) {
    throw std::invalid_argument(fmt::format(
        "--iteration {}: no evaluation follows it (--eval-iters {}, --eval-interval {})", iteration,
        order.eval_iters, order.eval_interval));
  }
  const int64_t num_before = made_up ? 0
                                     : iteration / order.eval_interval -
                                           segment.resumed.iteration / order.eval_interval - 1 +
                                           (segment.makes_up_evaluation ? 1 : 0);
  return samples_of_validation(segment, num_before);
}

int64_t end_of_samples(const RunSegment& segment, Split split) {
  const int64_t num_asked = num_asked_samples(segment.order, split);
  if (split != Split::kTrain || segment.resumed.iteration == 0 || !segment.num_iterations)
    return num_asked;
  const auto last =
      samples_of_iteration(segment.order, *segment.num_iterations, segment.resumed).second;
  return std::max(num_asked, last);
}

std::vector<SegmentSamples> samples_in_range(const std::vector<RunSegment>& segments, Split split,
                                             int64_t first, int64_t last) {
  if (split != Split::kTrain) {
    const RunSegment& newest = segments.back();
    for (const RunSegment& segment : segments) {
      if (have_equal_samples(segment, newest, split)) continue;
      throw std::runtime_error(fmt::format(
          "the run was resumed at iteration {} with other data, length, seed or number of samples, "
          "and its folder does not tell which evaluation took samples {} to {} of {}; give the "
          "arguments of the part that you mean by hand (--data-path ...)",
          newest.resumed.iteration, first, last, split_name(split)));
    }
    return {{&newest, first, last}};
  }
  if (first < segments.front().resumed.samples) {
    throw std::runtime_error(
        fmt::format("the run's folder tells of samples from {} on: the run began there, from a "
                    "checkpoint of another run, whose folder may tell of sample {}",
                    segments.front().resumed.samples, first));
  }
  std::vector<SegmentSamples> parts;
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool is_last = i + 1 == segments.size();
    const int64_t begin = std::max(first, segments[i].resumed.samples);
    const int64_t end = is_last ? last : std::min(last, segments[i + 1].resumed.samples);
    if (begin < end) parts.push_back({&segments[i], begin, end});
  }
  return parts;
}

}  // namespace weft
