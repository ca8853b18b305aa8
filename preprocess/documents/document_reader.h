// The seam between bytes and documents: one kind of input has lines of JSON, another may have rows
// of a table. What is made of the texts is the same for all of them (tokenize_chunk.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "preprocess/documents/bad_lines.h"
#include "preprocess/documents/condition.h"
#include "preprocess/documents/origin.h"

namespace weft {

// Takes a string under a key: valid UTF-8, there during the call. Returns false if it wants no
// more.
using UseText = std::function<bool(std::string_view text)>;

// Gives the documents of a chunk one after another. Reuses its memory: one per thread.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;

  // Goes to the next document; false behind the last one. Everything below is about that document.
  virtual bool next() = 0;
  // Why it is none; kNone if it is one. Texts and origin are there for a document only.
  virtual const LineOutcome& outcome() const = 0;
  // Where it is in the task, for .sources: the byte at which its line begins.
  virtual int64_t locator() const = 0;
  // Calls use() for the string under a key, or for those of its list in order. Ends, and returns
  // false, where use() does.
  virtual bool each_text(size_t key_idx, const UseText& use) = 0;
  // The value under key `value_idx` of those that the reader was asked for beside the texts.
  virtual DocumentValue value(size_t value_idx) = 0;
  // The origin that it names, by the first origin path with a string that names something.
  virtual Origin origin() const = 0;
  // Lone surrogates that were replaced in its texts so far.
  virtual int64_t num_replaced_surrogates() const = 0;
  // For messages: that it is none because of `outcome`, where, and what to do about it. The line's
  // number and the input's name are not filled in.
  virtual BadLine describe(LineOutcome outcome) const = 0;
};

// True if the condition holds for the reader's current document; else it is counted. The reader's
// value(i) must be that under the key of comparison i.
inline bool holds(const Condition& condition, DocumentReader& document, LeftOutCounts& left_out) {
  for (size_t i = 0; i < condition.size(); ++i) {
    const auto because = why_left_out(condition[i], document.value(i));
    if (!because) continue;
    left_out.add(i, *because);
    return false;
  }
  return true;
}

}  // namespace weft
