#include "indexed_dataset/order/samples/blending_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/process/out_of_memory.h"
#include "indexed_dataset/order/samples/furthest_behind.h"

namespace weft {
namespace {

// Datasets of equal weight. Their order depends only on how often each was taken, so they take
// turns in the order of the list, and the group is behind by as much as the member whose turn it
// is.
struct Group {
  double weight = 0;
  int64_t limit = std::numeric_limits<int64_t>::max();  // samples of each member
  std::vector<int32_t> members;                         // ascending
  size_t turn = 0;
  int64_t count = 0;  // samples taken of the member whose turn it is
};

std::vector<Group> group_by_weight(std::span<const double> weights,
                                   std::span<const int64_t> sizes) {
  std::map<double, Group> groups;
  for (size_t i = 0; i < weights.size(); ++i) {
    Group& group = groups[weights[i]];
    group.weight = weights[i];
    if (!sizes.empty()) group.limit = sizes[i];  // of equal weight, so of equal size
    group.members.push_back(static_cast<int32_t>(i));
  }
  std::vector<Group> result;
  for (auto& [weight, group] : groups) result.push_back(std::move(group));
  return result;
}

// Weights of groups and how often each was taken, side by side, so that the compiler computes
// several at a time. A group that is used up counts as taken infinitely often.
struct Columns {
  std::vector<double> weights, counts;
  size_t size() const { return weights.size(); }
  void clear() {
    weights.clear();
    counts.clear();
  }
  void add(double weight, double count) {
    weights.push_back(weight);
    counts.push_back(count);
  }
  // Adds groups that are never taken, until the lanes are full.
  void fill_up() {
    while (size() % kLanes != 0) add(0, -kNever);
  }
};

// Finds a value that at least m values reach, and not many more: the search begins with the last
// answer, because the next block's values are spread alike.
class Threshold {
 public:
  double find(const std::vector<double>& values, size_t size, int64_t m) {
    constexpr int kMaxProbes = 20;
    double step = 1.0 / 64, sufficient = kNever, excessive = -kNever;
    for (int probe = 0; probe < kMaxProbes; ++probe) {
      const int64_t count = count_from(values.data(), size, last_);
      if (count >= m && count <= m + m / 2) return last_;
      (count >= m ? sufficient : excessive) = last_;
      if (sufficient != kNever && excessive != -kNever) {
        last_ = (sufficient + excessive) / 2;
      } else {
        last_ += count >= m ? step : -step;
        step *= 2;
      }
    }
    sorted_.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(size));
    std::nth_element(sorted_.begin(), sorted_.begin() + (m - 1), sorted_.end(), std::greater<>());
    return last_ = sorted_[static_cast<size_t>(m - 1)];
  }

 private:
  double last_ = 0;
  std::vector<double> sorted_;
};

// Takes samples block by block. Before a block of B samples it looks at all groups: of the B groups
// that are furthest behind, one at least is untouched at each step of the block, and it never falls
// below `least` plus its weight times the steps. A group that cannot reach that within B steps is
// not looked at until the next block. Rounding can shift each value by 2^-52 (k + 1) at most.
template <typename Id>
class GreedyBlender {
 public:
  GreedyBlender(std::vector<Group> groups, int64_t size, std::vector<Id>& dataset_index,
                std::vector<int64_t>& sample_index)
      : groups_(std::move(groups)),
        size_(size),
        block_(std::max<int64_t>(
            16, static_cast<int64_t>(2 * std::sqrt(static_cast<double>(groups_.size()))))),
        dataset_index_(dataset_index),
        sample_index_(sample_index) {
    for (const Group& group : groups_) all_.add(group.weight, 0);
    all_.fill_up();
    behind_.resize(all_.size());
    flags_.resize(all_.size());
  }

  void run() {
    for (int64_t begin = 0; begin < size_; begin += block_) {
      choose_candidates(begin);
      const int64_t end = std::min(begin + block_, size_);
      for (int64_t k = begin; k < end; ++k) take(k);
    }
  }

 private:
  void choose_candidates(int64_t k) {
    const auto steps = static_cast<double>(block_);
    const double at = std::max(static_cast<double>(k), 1.0);
    compute_behind(all_.weights.data(), all_.counts.data(), all_.size(), at, behind_.data());
    const double least =
        threshold_.find(behind_, all_.size(), std::min(block_, std::ssize(groups_) - num_used_up_));
    const double least_weight =
        least_weight_from(all_.weights.data(), behind_.data(), all_.size(), least);
    const double rounding = std::ldexp(at + steps + 2, -49);
    flag_within_reach(all_.weights.data(), behind_.data(), all_.size(), least_weight, steps,
                      least - rounding, flags_.data());
    candidate_ids_.clear();
    candidates_.clear();
    for (size_t at_flag = 0; at_flag < all_.size(); at_flag += sizeof(uint64_t)) {
      uint64_t eight = 0;
      std::memcpy(&eight, &flags_[at_flag], sizeof eight);
      for (; eight != 0; eight &= eight - 1) {
        const size_t i = at_flag + static_cast<size_t>(std::countr_zero(eight)) / 8;
        candidate_ids_.push_back(i);
        candidates_.add(all_.weights[i], all_.counts[i]);
      }
    }
    candidates_.fill_up();
  }

