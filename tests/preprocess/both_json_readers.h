// Holds DomJsonLine to ExactJsonLine: reads each line with both.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "preprocess/documents/dom_json_line.h"
#include "preprocess/documents/exact_json_line.h"

namespace weft {

class BothJsonReaders {
 public:
  explicit BothJsonReaders(std::vector<std::string> keys, std::string_view origin_key = "auto")
      : num_keys_(keys.size()), dom_(keys, origin_key), exact_(std::move(keys), origin_key) {}

  // How the readings of a line differ; "" if they are the same, or if the DOM gives up. The line
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

  // Lines that the DOM did not give up, and those that it did.
  int64_t num_read() const { return num_read_; }
  int64_t num_given_up() const { return num_given_up_; }

 private:
  std::string difference_of(std::string_view line, size_t num_behind) {
    const bool is_read = dom_.parse(line, num_behind);
    if (num_behind == 0) ++(is_read ? num_read_ : num_given_up_);
    if (!is_read) return "";
    const LineOutcome outcome = exact_.parse(line);
    if (outcome.problem != LineProblem::kNone)
      return std::string("by definition: ") + describe(outcome.problem) + ": " + outcome.detail;
    if (dom_.origin() != exact_.origin()) return "another origin";
    for (size_t k = 0; k < num_keys_; ++k) {
      std::vector<std::string> expected, found;
      for (TextPiece piece; exact_.next_text(k, piece);) {
        if (piece.is_first) expected.emplace_back();
        expected.back() += piece.text;
      }
      for (std::string_view text; dom_.next_text(k, text);) found.emplace_back(text);
      if (found != expected) return "other texts of key " + std::to_string(k);
    }
    return exact_.num_replaced_surrogates() == 0 ? "" : "a lone surrogate";
  }

  size_t num_keys_;
  DomJsonLine dom_;
  ExactJsonLine exact_;
  int64_t num_read_ = 0, num_given_up_ = 0;
};

}  // namespace weft
