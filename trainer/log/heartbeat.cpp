#include "trainer/log/heartbeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "indexed_dataset/base/process/start_thread.h"
#include "indexed_dataset/base/process/stop_signal.h"

namespace weft {

namespace {

int64_t monotonic_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Heartbeat::Heartbeat(const Options& options)
    : options_(options), begun_ms_(monotonic_ms()), thread_(start_thread([this] { watch(); })) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Heartbeat::iteration_begins(int64_t iteration) {
  const int64_t now = monotonic_ms();
  if (iteration_ > 0 && iteration == iteration_ + 1) usual_ms_ = now - begun_ms_;
  iteration_ = iteration;
  begun_ms_ = now;
}

void Heartbeat::watch() {
  // A signal is answered within this time.
  constexpr std::chrono::milliseconds kTick{200};
  bool told_signal = false;
  int64_t told_at_ms = monotonic_ms(), told_of = 0;
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, kTick, [this] { return is_over_; })) {
    if (!told_signal && stop_flag()) {
      tell_signal();
      told_signal = true;
    }
    const int64_t iteration = iteration_, begun = begun_ms_, now = monotonic_ms();
    if (iteration != told_of) told_at_ms = begun;
    told_of = iteration;
    if (iteration == 0 || now - told_at_ms < options_.silence.count()) continue;
    told_at_ms = now;
    std::fputs(fmt::format("iteration {} is running for {:.0f} s{}\n", iteration,
                           (now - begun) / 1e3, options_.where())
                   .c_str(),
               options_.out);
    std::fflush(options_.out);
  }
}

void Heartbeat::tell_signal() {
  std::string text = fmt::format("{}: ", name_of_signal(stop_signal()));
  if (iteration_ == 0) {
    text += "what runs now ends first";
  } else {
    text += fmt::format("iteration {} is finished first", iteration_.load());
    const int64_t left = usual_ms_ - (monotonic_ms() - begun_ms_);
    if (usual_ms_ > 0)
      text +=
          fmt::format(" (about {:.0f} s)", static_cast<double>(std::max<int64_t>(left, 0)) / 1e3);
  }
  text += options_.saves ? ", then the state is saved and the program ends"
                         : ", then the program ends; without --save the state is lost";
  text += stop_signal() == SIGINT
              ? "; once more ends it at once, unsaved\n"
              : "; the same signal more than 5 s later ends it at once, unsaved\n";
  std::fputs(text.c_str(), options_.out);
  std::fflush(options_.out);
}

}  // namespace weft