  void take(int64_t k) {
    const Furthest furthest =
        find_furthest(candidates_.weights.data(), candidates_.counts.data(), candidates_.size(),
                      std::max(static_cast<double>(k), 1.0), behind_.data());
    const size_t chosen = furthest.count == 1 ? static_cast<size_t>(furthest.sum_of_positions)
                                              : first_in_list(furthest.behind);
    Group& group = groups_[candidate_ids_[chosen]];
    dataset_index_[static_cast<size_t>(k)] = static_cast<Id>(group.members[group.turn]);
    sample_index_[static_cast<size_t>(k)] = group.count;
    if (++group.turn == group.members.size()) finish_round(group, chosen);
  }

  // The candidate whose dataset comes first in the list, of those that are behind by this.
  size_t first_in_list(double behind) const {
    size_t first = 0;
    int32_t dataset = std::numeric_limits<int32_t>::max();
    for (size_t i = 0; i < candidate_ids_.size(); ++i) {
      if (behind_[i] != behind) continue;
      const Group& group = groups_[candidate_ids_[i]];
      if (group.members[group.turn] >= dataset) continue;
      dataset = group.members[group.turn];
      first = i;
    }
    return first;
  }

  // Every member of the group was taken once more.
  void finish_round(Group& group, size_t candidate_idx) {
    group.turn = 0;
    ++group.count;
    const bool is_used_up = group.count == group.limit;
    num_used_up_ += is_used_up ? 1 : 0;
    const double count = is_used_up ? -kNever : static_cast<double>(group.count);
    candidates_.counts[candidate_idx] = count;
    all_.counts[candidate_ids_[candidate_idx]] = count;
  }

  std::vector<Group> groups_;
  const int64_t size_, block_;
  int64_t num_used_up_ = 0;
  Columns all_, candidates_;
  std::vector<size_t> candidate_ids_;
  std::vector<double> behind_;
  std::vector<uint8_t> flags_;
  Threshold threshold_;
  std::vector<Id>& dataset_index_;
  std::vector<int64_t>& sample_index_;
};

template <typename Id>
std::vector<Id> blend(std::span<const double> weights, std::span<const int64_t> sizes, int64_t size,
                      BlendingIndex& index) {
  std::vector<Id> dataset_index(static_cast<size_t>(size));
  index.sample_index.resize(static_cast<size_t>(size));
  GreedyBlender<Id>(group_by_weight(weights, sizes), size, dataset_index, index.sample_index).run();
  return dataset_index;
}

BlendingIndex blend_any(std::span<const double> weights, std::span<const int64_t> sizes,
                        int64_t size) {
  if (weights.empty() || weights.size() >= static_cast<size_t>(INT32_MAX))
    throw std::invalid_argument("a blend of " + std::to_string(weights.size()) + " datasets");
  BlendingIndex index;
  if (weights.size() <= kMaxMegatronDatasets) {
    index.dataset_index = blend<int16_t>(weights, sizes, size, index);
  } else {
    index.dataset_index = blend<int32_t>(weights, sizes, size, index);
  }
  index.counts = index.view().counts(weights.size());
  return index;
}

}  // namespace

BlendingIndexView BlendingIndexView::first(int64_t size) const {
  const auto count = static_cast<size_t>(size);
  BlendingIndexView view{.dataset_index = {}, .sample_index = sample_index.first(count)};
  std::visit([&](const auto& of) { view.dataset_index = of.first(count); }, dataset_index);
  return view;
}

std::vector<int64_t> BlendingIndexView::counts(size_t num_datasets) const {
  std::vector<int64_t> counts(num_datasets);
  const auto count = [&](const auto& of) {
    for (const auto dataset : of) {
      if (dataset < 0 || static_cast<size_t>(dataset) >= num_datasets) {
        throw std::runtime_error("it has samples of a dataset " + std::to_string(dataset));
      }
      ++counts[static_cast<size_t>(dataset)];
    }
  };
  std::visit(count, dataset_index);
  return counts;
}

BlendingIndexView BlendingIndex::view() const {
  BlendingIndexView view{.dataset_index = {}, .sample_index = sample_index};
  std::visit([&](const auto& of) { view.dataset_index = std::span(of); }, dataset_index);
  return view;
}

BlendingIndex build_blending_index(std::span<const double> weights, int64_t size) {
  require_memory(static_cast<double>(size) * (sizeof(int16_t) + sizeof(int64_t)),
                 "the index of a blend of " + std::to_string(size) + " samples",
                 "ask for fewer samples (--train-samples, or --train-iters and "
                 "--global-batch-size)");
  return blend_any(weights, {}, size);
}

BlendingIndex build_exhaustive_blending_index(std::span<const int64_t> sizes) {
  int64_t total = 0;
  for (const int64_t size : sizes) {
    if (size < 1 || __builtin_add_overflow(total, size, &total))
      throw std::invalid_argument("a blend of a dataset with " + std::to_string(size) + " samples");
  }
  std::vector<double> weights;
  for (const int64_t size : sizes)
    weights.push_back(static_cast<double>(size) / static_cast<double>(total));
  return blend_any(weights, sizes, total);
}

}  // namespace weft
