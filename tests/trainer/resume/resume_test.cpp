// Where a run goes on from a checkpoint, and which checkpoints do not fit it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/small_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

TEST(Resume, GoesOnWhereTheCheckpointEnded) {
  const Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const Resume resume = plan_resume(saved_by(config, shape), shape, config, data_of_run());
  EXPECT_TRUE(resume.load_optimizer);
  EXPECT_EQ(resume.state.scalars.iteration, 3);
  EXPECT_EQ(resume.state.scalars.adam_step, 3);
  EXPECT_EQ(resume.state.consumed_valid_samples, 16);
  EXPECT_EQ(resume.state.lr.position().samples, 24);
}

TEST(Resume, TheCyclicOrderKeepsTheSizesThatItWasBegunWith) {
  Config config = base_config();
  config.dataloader_type = "cyclic";
  const ModelShape shape = model_shape(config, 64);
  const CyclicOptions begun{.micro_batch_size = config.micro_batch_size,
                            .data_parallel_size = config.data_parallel_size()};
  RunState state = plan_resume(saved_by(base_config(), shape), shape, config, data_of_run()).state;
  state.cyclic = begun;
  const CheckpointInfo first = checkpoint_info(state, shape, config, data_of_run());
  Config other = config;
  other.world_size *= 2;
  other.micro_batch_size *= 2;
  Resume resume = plan_resume(first, shape, other, data_of_run());
  EXPECT_EQ(resume.state.cyclic, begun);
  EXPECT_THAT(resume.warnings, testing::IsEmpty());
  // They stay the same over a second resume.
  const CheckpointInfo again = checkpoint_info(resume.state, shape, other, data_of_run());
  EXPECT_EQ(plan_resume(again, shape, other, data_of_run()).state.cyclic, begun);
  other.finetune = true;
  EXPECT_EQ(plan_resume(again, shape, other, data_of_run()).state.cyclic, std::nullopt);
  EXPECT_EQ(plan_resume(saved_by(base_config(), shape), shape, config, data_of_run()).state.cyclic,
            std::nullopt)
      << "a run that was read in order begins the cyclic one";
}

TEST(Resume, AnotherArchitectureIsRefusedWithEveryDifference) {
  Config config = base_config();
  const CheckpointInfo info = saved_by(config, model_shape(config, 64));
  config.num_layers = 3;
  config.hidden_size = 64;
  try {
    plan_resume(info, model_shape(config, 64), config, data_of_run());
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("num_layers"), HasSubstr("hidden_size")));
  }
}

TEST(Resume, AnotherScheduleIsRefusedUnlessTold) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  config.lr = 2e-3;
  EXPECT_THROW(plan_resume(info, shape, config, data_of_run()), std::invalid_argument);
  config.override_lr_scheduler = true;
  EXPECT_EQ(plan_resume(info, shape, config, data_of_run()).state.lr.settings().max_lr, 2e-3);
  config.override_lr_scheduler = false;
  config.use_checkpoint_lr_scheduler = true;
  EXPECT_EQ(plan_resume(info, shape, config, data_of_run()).state.lr.settings().max_lr, 1e-3);
}

TEST(Resume, FinetuningAndImportedWeightsStartAtIterationZero) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  config.finetune = true;
  EXPECT_EQ(plan_resume(info, shape, config, data_of_run()).state.scalars.iteration, 0);
  EXPECT_FALSE(plan_resume(info, shape, config, data_of_run()).load_optimizer);
  config.finetune = false;
  CheckpointInfo imported;
  imported.architecture = info.architecture;
  imported.has_optimizer = false;
  EXPECT_EQ(plan_resume(imported, shape, config, data_of_run()).state.scalars.iteration, 0);
  EXPECT_FALSE(plan_resume(imported, shape, config, data_of_run()).load_optimizer);
}

TEST(Resume, TheStateOfAnotherOptimizerIsRefused) {
  Config adam = base_config();
  Config muon = adam;
  muon.optimizer = "muon";
  const ModelShape shape = model_shape(adam, 64);
  for (const auto& [saved, ours] : {std::pair{adam, muon}, std::pair{muon, adam}}) {
    const CheckpointInfo info = saved_by(saved, shape);
    Config config = ours;
    try {
      plan_resume(info, shape, config, data_of_run());
      FAIL() << config.optimizer;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("--optimizer was " + saved.optimizer +
                                                         " when the checkpoint was saved"),
                                               HasSubstr("--no-load-optim")));
    }
    config.no_load_optim = true;
    EXPECT_FALSE(plan_resume(info, shape, config, data_of_run()).load_optimizer);
  }
  muon.optimizer = "dist_muon";
  Config replicated = muon;
  replicated.optimizer = "muon";
  EXPECT_TRUE(plan_resume(saved_by(muon, shape), shape, replicated, data_of_run()).load_optimizer);
}

