// Puts into words how far the pipeline is. It has neither clock nor output: callers give the
// seconds and print.
#pragma once

#include <cstdint>
#include <string>

#include "preprocess/run/pipeline.h"

namespace weft {

class ProgressText {
 public:
  static constexpr double kLineEachS = 10, kLiveLineEachS = 60;  // in a log

  // `total_file_bytes` counts all that this run reads; it is < 0 if that is unknown (a pipe).
  // `before` is what an earlier run has done of it: speeds are those of this run.
  explicit ProgressText(int64_t log_interval, int64_t total_file_bytes = -1,
                        const PipelineTotals& before = {})
      : log_interval_(log_interval),
        total_file_bytes_(total_file_bytes),
        before_(before),
        num_documents_before_(before.num_documents),
        num_bytes_before_(before.num_bytes) {}

  // The next line of a log, ended by "\n"; "" while none is due. There is one each 10 s at most,
  // and the first as soon as `log_interval` documents are done: Megatron-LM's line for the last
  // multiple of `log_interval` that was passed, and each minute instead of it the line of a
  // terminal:
  //   Processed 1000 documents (101.2 docs/s, 1.25 MB/s).
  //    > tokenized 12.4 % | 3 h 10 min left | 17.4 MB/s | ...
  // Documents of an earlier run have no line. Megatron's MB are 2^20 bytes of JSON lines
  // (Megatron-LM counts characters). A chunk's documents are taken as equally long. `seconds` since
  // startup.
  std::string log_line(const PipelineTotals& totals, double seconds);

  // Makes one line for a terminal: percent, time left, bytes/s, tokens/s, documents/s, bad lines,
  // bytes of text.
  std::string live_line(const PipelineTotals& totals, double seconds) const;

  // The last line of a run.
  std::string summary_line(const PipelineTotals& totals, double seconds) const;

 private:
  int64_t log_interval_, total_file_bytes_;
  PipelineTotals before_;
  int64_t num_documents_before_, num_bytes_before_;  // at the last call of log_line
  int64_t passed_documents_ = 0;  // the last multiple of log_interval_, and its bytes
  double passed_bytes_ = 0, last_line_s_ = -kLineEachS, last_live_line_s_ = 0;
};

// Says that so many bytes have no entry in the tokenizer; "" for none.
std::string dropped_bytes_warning(int64_t num_dropped_bytes);

// Writes a number as Python prints a float: the shortest text that reads back as the same number,
// with ".0" where it is whole.
std::string python_float(double value);

}  // namespace weft
