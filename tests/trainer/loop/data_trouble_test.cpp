// weft-train and weft-model name a mapped file that is gone or cut off, and end with its exit code.
#include <gmock/gmock.h>

#include <cstdlib>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
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

TEST_F(Training, ADatasetThatWasReplacedUnderItsNameIsRefusedOnResume) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  const auto before = metrics("run");
  for (const char* suffix : {".bin", ".idx"})
    std::filesystem::rename(prefix_ + suffix, prefix_ + suffix + std::string(".old"));
  write_tiny_dataset(prefix_, 200);
  EXPECT_EQ(run(arguments("run")), static_cast<int>(ExitCode::kBadInput)) << output();
  EXPECT_THAT(output(), HasSubstr("the dataset " + prefix_ + " was replaced or changed"));
  EXPECT_THAT(output(), HasSubstr("200 documents"));
  EXPECT_EQ(metrics("run"), before);

  for (const char* suffix : {".bin", ".idx"}) {
    std::filesystem::rename(prefix_ + suffix + std::string(".old"),
                            (folder_ / "moved").string() + suffix);
  }
  Arguments moved = arguments("run");
  std::replace(moved.begin(), moved.end(), prefix_, (folder_ / "moved").string());
  EXPECT_EQ(run(moved), 0) << output();
  EXPECT_THAT(output(), testing::Not(HasSubstr("samples from here on"))) << "the same bytes";
}

TEST_F(Training, ADatasetThatIsOverwrittenUnderwayEndsTheRun) {
  const pid_t child = start(arguments("run", 1'000'000, {"--log-interval", "1000"}));
  wait_for_iteration("run", 3, child);
  std::fstream(prefix_ + ".bin", std::ios::binary | std::ios::in | std::ios::out)
      << std::string(100, '\0');
  EXPECT_EQ(wait(child), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("error: " + prefix_ + ".bin was changed while this run read it"));
}

TEST_F(Training, ADatasetThatIsReplacedUnderwayIsAWarning) {
  const pid_t child = start(arguments("run", 1'000'000, {"--log-interval", "1000"}));
  wait_for_iteration("run", 3, child);
  std::filesystem::remove(prefix_ + ".bin");
  const int64_t reached = metrics("run").back().at("iteration");
  wait_for_iteration("run", reached + 30, child);
  kill(child, SIGTERM);
  EXPECT_EQ(wait(child), static_cast<int>(ExitCode::kStoppedOnRequest));
  EXPECT_THAT(output(), HasSubstr("WARNING: " + prefix_ + ".bin was removed while this run reads"));
}

// The run has identified the dataset and has mapped the .idx for its samples when another .bin of
// the same size takes the place of the identified one.
TEST_F(Training, ADatasetThatIsReplacedWhileARunStartsIsRefused) {
  std::string other = read_file(prefix_ + ".bin");
  std::reverse(other.begin(), other.begin() + 2);
  write_file_atomically(folder_ / "other", other);
  const std::string go = (folder_ / "go").string();
  Arguments command = {"/usr/bin/env", "WEFT_CRASH_AT=file_mapped:3:" + go,
                       std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train"};
  for (const std::string& word : arguments("run", 30)) command.push_back(word);
  const pid_t child = start_program(command);
  for (int i = 0; i < 1200 && !std::filesystem::exists(go + ".waiting"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(std::filesystem::exists(go + ".waiting"));
  std::filesystem::rename(folder_ / "other", prefix_ + ".bin");
  write_file_atomically(go, "");
  EXPECT_EQ(wait(child), static_cast<int>(ExitCode::kBadInput)) << output();
  EXPECT_THAT(output(), HasSubstr(prefix_ + ".bin was replaced, removed or written to while this "
                                            "run started"));
}

TEST_F(Training, AnIndexWhoseOffsetsAreDamagedIsBadInput) {
  constexpr int64_t kHeaderBytes = 34, kDocuments = 300;
  std::fstream idx(prefix_ + ".idx", std::ios::binary | std::ios::in | std::ios::out);
  idx.seekp(kHeaderBytes + 4 * kDocuments + 8 * 7);
  const int64_t offset_bytes = 2;
  idx.write(reinterpret_cast<const char*>(&offset_bytes), sizeof offset_bytes);
  idx.close();
  EXPECT_EQ(run(arguments("run")), static_cast<int>(ExitCode::kBadInput)) << output();
  EXPECT_THAT(output(), HasSubstr(".idx: sequence 7 has "));
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
