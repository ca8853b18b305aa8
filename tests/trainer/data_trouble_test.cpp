// weft-train and weft-model name a mapped file that is gone or cut off, and end with its exit code.
#include <gmock/gmock.h>

#include <cstdlib>

#include "indexed_dataset/process/exit_code.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

TEST_F(Training, ADatasetThatIsCutOffUnderwayIsAnIoErrorWithItsName) {
  const pid_t child = start(arguments("run", 1'000'000));
  wait_for_iteration("run", 3, child);
  std::filesystem::resize_file(prefix_ + ".bin", 0);
  EXPECT_EQ(wait(child), static_cast<int>(ExitCode::kIo));
  EXPECT_THAT(output(),
              HasSubstr("error: '" + prefix_ + ".bin' was made shorter while it was read"));
}

TEST_F(Training, WeightsThatAreCutOffUnderwayAreAnIoErrorWithTheirName) {
  std::filesystem::create_directory(folder_ / "hf");
  write_file_atomically(folder_ / "hf/config.json",
                        R"({"model_type": "gpt2", "n_embd": 4, "n_layer": 1, "n_head": 1,
                            "n_positions": 8, "vocab_size": 10})");
  write_file_atomically(folder_ / "hf/model.safetensors", std::string(20'000, '\0'));
  // The run is held up where the file is mapped and not read yet.
  const std::string script = "cd '" + (folder_ / "").string() + R"(' || exit 1
      WEFT_CRASH_AT=file_mapped:1:go "$WEFT_BIN_DIR/weft-model" import --input hf --save s >out 2>&1 &
      for i in $(seq 1200); do [ ! -e go.waiting ] || break; sleep 0.05; done
      : >hf/model.safetensors; touch go; wait $!)";
  const int status = std::system(script.c_str());
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::kIo));
  EXPECT_THAT(output(), HasSubstr("error: 'hf/model.safetensors' was made shorter while it was"));
}

}  // namespace
}  // namespace weft
