// Run manifests that nobody has written, or that somebody wrote to do harm, are refused in words.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/run_record/manifest_order.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "tests/indexed_dataset/nested_json.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

TEST(HostileRunManifest, NestingEndsNoStack) {
  const TemporaryFolder folder;
  const std::string deep = nested_json(200'000);
  for (const std::string& text : {deep, "{\"dataset\":" + deep + "}", std::string(100'000, '[')}) {
    write_file_atomically(folder.path() / "run_manifest.json", text);
    EXPECT_THROW(read_run(folder.path()), std::runtime_error);
  }
}

// The sizes are divided by.
TEST(HostileRunManifest, SizesOfZeroAreRefused) {
  const auto read = [&](int64_t seq_length, int64_t batch, int64_t ranks) {
    sample_order_from({{"data_parallel_size", ranks},
                       {"arguments",
                        {{"data_path", {"a"}},
                         {"split", "90,5,5"},
                         {"train_samples", 200},
                         {"global_batch_size", 8},
                         {"micro_batch_size", batch},
                         {"dataloader_type", "cyclic"},
                         {"step_batch_size_schedule", "0:4 1K:8"},
                         {"seq_length", seq_length}}}});
  };
  EXPECT_NO_THROW(read(16, 2, 1));
  EXPECT_THROW(read(0, 2, 1), std::runtime_error);
  EXPECT_THROW(read(16, 0, 1), std::runtime_error);
  EXPECT_THROW(read(16, 2, 0), std::runtime_error);
}

}  // namespace
}  // namespace weft
