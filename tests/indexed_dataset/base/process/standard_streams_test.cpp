#include "indexed_dataset/base/process/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace weft {
namespace {

// In a child of its own, since the streams are the process's. Exit code 0: all as promised.
int with_closed_streams(const std::vector<int>& closed) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int fd : closed) close(fd);
    protect_standard_streams();
    const int file = open("/dev/null", O_RDONLY);  // stands for a dataset
    if (file <= 2) _exit(1);
    if (std::signal(SIGPIPE, SIG_IGN) != SIG_IGN) _exit(2);
    for (const int fd : closed) {
      char byte = 0;
      if (read(fd, &byte, 1) > 0) _exit(3);
      if (fd != 0 && write(fd, "x", 1) != 1) _exit(4);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StandardStreams, ClosedOnesNeverLendTheirNumberToAFile) {
  EXPECT_EQ(with_closed_streams({}), 0);
  EXPECT_EQ(with_closed_streams({1}), 0);
  EXPECT_EQ(with_closed_streams({1, 2}), 0);
  EXPECT_EQ(with_closed_streams({0, 1, 2}), 0);
}

}  // namespace
}  // namespace weft
