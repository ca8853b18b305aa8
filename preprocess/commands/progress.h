// Puts into words how far the pipeline is. It has neither clock nor output: callers give the
// seconds and print.
#pragma once

#include <cstdint>
#include <string>

#include "preprocess/run/pipeline.h"

namespace weft {

class ProgressText {
 public:
  // `total_file_bytes` counts all that this run reads; it is < 0 if that is unknown (a pipe).
  // `before` is what an earlier run has done of it: speeds are those of this run.
  explicit ProgressText(int64_t log_interval, int64_t total_file_bytes = -1,
                        const PipelineTotals& before = {})
      : log_interval_(log_interval),
        total_file_bytes_(total_file_bytes),
        before_(before),
        num_documents_before_(before.num_documents),
        num_bytes_before_(before.num_bytes) {}

  // Megatron-LM's line for every `log_interval` documents that were passed since the last call,
  // each ended by "\n":
  //   Processed 1000 documents (101.2 docs/s, 1.25 MB/s).
  // Lines for documents of an earlier run are left out. Its MB are 2^20 bytes of JSON lines
  // (Megatron-LM counts characters). Where several lines fall into one chunk, documents are taken
  // as equally long. `seconds` since startup.
  std::string log_lines(const PipelineTotals& totals, double seconds);

  // Makes one line for a terminal: bytes, MB/s, docs/s, tokens/s, bad lines, time left.
  std::string live_line(const PipelineTotals& totals, double seconds) const;

  // The last line of a run.
  std::string summary_line(const PipelineTotals& totals, double seconds) const;

 private:
  int64_t log_interval_, total_file_bytes_;
  PipelineTotals before_;
  int64_t num_documents_before_, num_bytes_before_;  // at the last call of log_lines
};

// Says that so many bytes have no entry in the tokenizer; "" for none.
std::string dropped_bytes_warning(int64_t num_dropped_bytes);

// Writes "12.4 MB" or "3.10 G": three digits and a decimal prefix, for `unit` "B", "" and so on.
std::string with_prefix(double value, const std::string& unit);

// Writes a number as Python prints a float: the shortest text that reads back as the same number,
// with ".0" where it is whole.
std::string python_float(double value);

}  // namespace weft
