// A spill file that is closed while RunFiles::sync() is at other files. (In the binary of forked
// runs: its processes reach no crash point before they fork.)
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <thread>

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/rank/run_files.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The ledger is told that its bytes are durable when the sync is done.
TEST(ClosedSpill, AClosedSpillFileIsTakenByASyncThatHasBegun) {
  const TemporaryFolder folder(memory_folder());
  const fs::path go_on = folder / "go_on";
  const pid_t child = ::fork();
  if (child == 0) {  // crash points are for processes of their own
    ::setenv("WEFT_CRASH_AT", ("datasets_synced:2:" + go_on.string()).c_str(), 1);
    RunFiles files(folder.path(), 1, TokenType::kUInt16);
    Batch::Output output;
    output.document_sequences = {1};
    output.locators = {0};
    output.sequence_lengths = {3};
    output.tokens_16 = {1, 2, 3};
    files.spill(0, 0, {output});
    files.sync();  // the names of the files
    bool has_thrown = false;
    std::jthread syncing([&] {
      try {
        files.sync();
      } catch (const std::system_error& error) {
        has_thrown = error.code().value() == EIO;
      }
    });
    while (!fs::exists(go_on.string() + ".waiting"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    files.close_spill(0);
    set_io_fault(1, EIO);  // the next call must be the sync of the spill file
    std::ofstream(go_on).close();
    syncing.join();
    ::_exit(has_thrown ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the spill file was left out";
}

}  // namespace
}  // namespace weft
