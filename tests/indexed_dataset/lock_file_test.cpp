#include "indexed_dataset/storage/lock_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "indexed_dataset/process/exit_code.h"

namespace weft {
namespace {

class Lock : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("weft-lock-" + std::to_string(::getpid()));
};

TEST_F(Lock, IsHeldByOneAndRemovedAfterwards) {
  {
    const LockFile first(path_);
    EXPECT_TRUE(std::filesystem::exists(path_));
    EXPECT_THROW(LockFile second(path_), LockedByAnotherRun);
    EXPECT_THROW(LockFile second(path_, std::chrono::milliseconds(20)), LockedByAnotherRun);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_NO_THROW(LockFile again(path_));
}

TEST_F(Lock, WaitsForAnOwnerThatEnds) {
  auto first = std::make_unique<LockFile>(path_);
  std::jthread owner([&first] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  EXPECT_NO_THROW(LockFile second(path_, std::chrono::minutes(5)));
}

}  // namespace
}  // namespace weft
