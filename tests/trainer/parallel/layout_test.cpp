// The place of each rank, against Megatron-LM's tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "trainer/parallel/parallel_layout.h"
#include "trainer/ranks/join_ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;
using Groups = std::set<std::vector<int>>;

Groups groups_of(const Topology& topology, GroupKind kind) {
  Groups groups;
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    groups.insert(ranks_of(layout_of(topology, rank), kind));
  }
  return groups;
}

// 16 GPUs of two nodes, tensor 2, pipeline 4: the example of initialize_model_parallel() in
// Megatron-LM megatron/core/parallel_state.py.
TEST(Layout, GroupsAreThoseOfMegatronsExample) {
  const Topology topology = topology_of(16, 2, 4);
  EXPECT_EQ(topology.dp_size, 2);
  EXPECT_EQ(groups_of(topology, GroupKind::kData),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups_of(topology, GroupKind::kTensor),
            (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups_of(topology, GroupKind::kPipeline),
            (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(groups_of(topology, GroupKind::kModel),
            (Groups{{0, 1, 4, 5, 8, 9, 12, 13}, {2, 3, 6, 7, 10, 11, 14, 15}}));
  EXPECT_EQ(ranks_of(layout_of(topology, 12), GroupKind::kTied), (std::vector{0, 12}));
  EXPECT_EQ(ranks_of(layout_of(topology, 4), GroupKind::kTied), (std::vector{4}));
}

// --use-tp-pp-dp-mapping: the stages of a pipeline are neighbours.
TEST(Layout, OrderTpPpDpKeepsAPipelineTogether) {
  const Topology topology = topology_of(16, 2, 4, RankOrder::kTpPpDp);
  EXPECT_EQ(groups_of(topology, GroupKind::kPipeline),
            (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(groups_of(topology, GroupKind::kData),
            (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
}

TEST(Layout, RanksAndCoordinatesInvertEachOther) {
  for (const RankOrder order : {RankOrder::kTpDpPp, RankOrder::kTpPpDp}) {
    for (int tp = 1; tp <= 4; ++tp) {
      for (int pp = 1; pp <= 3; ++pp) {
        const Topology topology{tp, pp, 5, order};
        for (int rank = 0; rank < topology.world_size(); ++rank) {
          const ParallelLayout layout = layout_of(topology, rank);
          ASSERT_EQ(layout.world_rank(), rank);
          for (const GroupKind kind : {GroupKind::kTensor, GroupKind::kPipeline, GroupKind::kData,
                                       GroupKind::kModel, GroupKind::kTied}) {
            ASSERT_THAT(ranks_of(layout, kind), testing::Contains(rank));
          }
        }
      }
    }
  }
}

TEST(Layout, SizesThatDoNotDivideAreNamed) {
  try {
    topology_of(6, 4, 1);
    FAIL() << "6 ranks hold no tensor-parallel groups of 4";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("6 ranks are not a multiple of "
                                        "--tensor-model-parallel-size 4"));
  }
}

std::string launch_error(const std::vector<std::pair<std::string, std::string>>& environment) {
  try {
    find_launch_of_ranks([&](const char* name) -> std::optional<std::string> {
      for (const auto& [key, value] : environment) {
        if (key == name) return value;
      }
      return std::nullopt;
    });
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(JoinRanks, LaunchersWithoutMpiAreRefusedWithTheWayToStart) {
  EXPECT_EQ(launch_error({}), "");
  EXPECT_EQ(launch_error({{"OMPI_COMM_WORLD_SIZE", "4"}}), "");
  EXPECT_EQ(launch_error({{"WORLD_SIZE", "1"}, {"RANK", "0"}}), "");
  EXPECT_THAT(launch_error({{"WORLD_SIZE", "8"}, {"RANK", "3"}}),
              HasSubstr("torchrun's variables (RANK=3, WORLD_SIZE=8)"));
  EXPECT_THAT(launch_error({{"WORLD_SIZE", "8"}, {"RANK", "3"}}), HasSubstr("srun --mpi=pmix"));
  EXPECT_THAT(launch_error({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}),
              HasSubstr("srun --mpi=pmix, or with mpirun"));
  // mpirun's own ranks may carry torchrun's variables, too.
  EXPECT_EQ(launch_error({{"OMPI_COMM_WORLD_SIZE", "4"}, {"WORLD_SIZE", "4"}, {"RANK", "1"}}), "");
}

}  // namespace
}  // namespace weft
