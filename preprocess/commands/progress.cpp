#include "preprocess/commands/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/terminal/progress_line.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string dropped_bytes_warning(int64_t num_dropped_bytes) {
  if (num_dropped_bytes == 0) return "";
  return "warning: the tokenizer has no entry for " + counted(num_dropped_bytes, "byte") +
         " of the text, left out: the ids do not decode to the whole text";
}

namespace {

double per_second(double count, double seconds) { return count / std::max(seconds, 1e-9); }

}  // namespace

std::string ProgressText::log_line(const PipelineTotals& totals, double seconds) {
  const int64_t num_new = totals.num_documents - num_documents_before_;
  const int64_t multiple = totals.num_documents / log_interval_ * log_interval_;
  if (multiple > num_documents_before_) {
    passed_documents_ = multiple;
    passed_bytes_ = static_cast<double>(num_bytes_before_) +
                    static_cast<double>(totals.num_bytes - num_bytes_before_) *
                        static_cast<double>(multiple - num_documents_before_) /
                        static_cast<double>(num_new);
  }
  num_documents_before_ = totals.num_documents;
  num_bytes_before_ = totals.num_bytes;
  if (seconds - last_line_s_ < kLineEachS) return "";
  std::string line;
  if (seconds - last_live_line_s_ >= kLiveLineEachS) {
    line = " > " + live_line(totals, seconds) + "\n";
    last_live_line_s_ = seconds;
  } else if (passed_documents_ > 0) {
    const auto documents = static_cast<double>(passed_documents_ - before_.num_documents);
    const double bytes = passed_bytes_ - static_cast<double>(before_.num_bytes);
    line = fmt::format("Processed {} documents ({} docs/s, {} MB/s).\n", passed_documents_,
                       python_float(per_second(documents, seconds)),
                       python_float(per_second(bytes / (1 << 20), seconds)));
    passed_documents_ = 0;
  }
  if (!line.empty()) last_line_s_ = seconds;
  return line;
}

std::string ProgressText::live_line(const PipelineTotals& totals, double seconds) const {
  const auto per_second_of = [&](int64_t count) {
    return per_second(static_cast<double>(count), seconds);
  };
  std::string line = "tokenized ";
  if (total_file_bytes_ > 0) {
    line += percent_and_time_left(static_cast<double>(totals.num_file_bytes),
                                  static_cast<double>(total_file_bytes_),
                                  per_second_of(totals.num_file_bytes - before_.num_file_bytes)) +
            " | ";
  }
  line += fmt::format("{} | {} tokens/s | {} docs/s",
                      with_prefix(per_second_of(totals.num_bytes - before_.num_bytes), "B/s"),
                      with_prefix(per_second_of(totals.num_tokens - before_.num_tokens), ""),
                      with_prefix(per_second_of(totals.num_documents - before_.num_documents), ""));
  const int64_t num_left_out = totals.left_out.total();
  if (num_left_out > 0) line += fmt::format(" | {} left out", num_left_out);
  const int64_t num_bad = totals.bad_lines.total();
  if (num_bad > 0) line += " | " + counted(num_bad, "bad line");
  line += " | " + with_prefix(static_cast<double>(totals.num_bytes), "B") + " of text";
  if (total_file_bytes_ > 0)
    line += " in " + with_prefix(static_cast<double>(total_file_bytes_), "B") + " of files";
  return line;
}

std::string ProgressText::summary_line(const PipelineTotals& totals, double seconds) const {
  const auto num_bytes = static_cast<double>(totals.num_bytes);
  const auto num_before = static_cast<double>(before_.num_bytes);
  return fmt::format(
      "done: {} documents ({} empty), {} tokens, {}, {} lone surrogates replaced, {}{} in {:.2f} "
      "s, {:.1f} MB/s",
      totals.num_documents, totals.num_empty_documents, totals.num_tokens,
      totals.bad_lines.summary(), totals.num_replaced_surrogates, with_prefix(num_bytes, "B"),
      num_before > 0 ? ", " + with_prefix(num_bytes - num_before, "B") + " of them now" : "",
      seconds, per_second((num_bytes - num_before) / 1e6, seconds));
}

}  // namespace weft
