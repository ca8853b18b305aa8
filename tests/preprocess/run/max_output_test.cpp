// How much an input may give once it is decompressed.
#include <gtest/gtest.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/preprocess/compressed/compressors.h"
#include "tests/preprocess/small_run.h"

namespace weft {
namespace {

// --max-output is a limit of an input, of which every reader knows a part.
class MaxOutput : public ::testing::Test, protected SmallRun {};

TEST_F(MaxOutput, MaxOutputHoldsOverAllPartsOfAnInput) {
  std::string text, compressed;
  for (uint32_t i = 0; i < 4; ++i) {
    text += lines_of_digits(i, 600'000);
    compressed += zstd(lines_of_digits(i, 600'000));
  }
  write_input(compressed);
  config.task_bytes = 100'000;  // a part each
  config.num_workers = 2;
  config.max_output_bytes = std::ssize(text);
  EXPECT_EQ(run().inputs.at(0).num_bytes, std::ssize(text));
  const std::string output = read_file(path("out.bin"));
  for (const int64_t limit : {std::ssize(text) - 1, std::ssize(text) / 2}) {
    config.max_output_bytes = limit;  // above that of any part
    try {
      run();
      ADD_FAILURE() << limit;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(exit_code_for(error), ExitCode::kOutOfMemory);
      EXPECT_EQ(error.what(), path("in") + ": gives more than the " + std::to_string(limit) +
                                  " bytes allowed per input; if it is no decompression bomb, raise "
                                  "--max-output");
    }
  }
  // With a higher limit the run goes on.
  config.overwrite = false;
  std::filesystem::remove(path("out.idx"));
  std::filesystem::remove(path("out.bin"));
  config.max_output_bytes = std::ssize(text);
  run();
  EXPECT_EQ(read_file(path("out.bin")), output);
  // Two inputs have a limit each; plain ones have none.
  config.overwrite = true;
  write_input(text, "plain");
  config.inputs = {path("in"), path("in")};
  EXPECT_NO_THROW(run());
  config.inputs = {path("plain")};
  config.max_output_bytes = 1000;
  EXPECT_NO_THROW(run());
}

}  // namespace
}  // namespace weft
