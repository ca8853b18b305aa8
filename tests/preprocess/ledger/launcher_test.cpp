// Launchers tell in the environment about the processes that they started; a program that was built
// without MPI reads it, too: no_mpi.cpp is linked here.
#include "indexed_dataset/base/ranks/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <stdexcept>

#include "preprocess/ledger/run_ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

Launch in(const Environment& environment) {
  return find_launch([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_in(const Environment& environment) {
  try {
    in(environment);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Launcher, AProcessOfItsOwnIsAlone) {
  EXPECT_EQ(in({}).num_processes, 1);
  EXPECT_FALSE(in({}).has_mpi);
  // torchrun's variables stay in shells, and say nothing about this program.
  EXPECT_EQ(in({{"RANK", "0"}, {"WORLD_SIZE", "8"}}).num_processes, 1);
  EXPECT_EQ(in({{"OMPI_COMM_WORLD_SIZE", ""}}).num_processes, 1);
}

TEST(Launcher, MpirunSaysHowMany) {
  const Launch launch = in({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "2"}});
  EXPECT_EQ(launch.num_processes, 4);
  EXPECT_TRUE(launch.has_mpi);
  EXPECT_EQ(in({{"OMPI_COMM_WORLD_SIZE", "1"}}).num_processes, 1);
}

TEST(Launcher, SrunWithPmix) {
  const Launch launch =
      in({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"PMIX_RANK", "1"}});
  EXPECT_EQ(launch.num_processes, 3);
  EXPECT_TRUE(launch.has_mpi);
  EXPECT_EQ(
      in({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}}).num_processes,
      1);
}

TEST(Launcher, SrunWithoutMpiIsSeen) {
  const Launch launch = in({{"SLURM_STEP_ID", "3"}, {"SLURM_STEP_NUM_TASKS", "3"}});
  EXPECT_EQ(launch.num_processes, 3);
  EXPECT_FALSE(launch.has_mpi);
  EXPECT_EQ(launch.source, "SLURM_STEP_NUM_TASKS=3");
}

TEST(Launcher, BatchScriptsAndShellsOfSallocAreOneProcess) {
  EXPECT_EQ(in({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_NTASKS", "8"}}).num_processes, 1);
  for (const char* step : {"4294967291", "4294967290", "batch"}) {
    EXPECT_EQ(in({{"SLURM_STEP_ID", step}, {"SLURM_STEP_NUM_TASKS", "8"}}).num_processes, 1);
  }
}

TEST(Launcher, MpirunInsideASlurmStepCountsForItself) {
  EXPECT_EQ(
      in({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}})
          .num_processes,
      4);
}

TEST(Launcher, OtherMpisAreSeen) {
  EXPECT_EQ(in({{"PMI_RANK", "0"}, {"PMI_SIZE", "5"}}).num_processes, 5);
  EXPECT_EQ(in({{"PMI_SIZE", "5"}}).num_processes, 1);
  const Launch unknown = in({{"PMIX_RANK", "0"}});
  EXPECT_EQ(unknown.num_processes, 0);
  EXPECT_TRUE(unknown.has_mpi);
}

TEST(Launcher, WhatIsNoNumberIsNamed) {
  for (const char* size : {"0", "-1", "four", "4x", "99999999999"}) {
    EXPECT_THAT(error_in({{"OMPI_COMM_WORLD_SIZE", size}}),
                HasSubstr(std::string("OMPI_COMM_WORLD_SIZE='") + size + "'"));
  }
}

TEST(Launcher, WithoutMpiSeveralRanksAreToldOfShards) {
  ASSERT_EQ(::setenv("OMPI_COMM_WORLD_SIZE", "2", 1), 0);
  try {
    RunRanks::join({});
    ADD_FAILURE() << "joined";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("built without MPI"));
    EXPECT_THAT(error.what(), HasSubstr("--shard I/N"));
  }
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_EQ(RunRanks::join({}), nullptr);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}

}  // namespace
}  // namespace weft
