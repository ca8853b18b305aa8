// The table of GEMM choices of a run. With the same choices a restarted run, or another rank,
// computes with the same algorithms, and so with the same bits.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "kernels/algorithm_choices.h"

namespace weft::cuda {

class AlgorithmTable {
 public:
  // Returns the choice of a key, which then counts as in use.
  std::optional<std::string> find(const std::string& key) {
    const auto it = values_.find(key);
    if (it == values_.end()) return std::nullopt;
    in_use_.insert(key);
    return it->second;
  }
  // The same for choices that are in use already or that use() has brought. A product that
  // was not timed for this run must not follow the file of one machine, which other ranks and
  // other nodes do not have.
  std::optional<std::string> find_settled(const std::string& key) {
    return in_use_.contains(key) || settled_.contains(key) ? find(key) : std::nullopt;
  }
  // Forgets the choice of a key, unless use() has brought it. Returns whether it did.
  bool try_forget(const std::string& key) {
    if (settled_.contains(key)) return false;
    values_.erase(key);
    in_use_.erase(key);
    return true;
  }
  void add(const std::string& key, const std::string& value) {
    values_[key] = value;
    in_use_.insert(key);
    timed_[key] = value;
  }

  // Takes choices that win over those that are there.
  void use(const AlgorithmChoices& choices) {
    for (const auto& [key, value] : choices) {
      values_[key] = value;
      settled_.insert(key);
    }
  }
  // Takes choices of an earlier run for keys that have none. They are not settled.
  void offer(const AlgorithmChoices& choices) { values_.insert(choices.begin(), choices.end()); }

  AlgorithmChoices in_use() const {
    AlgorithmChoices choices;
    for (const std::string& key : in_use_) choices[key] = values_.at(key);
    return choices;
  }
  // Returns what add() has brought since the last call.
  AlgorithmChoices take_timed() { return std::exchange(timed_, {}); }

 private:
  AlgorithmChoices values_, timed_;
  std::set<std::string> in_use_, settled_;
};

}  // namespace weft::cuda
