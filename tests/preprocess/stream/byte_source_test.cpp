#include "preprocess/stream/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/preprocess/compressed/byte_sources.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

// The message had the number of bytes up to which the reader had come.
TEST(FileRange, SaysHowLongAFileIsThatWasCutWhileItWasRead) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "in";
  std::ofstream(path) << std::string(1000, 'x');
  const std::atomic<bool> cancelled{false};
  const auto source = open_file_range(path, 1000, 100, 900, cancelled);
  char bytes[300];
  ASSERT_EQ(source->read(bytes, sizeof bytes), sizeof bytes);
  std::filesystem::resize_file(path, 250);
  EXPECT_THAT([&] { read_all(*source); },
              ::testing::ThrowsMessage<std::runtime_error>(
                  ::testing::HasSubstr("in: has 250 bytes now and had 1000 when the run began")));
}

TEST(FileRange, RefusesAFileOfAnotherSize) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "in";
  std::ofstream(path) << std::string(1000, 'x');
  const std::atomic<bool> cancelled{false};
  EXPECT_THROW(open_file_range(path, 999, 0, 999, cancelled), std::runtime_error);
  EXPECT_EQ(read_all(*open_file_range(path, 1000, 990, 1000, cancelled)), std::string(10, 'x'));
}

}  // namespace
}  // namespace weft
