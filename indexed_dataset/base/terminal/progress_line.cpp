#include "indexed_dataset/base/terminal/progress_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

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

std::string time_left(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e12) + 0.5);
  const int64_t minutes = whole / 60, hours = minutes / 60;
  if (whole < 120) return fmt::format("{} s left", whole);
  if (hours < 1) return fmt::format("{} min left", minutes);
  if (hours < 48) return fmt::format("{} h {} min left", hours, minutes % 60);
  return fmt::format("{} d {} h left", hours / 24, hours % 24);
}

std::string percent_and_time_left(double done, double total, double per_second) {
  std::string fields = fmt::format("{:.1f} %", total > 0 ? 100.0 * done / total : 100.0);
  if (per_second > 0) fields += " | " + time_left((total - done) / per_second);
  return fields;
}

std::string progress_fields(double done, double total, double per_second, const std::string& unit) {
  std::string fields = total < 0 ? "" : percent_and_time_left(done, total, per_second);
  if (per_second <= 0) return fields;
  if (!fields.empty()) fields += " | ";
  return fields + (unit == "B" ? with_prefix(per_second, "B/s")
                               : with_prefix(per_second, "") + " " + unit + "/s");
}

void ProgressLine::add(const std::string& phase, int64_t num_new, int64_t num_all) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (phase_ != phase) {
    phase_ = phase;
    num_done_ = 0;
    start_ = now;
  }
  num_done_ += num_new;
  if (!line_.is_due()) return;
  const double seconds = std::max(std::chrono::duration<double>(now - start_).count(), 1e-9);
  const auto done = static_cast<double>(num_done_);
  line_.show(phase_ + " " +
             progress_fields(done, static_cast<double>(num_all), done / seconds, unit_));
}

}  // namespace weft
