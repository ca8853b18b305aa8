// Holds simdjson's reading of a line to the definition (ExactJsonLine): reads each line with both.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "preprocess/documents/json_line.h"

namespace weft {

class BothJsonReaders {
 public:
  // The keys are read as texts, and as values, too.
  explicit BothJsonReaders(const std::vector<std::string>& keys,
                           std::string_view origin_key = "auto")
      : value_keys_(keys),
        num_keys_(keys.size()),
        parser_(keys, origin_key, values_of(keys)),
        exact_(keys, origin_key, values_of(keys)) {}

  // How the readings of a line differ; "" if they are the same, or if simdjson gives up. The line
  // lies in memory of its size, or with kDomPaddingBytes of anything behind it.
  std::string difference(std::string_view line) {
    for (const size_t num_behind : {size_t{0}, kDomPaddingBytes}) {
      std::vector<char> memory(line.begin(), line.end());
      memory.resize(line.size() + num_behind, '"');
      const std::string_view copy(memory.data(), line.size());
      if (std::string how = difference_of(copy, num_behind); !how.empty()) return how;
    }
    return "";
  }

  // Lines that simdjson did not give up, and those that it did.
  int64_t num_read() const { return num_read_; }
  int64_t num_given_up() const { return num_given_up_; }

 private:
  std::string difference_of(std::string_view line, size_t num_behind) {
    const bool is_read = parser_.parse(line, num_behind).problem == LineProblem::kNone &&
                         parser_.is_read_by_simdjson();
    if (num_behind == 0) ++(is_read ? num_read_ : num_given_up_);
    if (!is_read) return "";
    const LineOutcome outcome = exact_.parse(line);
    if (outcome.problem != LineProblem::kNone)
      return std::string("by definition: ") + describe(outcome.problem) + ": " + outcome.detail;
    if (parser_.origin() != exact_.origin()) return "another origin";
    for (size_t i = 0; i < values_of(value_keys_).size(); ++i) {
      const DocumentValue found = parser_.value(i), expected = exact_.value(i);
      if (found.kind != expected.kind || found.text != expected.text ||
          (found.number != expected.number && found.number == found.number))
        return "another value " + std::to_string(i);
    }
    for (size_t k = 0; k < num_keys_; ++k) {
      std::vector<std::string> expected, found;
      const auto add_to = [](std::vector<std::string>& texts) {
        return [&texts](std::string_view text) {
          texts.emplace_back(text);
          return true;
        };
      };
      exact_.each_text(k, add_to(expected));
      parser_.each_text(k, add_to(found));
      if (found != expected) return "other texts of key " + std::to_string(k);
    }
    return exact_.num_replaced_surrogates() == 0 ? "" : "a lone surrogate";
  }

  static std::vector<std::string> values_of(std::vector<std::string> keys) {
    for (const char* key : {"x", "n", "url", "meta.url", "meta.score"}) keys.emplace_back(key);
    return keys;
  }

  std::vector<std::string> value_keys_;
  size_t num_keys_;
  JsonLineParser parser_;
  ExactJsonLine exact_;
  int64_t num_read_ = 0, num_given_up_ = 0;
};

}  // namespace weft
