// The environments are those seen under Slurm 22.05 and Open MPI 4.1 on a Slurm of virtual nodes
// (tests/slurm).
#include "preprocess/ledger/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

RankEnvironment in(const Variables& variables) {
  return find_rank_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string problem_in(const Variables& variables) {
  try {
    in(variables);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables kBatchScript = {
    {"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}, {"SLURM_NPROCS", "3"}};
const Variables kSrun = with(kBatchScript, {{"SLURM_PROCID", "2"},
                                            {"SLURM_STEP_ID", "0"},
                                            {"SLURM_STEPID", "0"},
                                            {"SLURM_STEP_NUM_TASKS", "3"}});

TEST(RankEnvironment, NoLauncherIsOneRank) {
  const RankEnvironment alone = in({});
  EXPECT_EQ(alone.rank, 0);
  EXPECT_EQ(alone.num_ranks, 1);
  EXPECT_EQ(alone.source, "");
  EXPECT_EQ(alone.launch_id, "");
}

TEST(RankEnvironment, SrunNumbersItsTasks) {
  const RankEnvironment found = in(kSrun);
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.num_ranks, 3);
  EXPECT_EQ(found.source, "SLURM_PROCID and SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(found.launch_id, "7.0");
}

TEST(RankEnvironment, BatchScriptsAndAllocatedShellsAreOneRank) {
  EXPECT_EQ(in(kBatchScript).num_ranks, 1);
  EXPECT_EQ(in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "3"}}).num_ranks, 1);
  // Newer Slurm runs both as steps of their own kind.
  EXPECT_EQ(in(with(kBatchScript, {{"SLURM_STEP_ID", "4294967291"}})).num_ranks, 1);
  EXPECT_EQ(in(with(kBatchScript, {{"SLURM_STEP_ID", "4294967290"}})).num_ranks, 1);
  EXPECT_EQ(in(with(kBatchScript, {{"SLURM_STEP_ID", "batch"}})).num_ranks, 1);
}

TEST(RankEnvironment, AStepOfOneTaskInALargerJobIsOneRank) {
  EXPECT_EQ(in(with(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})).num_ranks, 1);
}

TEST(RankEnvironment, PmixTakesItsSizeFromSlurm) {
  const RankEnvironment found =
      in(with(kSrun, {{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}}));
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.num_ranks, 3);
  EXPECT_EQ(found.launch_id, "slurm.pmix.7.0/7");
}

TEST(RankEnvironment, Pmi2AndMpich) {
  EXPECT_EQ(in({{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}}).rank, 4);
  EXPECT_EQ(in(with(kSrun, {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}})).source,
            "PMI_RANK and PMI_SIZE");
}

TEST(RankEnvironment, MpirunInsideAJobCountsForItself) {
  // The daemon that mpirun started by srun on the second node is task 0 of 1; its rank is 2 of 3.
  const Variables mpirun = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "3"},
                            {"PMIX_RANK", "2"},
                            {"PMIX_NAMESPACE", "1260650497"}};
  const RankEnvironment on_other_node =
      in(with(with(kSrun, mpirun),
              {{"SLURM_STEP_ID", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_EQ(on_other_node.rank, 2);
  EXPECT_EQ(on_other_node.num_ranks, 3);
  const RankEnvironment on_batch_node = in(with(kBatchScript, mpirun));
  EXPECT_EQ(on_batch_node.num_ranks, 3);
  EXPECT_EQ(on_batch_node.launch_id, on_other_node.launch_id);
}

TEST(RankEnvironment, ARequeuedJobIsAnotherLaunch) {
  EXPECT_NE(in(kSrun).launch_id, in(with(kSrun, {{"SLURM_RESTART_COUNT", "1"}})).launch_id);
}

TEST(RankEnvironment, RankAndWorldSizeCountTogetherOnly) {
  EXPECT_EQ(in({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).num_ranks, 2);
  EXPECT_EQ(in({{"RANK", "1"}}).num_ranks, 1);
  EXPECT_EQ(in({{"WORLD_SIZE", "2"}}).num_ranks, 1);
}

TEST(RankEnvironment, ContradictionsNameBothVariables) {
  EXPECT_THAT(problem_in(with(kSrun, {{"PMIX_RANK", "1"}})),
              AllOf(HasSubstr("PMIX_RANK=1"), HasSubstr("SLURM_PROCID=2"), HasSubstr("--ranks")));
  EXPECT_THAT(problem_in({{"OMPI_COMM_WORLD_RANK", "0"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"RANK", "1"},
                          {"WORLD_SIZE", "2"}}),
              AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=0"), HasSubstr("RANK=1 with WORLD_SIZE=2")));
}

TEST(RankEnvironment, HalfAnswersAndNonsenseAreErrors) {
  EXPECT_THAT(problem_in({{"OMPI_COMM_WORLD_RANK", "1"}}), HasSubstr("OMPI_COMM_WORLD_RANK=1"));
  EXPECT_THAT(problem_in({{"PMIX_RANK", "1"}}), HasSubstr("of how many ranks"));
  EXPECT_THAT(problem_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "3"}}),
              HasSubstr("PMI_RANK=3 is not below PMI_SIZE=3"));
  for (const char* text : {"-1", "two", "1x", " 1", "99999999999999999999", "0x1"}) {
    EXPECT_THAT(problem_in(with(kSrun, {{"SLURM_PROCID", text}})), HasSubstr("SLURM_PROCID"))
        << text;
  }
  EXPECT_THAT(problem_in(with(kSrun, {{"SLURM_STEP_NUM_TASKS", "0"}})),
              HasSubstr("SLURM_STEP_NUM_TASKS='0'"));
}

TEST(RankEnvironment, EmptyVariablesAreAbsent) {
  EXPECT_EQ(in({{"PMI_RANK", ""}, {"PMI_SIZE", ""}, {"RANK", ""}, {"WORLD_SIZE", ""}}).num_ranks,
            1);
}

}  // namespace
}  // namespace weft
