// Finds the strings under some keys in one line of JSON: by simdjson's DOM, which nearly every line
// takes, or by the exact definition of what a line means (ExactJsonLine).
//
// simdjson gives the same strings and the same origin as ExactJsonLine, or it gives up: where it
// refuses the line (NaN, numbers beyond 64 bits, lone surrogates, invalid UTF-8, a byte order mark,
// deep nesting, no JSON at all) and where the line is no document. ExactJsonLine then decides, and
// says what is wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/exact_json_line.h"

namespace weft {

// Longer lines are left to ExactJsonLine: simdjson holds 14 bytes of memory for each byte of the
// longest line, as far as a line uses them.
constexpr size_t kMaxDomLineBytes = size_t{1} << 20;

// A line with fewer readable bytes behind it is copied for simdjson.
constexpr size_t kDomPaddingBytes = 64;

// Reuses its memory from line to line: one per thread.
class JsonLineParser {
 public:
  // Takes what ExactJsonLine takes. Throws std::bad_alloc as well.
  explicit JsonLineParser(const std::vector<std::string>& keys,
                          std::string_view origin_key = kNoOriginKey,
                          const std::vector<std::string>& value_keys = {});
  ~JsonLineParser();

  // Parses one line. If the outcome is kNone, each_text() then has the strings of every key, until
  // the next call and as long as the line is there.
  LineOutcome parse(std::string_view line, size_t num_readable_behind = 0);

  // Calls use() for the string under a key, or for those of its list in order. Ends, and returns
  // false, where use() does.
  bool each_text(size_t key_idx, const UseText& use);
  // The value under a key of `value_keys`; valid until the next call.
  DocumentValue value(size_t value_idx);
  // The origin that the document names, by the first origin path with a string that names
  // something.
  Origin origin() const;
  // Lone surrogates that were replaced in the texts of the last line so far.
  int64_t num_replaced_surrogates() const { return is_dom_ ? 0 : exact_.num_replaced_surrogates(); }
  // True if simdjson has read the last line.
  bool is_read_by_simdjson() const { return is_dom_; }

 private:
  struct Dom;
  std::unique_ptr<Dom> dom_;
  ExactJsonLine exact_;
  bool is_dom_ = false;
};

}  // namespace weft
