// RunFiles::sync(): whatever was written before it is on the disk behind it, or it throws.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/rank/run_files.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

class Sync : public ::testing::Test {
 protected:
  static constexpr size_t kNumDatasets = 2;

  static std::vector<Batch::Output> a_document() {
    Batch::Output output;
    output.document_sequences = {1};
    output.locators = {0};
    output.sequence_lengths = {3};
    output.tokens_16 = {1, 2, 3};
    return {output, output};
  }
  // The number of I/O calls that `act` makes.
  static int64_t num_calls_of(const std::function<void()>& act) {
    const int64_t before = num_io_calls();
    act();
    return num_io_calls() - before;
  }

  TemporaryFolder folder_{memory_folder()};
};

// The .bin, .idx, bounds and sources of each dataset, and each spill file: one call each; and the
// folder, whenever a file in it is new.
TEST_F(Sync, SyncTakesEveryFileAndTheFolderOfANewOne) {
  RunFiles files(folder_.path(), kNumDatasets, TokenType::kUInt16);
  const auto sync = [&] { files.sync(); };
  constexpr int64_t kCallsOfDatasets = 4 * kNumDatasets;
  const int64_t calls_of_folder = num_calls_of([&] { sync_folder(folder_.path()); });
  EXPECT_EQ(num_calls_of(sync), kCallsOfDatasets + calls_of_folder);
  EXPECT_EQ(num_calls_of(sync), kCallsOfDatasets);
  for (int64_t task = 0; task < 3; ++task) {
    files.spill(task, 0, a_document());
    EXPECT_EQ(num_calls_of(sync), kCallsOfDatasets + task + 1 + calls_of_folder);
    EXPECT_EQ(num_calls_of(sync), kCallsOfDatasets + task + 1);
  }
  files.close_spill(1);
  EXPECT_EQ(num_calls_of(sync), kCallsOfDatasets + 2);
}

TEST_F(Sync, SyncThrowsWhereAnyCallFails) {
  RunFiles files(folder_.path(), kNumDatasets, TokenType::kUInt16);
  files.spill(0, 0, a_document());
  const int64_t num_calls = num_calls_of([&] { files.sync(); });
  ASSERT_GT(num_calls, 9);
  for (int64_t call = 1; call <= num_calls; ++call) {
    files.spill(call, 0, a_document());  // a new file, so the folder is synced as well
    set_io_fault(call, EIO);
    EXPECT_THROW(files.sync(), std::system_error) << "call " << call;
    set_io_fault(0, 0);
    files.sync();
  }
}

}  // namespace
}  // namespace weft
