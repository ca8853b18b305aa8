// Too little room is said before the work, and when a write found none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/run/disk_space_check.h"
#include "tests/preprocess/small_run.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class InputOfFormat final : public Input {
 public:
  explicit InputOfFormat(const std::string& format) : Input("input") { layout_.format = format; }
  std::string key() const override { return ""; }
  void look(const std::atomic<bool>&, const RowRequest&) override {}
  std::unique_ptr<ByteSource> open(int64_t, int64_t, const std::atomic<bool>&,
                                   const DecodeOptions&) const override {
    return nullptr;
  }
};

WorkPlan plan_of(const std::string& format, int64_t num_bytes) {
  WorkPlan plan;
  plan.inputs.push_back(std::make_shared<InputOfFormat>(format));
  plan.tasks = {{0, 0, 0, num_bytes / 2}, {1, 0, num_bytes / 2, num_bytes}};
  return plan;
}

TEST(SpaceNeed, SpaceNeedFollowsTheStatedRule) {
  const auto need = [](const std::string& format, TokenType type, bool has_origins = false) {
    return estimated_output_bytes(plan_of(format, 7'000'000), type, has_origins);
  };
  // 2,000,000 tokens and 1750 documents.
  EXPECT_EQ(need("plain", TokenType::kUInt16), 4'000'000 + 1750 * 40);
  EXPECT_EQ(need("plain", TokenType::kInt32), 8'000'000 + 1750 * 40);
  EXPECT_EQ(need("plain", TokenType::kUInt16, true), 4'000'000 + 1750 * 72);
  EXPECT_EQ(need("gzip", TokenType::kUInt16), 3 * 4'070'000);
  EXPECT_EQ(need("zstd", TokenType::kUInt16), 4 * 4'070'000);
  EXPECT_EQ(need("bzip2", TokenType::kUInt16), 4 * 4'070'000);
  EXPECT_EQ(need("xz", TokenType::kUInt16), 9 * 4'070'000 / 2);
  // A pipe: nobody knows. More than any file system holds does not overflow.
  EXPECT_EQ(estimated_output_bytes(plan_of("stream", -1), TokenType::kUInt16), 0);
  EXPECT_GT(estimated_output_bytes(plan_of("xz", INT64_MAX), TokenType::kInt32, true),
            int64_t{1} << 62);
}

TEST(SpaceNeed, SpaceNeedIsComparedWithWhatIsFree) {
  const TemporaryFolder folder;
  const auto work = folder.path() / "x.work";
  const int64_t too_much = int64_t{1} << 62;
  EXPECT_FALSE(lack_of_space(work, 0));
  const auto warning = lack_of_space(work, too_much);
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, AllOf(StartsWith("warning: the output needs about 4611686018427387904 "),
                              HasSubstr("the file system of '" + folder.path().string() + "' has "),
                              HasSubstr(" free")));
  // Bytes that lie in the work folder need not be written again.
  std::filesystem::create_directory(work);
  write_file_atomically(work / "0.bin", std::string(1000, 'x'));
  EXPECT_THAT(*lack_of_space(work, too_much), HasSubstr("about 4611686018427386904"));
  EXPECT_FALSE(lack_of_space(work, 1000));
  // But not what is spilled there.
  write_file_atomically(work / "spill.3.7", std::string(5000, 'x'));
  EXPECT_THAT(*lack_of_space(work, too_much), HasSubstr("about 4611686018427386904"));
  EXPECT_FALSE(lack_of_space(folder.path() / "absent/x.work", too_much));  // does not say
}

TEST(SpaceNeed, SpillFilesMayTakeHalfOfWhatIsSpared) {
  const TemporaryFolder folder;
  const auto work = folder.path() / "x.work";
  EXPECT_EQ(estimated_task_bytes(plan_of("gzip", 7'000'000), TokenType::kUInt16),
            (std::vector<int64_t>{3 * (2'000'000 + 875 * 28), 3 * (2'000'000 + 875 * 28)}));
  // Other programs fill and clear disks meanwhile: only what holds whatever is free.
  EXPECT_EQ(spill_limit_bytes(work, int64_t{1} << 62), kLeastSpillLimitBytes);
  EXPECT_GE(spill_limit_bytes(work, 0), kLeastSpillLimitBytes);
  EXPECT_EQ(spill_limit_bytes(folder.path() / "absent/x.work", 0), INT64_MAX);  // does not say
  EXPECT_EQ(most_spilled_bytes({500, 30, 40}, INT64_MAX), 70) << "the first one never waits";
  EXPECT_EQ(most_spilled_bytes({500, 30, 40}, 60), 60);
  EXPECT_EQ(most_spilled_bytes({}, 60), 0);
  const auto warning = lack_of_space(work, 1000, int64_t{1} << 62);
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, AllOf(HasSubstr("about 1000 bytes more"),
                              HasSubstr("up to 4611686018427387904 for a while")));
}

TEST(SpaceNeed, ErrorsSayHowToGoOnAndKeepTheirCode) {
  SmallRun run;
  run.write_input("{\"text\":\"fox\"}\n");
  const int64_t before = num_io_calls();
  run.run();
  const int64_t num_calls = num_io_calls() - before;
  int num_errors = 0;
  for (const int code : {ENOSPC, EDQUOT, EIO}) {
    for (int64_t n = 1; n <= num_calls; n += 3) {
      set_io_fault(n, code);
      try {
        run.run();
      } catch (const std::exception& error) {  // RunFailed where another thread met it
        ++num_errors;
        EXPECT_EQ(exit_code_for(error), code == EIO ? ExitCode::kIo : ExitCode::kNoSpace);
        const std::string hint =
            "bytes free. Make space, then run the same command again: it goes ";
        EXPECT_EQ(std::string(error.what()).find(hint) != std::string::npos, code != EIO)
            << error.what();
        EXPECT_THAT(error.what(), HasSubstr(run.path("").substr(0, run.path("").size() - 1)));
      }
      set_io_fault(0, 0);
    }
  }
  EXPECT_GT(num_errors, 5);
}

}  // namespace
}  // namespace weft
