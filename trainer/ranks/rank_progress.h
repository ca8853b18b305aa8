// Where a rank stands, as it tells rank 0 every second, and what a hang is told from.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/ranks/flight_recorder.h"

namespace weft {

// The latest operation of a rank that needs other ranks.
struct RankProgress {
  int64_t number = 0, iteration = 0;
  int64_t waited_ms = -1;  // in this operation; -1: the rank is not in it any more
  int64_t idle_ms = -1;    // since it has noted work after this operation; -1: it has noted none
  std::string operation = {};
};

RankProgress progress_of(const FlightRecorder& recorder);
std::string to_text(const RankProgress& progress);
RankProgress progress_from_text(const std::string& text);

// Says that a process alone does not get on, or which ranks did not arrive where others have waited
// for longer than `timeout`, or returns "" if none has waited so long, or a rank that does not wait
// has noted work within that time: it writes a large checkpoint, for example. `names` are the
// ranks' names.
std::string hang_message(const std::vector<RankProgress>& ranks,
                         const std::vector<std::string>& names, std::chrono::milliseconds timeout);

}  // namespace weft
