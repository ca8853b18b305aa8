#include "trainer/log/heartbeat.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace weft {
namespace {

TEST(Heartbeat, AStepThatLastsSaysSoAgainAndAgain) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
  ASSERT_NE(out, nullptr);
  const auto printed = [&] {
    std::string text(1 << 16, '\0');
    text.resize(static_cast<size_t>(pread(fileno(out.get()), text.data(), text.size(), 0)));
    return text;
  };
  {
    Heartbeat heartbeat({.out = out.get(), .silence = std::chrono::milliseconds(1), .where = [] {
                           return std::string(", micro-batch 2 of 4");
                         }});
    heartbeat.iteration_begins(7);
    while (printed().find('\n', printed().find('\n') + 1) == std::string::npos) usleep(1000);
    heartbeat.iteration_begins(8);
    while (printed().find("iteration 8 is") == std::string::npos) usleep(1000);
  }
  EXPECT_EQ(
      printed().rfind(
          "iteration 7 is running for 0 s, micro-batch 2 of 4\niteration 7 is running for ", 0),
      0U)
      << printed();
}

}  // namespace
}  // namespace weft
