// A resumed run says which arguments it changes.
#include "trainer/resume/argument_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/small_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

TEST(Resume, WarnsOfWhatChangesTheOrderOfTheSamples) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  config.seed += 1;
  config.split = "80,10,10";
  config.global_batch_size = 16;
  config.override_lr_scheduler = true;
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--global-batch-size was 8 when"),
                                   HasSubstr("--seed was"), HasSubstr("--split was")));
}

TEST(Resume, WarnsOfAChangedListOfOneElement) {
  Config config = base_config();
  config.curriculum = {.schedule_type = "fixed_discrete", .difficulty = {8, 16}, .max_step = {10}};
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  config.curriculum.max_step = {7};
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--curriculum-max-step was [10]")));
}

TEST(Resume, ASplitInOtherWordsIsNoChange) {
  Config config = base_config();
  config.split = "969,30,1";
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  config.split = "969, 30, 1";
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings, testing::IsEmpty());
  config.split = "969, 31, 1";
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings,
              testing::ElementsAre(testing::HasSubstr("--split was")));
}

TEST(Resume, WarnsOfEvaluationsThatTakeOtherSamples) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  config.eval_iters += 1;
  config.eval_interval += 1;
  config.full_validation = true;
  EXPECT_THAT(plan_resume(info, shape, config, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--eval-iters was"), HasSubstr("--eval-interval was"),
                                   HasSubstr("--full-validation was")));
}

TEST(Resume, WarnsOfACurriculumThatBeginsOrEnds) {
  const Config plain = base_config();
  Config growing = plain;
  growing.curriculum = {.schedule_type = "fixed_linear", .min_difficulty = 8, .total_step = 5};
  const ModelShape shape = model_shape(plain, 64);
  CheckpointInfo info = saved_by(plain, shape);
  const auto begins = testing::Contains(HasSubstr(
      "--curriculum-schedule-type was null when the checkpoint was saved and is \"fixed_linear\""));
  EXPECT_THAT(plan_resume(info, shape, growing, data_of_run()).warnings, begins);
  EXPECT_THAT(plan_resume(saved_by(growing, shape), shape, plain, data_of_run()).warnings,
              testing::Contains(HasSubstr("--curriculum-schedule-type was \"fixed_linear\"")));
}

TEST(Resume, WarnsOfAResidualStreamOfAnotherType) {
  Config narrow = base_config();
  narrow.bf16 = true;
  Config wide = narrow;
  wide.fp32_residual_connection = true;
  const ModelShape shape = model_shape(narrow, 64);
  CheckpointInfo info = saved_by(narrow, shape);
  const auto becomes_fp32 = testing::ElementsAre(HasSubstr(
      "--fp32-residual-connection was false when the checkpoint was saved and is true now: "
      "the run goes on with the new value"));
  EXPECT_THAT(plan_resume(info, shape, wide, data_of_run()).warnings, becomes_fp32);
  EXPECT_THAT(plan_resume(saved_by(wide, shape), shape, narrow, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--fp32-residual-connection was true")));
}

TEST(Resume, WarnsOfMomentsThatAreConverted) {
  const Config fp32 = base_config();
  Config bf16 = fp32;
  bf16.bf16_optimizer_state = true;
  const ModelShape shape = model_shape(fp32, 64);
  CheckpointInfo info = saved_by(fp32, shape);
  const auto converts = testing::ElementsAre(
      HasSubstr("--bf16-optimizer-state was false when the checkpoint was saved and is true now: "
                "Adam's moments are converted"));
  EXPECT_THAT(plan_resume(info, shape, bf16, data_of_run()).warnings, converts);
  EXPECT_THAT(plan_resume(saved_by(bf16, shape), shape, fp32, data_of_run()).warnings,
              testing::ElementsAre(HasSubstr("--bf16-optimizer-state was true")));
}

}  // namespace
}  // namespace weft
