// Runs weft-model as a user does: its commands on a checkpoint of weft-train, and what it says to
// command lines with mistakes.
#include <gmock/gmock.h>

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ModelCommands : public Training {
 protected:
  ExitCode model(Arguments words) {
    words.insert(words.begin(), std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-model");
    return static_cast<ExitCode>(wait(start_program(std::move(words))));
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
};

TEST_F(ModelCommands, ExportImportAndDiffLeadBackToTheSameWeights) {
  ASSERT_EQ(run(arguments("run", 10)), 0) << output();
  ASSERT_EQ(model({"export", "--load", path("run"), "--output", path("hf"), "--no-tokenizer",
                   "--ckpt-step", "10"}),
            ExitCode::kDone)
      << output();
  EXPECT_THAT(output(), HasSubstr("exported iteration 10 of " + path("run")));
  ASSERT_EQ(model({"import", "--input", path("hf"), "--save", path("imported")}), ExitCode::kDone)
      << output();
  EXPECT_THAT(output(), HasSubstr("start from it with weft-train --load " + path("imported")));
  EXPECT_EQ(model({"import", "--input", path("hf"), "--save", path("imported")}), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr(" already holds checkpoints; import into another folder"));

  // Another program's weights must not be passed over.
  Arguments from_folder = arguments("fresh", 10);
  *(std::find(from_folder.begin(), from_folder.end(), "--load") + 1) = path("hf");
  EXPECT_EQ(run(from_folder), static_cast<int>(ExitCode::kUsage)) << output();
  EXPECT_THAT(output(), HasSubstr("--load " + path("hf") + " is a Hugging Face folder: make a"));

  EXPECT_EQ(
      model({"export", "--load", path("imported"), "--output", path("again"), "--no-tokenizer"}),
      ExitCode::kDone)
      << output();
  EXPECT_EQ(read_file(folder_ / "hf/model.safetensors"),
            read_file(folder_ / "again/model.safetensors"));

  EXPECT_EQ(model({"diff", "--first", path("run"), "--second", path("run")}), ExitCode::kDone);
  EXPECT_THAT(output(), HasSubstr(" tensors are equal, 0 differ"));
  EXPECT_EQ(model({"diff", "--first", path("run"), "--second", path("run"), "--second-step", "5"}),
            ExitCode::kBadInput);
  EXPECT_THAT(output(), Not(HasSubstr(", 0 differ")));
}

TEST_F(ModelCommands, AllProblemsOfACommandLineAreToldAtOnce) {
  EXPECT_EQ(model({"export", "--laod", "x", "--dtype", "float8", "--ckpt-step", "ten",
                   "--vocab-file", "v.json"}),
            ExitCode::kUsage);
  EXPECT_THAT(output(), AllOf(HasSubstr("problems with the options:"),
                              HasSubstr("--laod: unknown option; did you mean --load?"),
                              HasSubstr("--dtype: 'float8' is none of float32, bfloat16"),
                              HasSubstr("--ckpt-step: 'ten' is not an integer"),
                              HasSubstr("--load is required"), HasSubstr("--output is required"),
                              HasSubstr("--vocab-file and --merge-file belong together"),
                              HasSubstr("weft-model export --help lists all options")));
}

TEST_F(ModelCommands, AnOptionIsNotTheValueOfTheOneBeforeIt) {
  EXPECT_EQ(model({"export", "--load", path("run"), "--output", "--overwrite"}), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr("--output: its value is missing; if it is '--overwrite', write "
                                  "--output=--overwrite"));
}

TEST_F(ModelCommands, HelpAndVersionAndUnknownCommands) {
  EXPECT_EQ(model({"--help"}), ExitCode::kDone);
  for (const char* command : {"export", "import", "diff"})
    EXPECT_THAT(output(), HasSubstr(std::string("\n  ") + command + " "));
  EXPECT_EQ(model({"import", "--help"}), ExitCode::kDone);
  EXPECT_THAT(output(), HasSubstr("--make-vocab-size-divisible-by"));
  EXPECT_EQ(model({"--version"}), ExitCode::kDone);
  EXPECT_THAT(output(), HasSubstr("weft-model "));
  EXPECT_EQ(model({"exprot"}), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr("'exprot': unknown command; did you mean export?"));
  EXPECT_EQ(model({}), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr("give one of the commands export, import, diff"));
}

TEST_F(ModelCommands, AFolderWithoutACheckpointIsBadInput) {
  EXPECT_EQ(model({"diff", "--first", path(""), "--second", path("")}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr(" holds no checkpoint"));
}

}  // namespace
}  // namespace weft
