#include "preprocess/commands/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string with_prefix(double value, const std::string& unit) {
  const char* prefix = "";
  for (const char* next : {"k", "M", "G", "T", "P"}) {
    if (value < 999.5) break;
    value /= 1000;
    prefix = next;
  }
  const int decimals = value >= 99.95 || *prefix == '\0' ? 0 : value >= 9.995 ? 1 : 2;
  const std::string suffix = prefix + unit;
  return fmt::format("{:.{}f}{}{}", value, decimals, suffix.empty() ? "" : " ", suffix);
}

std::string dropped_bytes_warning(int64_t num_dropped_bytes) {
  if (num_dropped_bytes == 0) return "";
  return "warning: the tokenizer has no entry for " + counted(num_dropped_bytes, "byte") +
         " of the text, left out: the ids do not decode to the whole text";
}

namespace {

double per_second(double count, double seconds) { return count / std::max(seconds, 1e-9); }

std::string time_left(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 120) return fmt::format("{} s left", whole);
  if (whole < 7200) return fmt::format("{} min {} s left", whole / 60, whole % 60);
  return fmt::format("{} h {} min left", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string ProgressText::log_lines(const PipelineTotals& totals, double seconds) {
  std::string lines;
  const int64_t num_new = totals.num_documents - num_documents_before_;
  if (log_interval_ <= 0 || num_new == 0) return lines;
  const double bytes_each =
      static_cast<double>(totals.num_bytes - num_bytes_before_) / static_cast<double>(num_new);
  for (int64_t n = (num_documents_before_ / log_interval_ + 1) * log_interval_;
       n <= totals.num_documents; n += log_interval_) {
    const auto documents = static_cast<double>(n - before_.num_documents);
    const double bytes = static_cast<double>(num_bytes_before_ - before_.num_bytes) +
                         bytes_each * static_cast<double>(n - num_documents_before_);
    lines += fmt::format("Processed {} documents ({} docs/s, {} MB/s).\n", n,
                         python_float(per_second(documents, seconds)),
                         python_float(per_second(bytes / (1 << 20), seconds)));
  }
  num_documents_before_ = totals.num_documents;
  num_bytes_before_ = totals.num_bytes;
  return lines;
}

std::string ProgressText::live_line(const PipelineTotals& totals, double seconds) const {
  const auto rate = [&](int64_t count, const char* unit = "") {
    return with_prefix(per_second(static_cast<double>(count), seconds), unit);
  };
  std::string line = "tokenized " + with_prefix(static_cast<double>(totals.num_bytes), "B");
  if (total_file_bytes_ > 0) {
    line += fmt::format(
        " ({:.1f}% of {} of files)",
        100.0 * static_cast<double>(totals.num_file_bytes) / static_cast<double>(total_file_bytes_),
        with_prefix(static_cast<double>(total_file_bytes_), "B"));
  }
  line += fmt::format(" | {} | {} docs/s | {} tokens/s",
                      rate(totals.num_bytes - before_.num_bytes, "B/s"),
                      rate(totals.num_documents - before_.num_documents),
                      rate(totals.num_tokens - before_.num_tokens));
  const int64_t num_left_out = totals.left_out.total();
  if (num_left_out > 0) line += fmt::format(" | {} left out", num_left_out);
  const int64_t num_bad = totals.bad_lines.total();
  if (num_bad > 0) line += " | " + counted(num_bad, "bad line");
  const int64_t num_read = totals.num_file_bytes - before_.num_file_bytes;
  if (total_file_bytes_ > 0 && num_read > 0) {
    const auto left = static_cast<double>(total_file_bytes_ - totals.num_file_bytes);
    line += " | " + time_left(std::max(0.0, left) * seconds / static_cast<double>(num_read));
  }
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
