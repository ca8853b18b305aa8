// One blend, in the forms that Megatron's options have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

// Datasets that are drawn from together.
struct Blend {
  std::string name;  // of a bigscience group, else empty
  std::vector<std::string> prefixes;
  // The prefixes as the run was given them, which the names of its index caches tell, where
  // `prefixes` are the places of the same files as seen from another working directory; else empty.
  std::vector<std::string> spellings = {};
  std::vector<double> weights;  // one for each prefix, as given; empty if none were
  // The share [first, second) of each dataset's sequences that belongs to the split; empty: what
  // --split says.
  std::vector<std::pair<double, double>> shares;

  // Returns the prefix of dataset `i` as the run was given it.
  const std::string& spelling(size_t i) const {
    return spellings.empty() ? prefixes[i] : spellings[i];
  }
  // Blends are equal if they take the same samples, however their files were spelled.
  bool operator==(const Blend& other) const {
    return name == other.name && prefixes == other.prefixes && weights == other.weights &&
           shares == other.shares;
  }
};

// Another blend of training from a sample or a token of the run on; one of the two is given.
struct BlendChange {
  std::optional<int64_t> from_samples, from_tokens;
  Blend blend;  // with weights

  bool operator==(const BlendChange&) const = default;
};

// The words between spaces, tabs and ends of lines.
std::vector<std::string> words_of(const std::string& text);

// One list: prefixes, or pairs of a weight and a prefix. `option` is for messages.
Blend parse_blend(const std::vector<std::string>& values, const std::string& option);

// "NAME: WEIGHT BEGIN:END PREFIX, ..."
Blend parse_weighted_split(const std::string& value, const std::string& option);

// Throws UsageError in words of an option of data paths.
[[noreturn]] void throw_bad_option(const std::string& option, const std::string& what);

}  // namespace weft