TEST(Resume, WithoutTheOptimizerItsStepsStartAfresh) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  config.no_load_optim = true;
  const Resume resume = plan_resume(saved_by(config, shape), shape, config, data_of_run());
  EXPECT_FALSE(resume.load_optimizer);
  EXPECT_EQ(resume.state.scalars.iteration, 3);
  EXPECT_EQ(resume.state.scalars.adam_step, 0);
  config.no_load_optim = false;
  CheckpointInfo weights = saved_by(config, shape);
  weights.has_optimizer = false;  // --no-save-optim
  EXPECT_FALSE(plan_resume(weights, shape, config, data_of_run()).load_optimizer);
  const Resume fresh = plan_resume(weights, shape, config, data_of_run());
  EXPECT_EQ(fresh.state.scalars.iteration, 3);
  EXPECT_THAT(fresh.warnings, testing::Contains(HasSubstr("--no-load-optim")));
  config.no_load_optim = true;
  EXPECT_THAT(plan_resume(weights, shape, config, data_of_run()).warnings, testing::IsEmpty());
}

TEST(Resume, AScheduleThatAnotherBatchSizeChangesIsExplainedByThat) {
  Config config = base_config();
  config.lr_decay_iters = 10;
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  const int64_t before = config.global_batch();
  config.global_batch_size = 2 * before;
  EXPECT_THAT([&] { plan_resume(info, shape, config, data_of_run()); },
              testing::ThrowsMessage<std::invalid_argument>(
                  HasSubstr("--global-batch-size was " + std::to_string(before) + " and is " +
                            std::to_string(2 * before))));
}

TEST(Resume, MoreRowsThanTheDatasHasWordsAreNamedWithTheWay) {
  const Config config = base_config();
  const CheckpointInfo info = saved_by(config, model_shape(config, 80));
  EXPECT_THAT([&] { plan_resume(info, model_shape(config, 64), config, data_of_run()); },
              testing::ThrowsMessage<std::invalid_argument>(HasSubstr("give --vocab-size 80")));
}

TEST(Resume, AFolderOfWeightsThatIsNoSaveFolderIsNeverAnEmptyOne) {
  const TemporaryFolder folder;
  Config config = base_config();
  const auto error = [&](const std::string& load) {
    config.load = load;
    try {
      checkpoint_to_load(config);
    } catch (const std::exception& refusal) {
      return std::string(refusal.what());
    }
    return std::string();
  };
  const std::string inside = (folder / "ck/iter_0000010").string();
  std::filesystem::create_directories(inside);
  write_file_atomically(inside + "/manifest.json", "{}");
  for (const std::string& load : {inside, inside + "/"}) {
    EXPECT_THAT(error(load), HasSubstr("is a checkpoint itself")) << load;
    EXPECT_THAT(error(load), HasSubstr("--load " + (folder / "ck").string() + ",")) << load;
  }
  std::filesystem::create_directories(folder / "megatron/release/mp_rank_00");
  EXPECT_THAT(error((folder / "megatron").string()), HasSubstr("a checkpoint of Megatron"));
  EXPECT_THAT(error((folder / "megatron/release").string()), HasSubstr("weft-model import"));
  std::filesystem::create_directories(folder / "deepspeed/global_step10");
  EXPECT_THAT(error((folder / "deepspeed").string()), HasSubstr("a checkpoint of Megatron"));
  std::filesystem::create_directories(folder / "trained/iter_0000010/mp_rank_00");
  EXPECT_THAT(error((folder / "trained").string()), HasSubstr("there is a checkpoint of Megatron"));
  write_file_atomically(folder / "megatron/latest_checkpointed_iteration.txt", "release");
  EXPECT_THAT(error((folder / "megatron").string()), HasSubstr("weft-model import"));
}

TEST(Resume, AMissingCheckpointIsAnErrorWhereAskedFor) {
  const TemporaryFolder folder;
  Config config = base_config();
  EXPECT_FALSE(checkpoint_to_load(config));
  config.load = (folder / "none").string();
  EXPECT_FALSE(checkpoint_to_load(config));
  config.exit_on_missing_checkpoint = true;
  EXPECT_THROW(checkpoint_to_load(config), std::runtime_error);
  config.ckpt_step = 40;
  EXPECT_EQ(checkpoint_to_load(config)->iteration, 40);
}

}  // namespace
}  // namespace weft
