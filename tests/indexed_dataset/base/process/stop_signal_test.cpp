#include "indexed_dataset/base/process/stop_signal.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace weft {
namespace {

// Each test runs in a process of its own, because a handler is the process's.
TEST(StopSignalDeathTest, TheSameSignalTwiceInAMomentIsOneRequest) {
  const auto stop = [] {
    install_stop_signals();
    if (stop_signal() != 0 || stop_flag()) std::_Exit(1);
    std::raise(SIGTERM);
    std::raise(SIGTERM);
    std::raise(SIGUSR1);
    std::_Exit(stop_signal() == SIGTERM && stop_flag() ? 0 : 2);
  };
  EXPECT_EXIT(stop(), testing::ExitedWithCode(0), "");
}

TEST(StopSignalDeathTest, ASecondInterruptEndsTheProcess) {
  const auto stop = [] {
    install_stop_signals();
    std::raise(SIGINT);
    if (stop_signal() != SIGINT) std::_Exit(1);
    std::raise(SIGINT);
    std::_Exit(2);
  };
  EXPECT_EXIT(stop(), testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignalDeathTest, AnIgnoredHangupStaysIgnored) {
  const auto stop = [] {
    std::signal(SIGHUP, SIG_IGN);
    install_stop_signals();
    std::raise(SIGHUP);
    std::_Exit(stop_signal() == 0 ? 0 : 1);
  };
  EXPECT_EXIT(stop(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft
