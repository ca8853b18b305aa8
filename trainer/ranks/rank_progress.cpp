#include "trainer/ranks/rank_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace weft {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kMaxNamed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxNamed) text += fmt::format(" and {} more", names.size() - kMaxNamed);
  return text;
}

}  // namespace

RankProgress progress_of(const FlightRecorder& recorder) {
  const FlightRecorder::Operation latest = recorder.latest();
  RankProgress progress{
      .number = latest.number, .iteration = latest.iteration, .operation = latest.name};
  const auto ms_since = [](FlightRecorder::Clock::time_point start) {
    const auto time = FlightRecorder::Clock::now() - start;
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  };
  if (latest.number > 0 && !latest.has_ended) {
    progress.waited_ms = ms_since(latest.waits_since);
  } else if (latest.worked != FlightRecorder::Clock::time_point{}) {
    progress.idle_ms = ms_since(latest.worked);
  }
  return progress;
}

std::string to_text(const RankProgress& progress) {
  return fmt::format("{} {} {} {} {}", progress.number, progress.iteration, progress.waited_ms,
                     progress.idle_ms, progress.operation);
}

RankProgress progress_from_text(const std::string& text) {
  RankProgress progress;
  std::istringstream words(text);
  words >> progress.number >> progress.iteration >> progress.waited_ms >> progress.idle_ms >>
      std::ws;
  std::getline(words, progress.operation);
  return progress;
}

// Missing are the ranks that wait for nothing or began to wait late; if all wait, those that have
// begun the fewest operations.
std::string hang_message(const std::vector<RankProgress>& ranks,
                         const std::vector<std::string>& names, std::chrono::milliseconds timeout) {
  const auto longest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const RankProgress& a, const RankProgress& b) { return a.waited_ms < b.waited_ms; });
  if (longest == ranks.end() || longest->waited_ms < timeout.count()) return "";
  for (const RankProgress& rank : ranks) {
    if (rank.idle_ms >= 0 && rank.idle_ms < timeout.count()) return "";
  }
  const RankProgress& waiting = *longest;
  const std::string where = fmt::format("operation {} ({}) of iteration {}", waiting.number,
                                        waiting.operation, waiting.iteration);
  const std::string limit = "--distributed-timeout-minutes " +
                            fmt::format("{:g}", static_cast<double>(timeout.count()) / 6e4);
  if (ranks.size() == 1) {
    return fmt::format(
        "{} has not ended within {}: the device hangs (dmesg tells of a GPU's faults), or is so slow "
        "that the limit must be raised",
        where, limit);
  }
  int64_t fewest = waiting.number;
  bool all_wait = true;
  for (const RankProgress& rank : ranks) {
    if (rank.waited_ms < timeout.count() / 2) all_wait = false;
    fewest = std::min(fewest, rank.number);
  }
  std::vector<std::string> missing, waiting_names;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankProgress& rank = ranks[i];
    const bool is_missing = all_wait ? rank.number == fewest && fewest < waiting.number
                                     : rank.waited_ms < timeout.count() / 2;
    if (is_missing) {
      missing.push_back(fmt::format("{}, which {} operation {} ({}) of iteration {}", names[i],
                                    rank.waited_ms < 0 ? "goes on after" : "waits in", rank.number,
                                    rank.operation, rank.iteration));
    } else {
      waiting_names.push_back(std::to_string(i));
    }
  }
  if (missing.empty()) {
    return fmt::format("all ranks wait in {} for longer than {}: the network carries nothing",
                       where, limit);
  }
  return fmt::format("{} did not arrive at {} within {}; ranks {} wait there", list_of(missing),
                     where, limit, list_of(waiting_names));
}

}  // namespace weft
