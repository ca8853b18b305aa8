// Datasets that are not there, or not any more: what weft-train says and how it ends.
#include <gmock/gmock.h>

#include "indexed_dataset/exit_code.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

TEST_F(Training, AMissingDatasetIsAnIoErrorWithItsName) {
  prefix_ = (folder_ / "absent").string();
  EXPECT_EQ(run(arguments("run")), static_cast<int>(ExitCode::kIo));
  EXPECT_THAT(output(), HasSubstr("error: no dataset file '" + prefix_ + ".idx'"));
}

TEST_F(Training, ADatasetThatIsCutOffUnderwayIsAnIoErrorWithItsName) {
  const pid_t child = start(arguments("run", 1'000'000));
  wait_for_iteration("run", 3, child);
  std::filesystem::resize_file(prefix_ + ".bin", 0);
  EXPECT_EQ(wait(child), static_cast<int>(ExitCode::kIo));
  EXPECT_THAT(output(),
              HasSubstr("error: '" + prefix_ + ".bin' was made shorter while it was read"));
}

}  // namespace
}  // namespace weft
