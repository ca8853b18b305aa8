#include "trainer/resume/blend_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "indexed_dataset/order/blends/blend_sizes.h"

namespace weft {

namespace {

// A dataset of a blend.
struct Entry {
  std::string text;   // "GROUP: WEIGHT BEGIN:END PREFIX" as far as it has these
  std::string rules;  // all that the comparison looks at but the prefix
  std::string prefix;
};

std::vector<Entry> entries_of(std::span<const Blend> groups, bool weights_matter) {
  std::vector<Entry> entries;
  for (const Blend& blend : groups) {
    const std::string name = blend.name.empty() ? "" : blend.name + ": ";
    for (size_t i = 0; i < blend.prefixes.size(); ++i) {
      const std::string weight = blend.weights.empty() ? "" : fmt::format("{} ", blend.weights[i]);
      const std::string share = blend.shares.empty() ? ""
                                                     : fmt::format("{}:{} ", blend.shares[i].first,
                                                                   blend.shares[i].second);
      entries.push_back({name + weight + share + blend.prefixes[i],
                         name + (weights_matter ? weight : "") + share, blend.prefixes[i]});
    }
  }
  return entries;
}

bool differ_in_order_alone(std::vector<Entry> saved, std::vector<Entry> ours) {
  for (auto* entries : {&saved, &ours}) std::ranges::sort(*entries, {}, &Entry::text);
  return std::ranges::equal(saved, ours, {}, &Entry::text, &Entry::text);
}

std::unordered_map<std::string, const DatasetIdentity*> identities_of(const DataIdentity& data) {
  std::unordered_map<std::string, const DatasetIdentity*> identities;
  const std::vector<std::string> prefixes = data.blends.prefixes();
  for (size_t i = 0; i < std::min(prefixes.size(), data.datasets.size()); ++i)
    identities[prefixes[i]] = &data.datasets[i];
  return identities;
}

std::vector<std::string> prefixes_of(std::span<const Blend> groups) {
  std::vector<std::string> all;
  for (const Blend& blend : groups)
    all.insert(all.end(), blend.prefixes.begin(), blend.prefixes.end());
  return all;
}

}  // namespace

std::string was_and_is(const std::string& saved, const std::string& ours) {
  return fmt::format("was {} when the checkpoint was saved and is {} now", saved, ours);
}

std::vector<std::string> dataset_texts(const Blend& blend) {
  std::vector<std::string> texts;
  for (Entry& entry : entries_of({&blend, 1}, true)) texts.push_back(std::move(entry.text));
  return texts;
}

BlendComparison::BlendComparison(const DataIdentity& saved, const DataIdentity& ours,
                                 OrderKind order)
    : saved_(identities_of(saved)), ours_(identities_of(ours)), order_(order) {}

bool BlendComparison::have_equal_shares(std::span<const Blend> saved,
                                        std::span<const Blend> ours) const {
  return std::ranges::equal(saved, ours, [&](const Blend& a, const Blend& b) {
    if (a.weights.size() != b.weights.size()) return false;
    return a.weights == b.weights ||
           shares_of_weights(a.weights, order_) == shares_of_weights(b.weights, order_);
  });
}

std::optional<std::string> BlendComparison::find_difference(
    std::span<const Blend> saved_groups, std::span<const Blend> our_groups) const {
  const bool weights_matter = !have_equal_shares(saved_groups, our_groups);
  const auto saved = entries_of(saved_groups, weights_matter),
             ours = entries_of(our_groups, weights_matter);
  std::string first;
  int64_t count = 0;
  for (size_t i = 0; i < std::max(saved.size(), ours.size()); ++i) {
    const Entry* a = i < saved.size() ? &saved[i] : nullptr;
    const Entry* b = i < ours.size() ? &ours[i] : nullptr;
    if (a && b && a->rules == b->rules && is_same_dataset(a->prefix, b->prefix)) continue;
    if (count++ > 0) continue;
    first = fmt::format("dataset {} {}", i + 1,
                        was_and_is(a ? a->text : kNoEntry, b ? b->text : kNoEntry));
  }
  if (count == 0) return std::nullopt;
  if (count == 1) return first;
  return fmt::format("{} ({} datasets differ{})", first, count,
                     differ_in_order_alone(saved, ours)
                         ? ", in their order alone, which decides samples, too"
                         : "");
}

bool BlendComparison::is_same_dataset(const std::string& saved, const std::string& ours) const {
  const auto a = saved_.find(saved), b = ours_.find(ours);
  if (a == saved_.end() || b == ours_.end()) return saved == ours;
  return same_bytes(*a->second, *b->second);
}

std::optional<std::string> NamePairs::add(std::span<const Blend> saved_groups,
                                          std::span<const Blend> our_groups,
                                          const BlendComparison& comparison) {
  const auto saved = prefixes_of(saved_groups), ours = prefixes_of(our_groups);
  std::optional<std::string> first;
  for (size_t i = 0; i < std::min(saved.size(), ours.size()); ++i) {
    const std::string &a = saved[i], &b = ours[i];
    if (!comparison.is_same_dataset(a, b)) continue;
    const std::string& now = ours_of_.try_emplace(a, b).first->second;
    const std::string& then = saved_of_.try_emplace(b, a).first->second;
    if (first) continue;
    if (now != b) {
      first = fmt::format(
          "the schedule names {}, and --data-path or an earlier entry names {} with the same "
          "bytes, which was one dataset when the checkpoint was saved: name one of them in both",
          b, now);
    } else if (then != a) {
      first = fmt::format(
          "{} stands for {} and {}, which were two datasets with the same bytes when the "
          "checkpoint was saved: name both of them again",
          b, then, a);
    }
  }
  return first;
}

}  // namespace weft
