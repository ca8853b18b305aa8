#include "indexed_dataset/order/blends/blend.h"

#include <charconv>
#include <cmath>
#include <sstream>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/text_pieces.h"
#include "indexed_dataset/format/pair/dataset_files.h"

namespace weft {

void throw_bad_option(const std::string& option, const std::string& what) {
  throw UsageError(option + ": " + what);
}
namespace {

std::optional<double> find_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double parse_weight(const std::string& text, const std::string& prefix, const std::string& option) {
  const std::optional<double> weight = find_number(trimmed(text));
  if (!weight)
    throw_bad_option(option, "'" + text + "', the weight of " + prefix + ", is not a number");
  if (!std::isfinite(*weight) || *weight <= 0) {
    throw_bad_option(option, "the weight of " + prefix + " is " + text +
                                 ", it must be positive; leave out a dataset that is not wanted");
  }
  return *weight;
}

std::string prefix_of(const std::string& text, const std::string& option) {
  const std::string_view prefix = trimmed(text);
  if (prefix.empty()) throw_bad_option(option, "an empty name stands where a PREFIX is expected");
  return without_suffix(std::string(prefix)).string();
}

std::vector<std::string> pieces_of(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, separator);) pieces.push_back(piece);
  return pieces;
}

}  // namespace

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Megatron's rule: an odd number of values are prefixes; an even one are pairs if every first value
// of a pair is a number, and prefixes if none is.
Blend parse_blend(const std::vector<std::string>& values, const std::string& option) {
  Blend blend;
  size_t num_weights = 0;
  const bool is_even = values.size() % 2 == 0;
  for (size_t i = 0; is_even && i < values.size(); i += 2)
    num_weights += find_number(trimmed(values[i])) ? 1 : 0;
  if (num_weights == 0 || values.size() == 1) {
    for (const std::string& value : values) {
      if (values.size() > 1 && !is_even && find_number(trimmed(value))) {
        throw_bad_option(option, std::to_string(values.size()) + " values, and '" + value +
                                     "' is a number: a weight or a PREFIX is missing");
      }
      blend.prefixes.push_back(prefix_of(value, option));
    }
    return blend;
  }
  if (num_weights != values.size() / 2) {
    throw_bad_option(option, "only " + std::to_string(num_weights) + " of " +
                                 std::to_string(values.size() / 2) +
                                 " pairs begin with a number; give every PREFIX a weight, or none");
  }
  for (size_t i = 0; i < values.size(); i += 2) {
    blend.prefixes.push_back(prefix_of(values[i + 1], option));
    blend.weights.push_back(parse_weight(values[i], blend.prefixes.back(), option));
  }
  return blend;
}

Blend parse_weighted_split(const std::string& value, const std::string& option) {
  constexpr const char* kForm = "; give \"NAME: WEIGHT BEGIN:END PREFIX, WEIGHT BEGIN:END PREFIX\"";
  const size_t colon = value.find(':');
  if (colon == std::string::npos) throw_bad_option(option, "'" + value + "' has no NAME:" + kForm);
  Blend blend;
  blend.name = trimmed(value.substr(0, colon));
  for (const std::string& piece : pieces_of(value.substr(colon + 1), ',')) {
    const std::vector<std::string> words = words_of(piece);
    if (words.size() != 3) {
      const std::string text(trimmed(piece));
      throw_bad_option(option, "'" + text + "' has not three words" + kForm);
    }
    const std::vector<std::string> bounds = pieces_of(words[1], ':');
    const auto bound = [&](size_t i) {
      return i < bounds.size() ? find_number(bounds[i]) : std::nullopt;
    };
    if (bounds.size() != 2 || !bound(0) || !bound(1) || !(*bound(0) >= 0) ||
        !(*bound(0) < *bound(1)) || !(*bound(1) <= 1)) {
      throw_bad_option(option, "'" + words[1] + "' is no range BEGIN:END within 0:1" + kForm);
    }
    blend.prefixes.push_back(prefix_of(words[2], option));
    blend.weights.push_back(parse_weight(words[0], words[2], option));
    blend.shares.emplace_back(*bound(0), *bound(1));
  }
  if (blend.prefixes.empty()) throw_bad_option(option, "'" + value + "' names no dataset" + kForm);
  // A single dataset is not blended, so its weight has no meaning.
  if (blend.prefixes.size() == 1) blend.weights.clear();
  return blend;
}

}  // namespace weft
