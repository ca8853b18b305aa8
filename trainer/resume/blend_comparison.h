// Compares the datasets of a blend then and now: their order, their shares of the blend and their
// bytes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "indexed_dataset/order/blends/blend.h"
#include "indexed_dataset/order/samples/order_kind.h"
#include "trainer/identity/data_identity.h"

namespace weft {

// The words for an entry that only one of two lists has.
inline constexpr const char* kNoEntry = "none";

// "was A when the checkpoint was saved and is B now"
std::string was_and_is(const std::string& saved, const std::string& ours);

// The datasets of a blend, each as "GROUP: WEIGHT BEGIN:END PREFIX" as far as it has these.
std::vector<std::string> dataset_texts(const Blend& blend);

// Both identities must outlive it.
class BlendComparison {
 public:
  BlendComparison(const DataIdentity& saved, const DataIdentity& ours, OrderKind order);

  // Returns the first difference of two lists of groups, and how many there are; nothing where they
  // take the same samples. Weights that are the same shares of their sum, to the last bit, are
  // equal.
  std::optional<std::string> find_difference(std::span<const Blend> saved,
                                             std::span<const Blend> ours) const;

  // Compares bytes, and names where the bytes are not known.
  bool is_same_dataset(const std::string& saved, const std::string& ours) const;

 private:
  bool have_equal_shares(std::span<const Blend> saved, std::span<const Blend> ours) const;

  const std::unordered_map<std::string, const DatasetIdentity*> saved_, ours_;
  const OrderKind order_;
};

// Pairs the names of datasets then and now. A plan of blends goes on with a dataset by its name, so
// a copy under a second name begins with its own sample 0, although its bytes are the same.
class NamePairs {
 public:
  // Pairs the names of one blend, and returns the first contradiction to those that were paired
  // before.
  std::optional<std::string> add(std::span<const Blend> saved, std::span<const Blend> ours,
                                 const BlendComparison& comparison);

 private:
  std::unordered_map<std::string, std::string> ours_of_, saved_of_;
};

}  // namespace weft
