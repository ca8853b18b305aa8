// Ranks as threads of one process sum, gather and exchange tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "indexed_dataset/base/process/exit_code.h"
#include "kernels/forwarding_backend.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/float16.h"
#include "kernels/numbers/philox.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/parallel/first_operations.h"
#include "trainer/parallel/nccl_failure.h"
#include "trainer/parallel/parameter_gatherer.h"

namespace weft {
namespace {

std::vector<float> values_of(int rank, int64_t count, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t word = philox_word(seed, static_cast<uint64_t>(rank), i);
    values[i] = static_cast<float>(word) / 1e9F - 2.0F;
  }
  return values;
}

Tensor tensor_of(std::vector<float>& values) {
  return Tensor(values.data(), DType::kFloat32, {static_cast<int64_t>(values.size())});
}

class Sums : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, Sums, testing::Values(2, 3, 4, 7));

// Each element is ((v0 + v1) + v2) + ... in fp32, to the bit, on every rank.
TEST_P(Sums, AreMadeInTheOrderOfRanks) {
  const int size = GetParam();
  for (const int64_t count : {int64_t{1}, int64_t{5}, int64_t{1000}, int64_t{4096 * size}}) {
    std::vector<float> expected = values_of(0, count, 3);
    std::vector<float> greatest = expected;
    for (int rank = 1; rank < size; ++rank) {
      const std::vector<float> other = values_of(rank, count, 3);
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] += other[i];
        greatest[i] = std::max(greatest[i], other[i]);
      }
    }
    run_topology({1, 1, size}, [&](ProcessGroups& groups) {
      Communicator& data = *groups.data;
      ASSERT_EQ(data.rank(), groups.host->rank());
      std::vector<float> values = values_of(data.rank(), count, 3);
      data.all_reduce(tensor_of(values), Reduce::kSum, Stream::kCompute);
      EXPECT_EQ(values, expected);
      values = values_of(data.rank(), count, 3);
      data.all_reduce(tensor_of(values), Reduce::kMax, Stream::kCompute);
      EXPECT_EQ(values, greatest);
      if (count % size != 0) return;
      // In place, a reduce-scatter and an all-gather make an all-reduce.
      values = values_of(data.rank(), count, 3);
      const int64_t part = count / size;
      const Tensor own(values.data() + data.rank() * part, DType::kFloat32, {part});
      data.reduce_scatter(own, tensor_of(values), Stream::kCompute);
      data.all_gather(tensor_of(values), own, Stream::kCompute);
      EXPECT_EQ(values, expected);
    });
  }
}

// Whichever rank has it: what looks for a scale must not lose a maximum to the order of ranks.
TEST_P(Sums, AMaximumPassesOverWhatIsNoNumber) {
  const int size = GetParam();
  for (int nan_rank = 0; nan_rank < size; ++nan_rank) {
    run_topology({1, 1, size}, [&](ProcessGroups& groups) {
      std::vector<float> values(static_cast<size_t>(size),
                                groups.host->rank() == nan_rank ? std::nanf("") : -1.0F);
      groups.data->all_reduce(tensor_of(values), Reduce::kMax, Stream::kCompute);
      EXPECT_THAT(values, testing::Each(-1.0F)) << nan_rank;
    });
  }
}

// A bucket that one rank gathers first and another one later would be mixed up with others.
TEST(ParameterGatherer, RefusesBucketsOutOfOrder) {
  run_topology({1, 1, 2}, [](ProcessGroups& groups) {
    const auto backend = create_cpu_backend(1);
    const ArenaShards shards(8 * kOptimizerBlock, 2 * kOptimizerBlock, groups.host->rank(), 2,
                             /*sharded=*/true);
    std::vector<float> parameters(static_cast<size_t>(shards.padded_elements()));
    ParameterGatherer gatherer(*backend, groups, shards);
    gatherer.bind(tensor_of(parameters));
    ASSERT_EQ(shards.buckets().size(), 4U);
    EXPECT_THROW(gatherer.gather(0), std::logic_error) << "the last bucket comes first";
  });
}

// All ranks add up numbers of two bytes.
template <typename T>
void expect_sums_rounded_once(int size, DType dtype) {
  constexpr size_t kCount = 33;
  std::vector<float> expected(kCount, 0);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<float> values = values_of(rank, kCount, 5);
    for (size_t i = 0; i < kCount; ++i) expected[i] += static_cast<float>(T(values[i]));
  }
  run_topology({size, 1, 1}, [&](ProcessGroups& groups) {
    std::vector<T> values;
    for (const float value : values_of(groups.tensor->rank(), kCount, 5)) {
      values.emplace_back(value);
    }
    groups.tensor->all_reduce(Tensor(values.data(), dtype, {int64_t{kCount}}), Reduce::kSum,
                              Stream::kCompute);
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(static_cast<float>(values[i]), static_cast<float>(T(expected[i])));
    }
  });
}

TEST_P(Sums, OfBf16AndFp16AreRoundedOnce) {
  expect_sums_rounded_once<BFloat16>(GetParam(), DType::kBFloat16);
  expect_sums_rounded_once<Float16>(GetParam(), DType::kFloat16);
}

TEST(Communicators, OfOneRankDoNotMixTheirMessages) {
  run_topology(topology_of(8, 2, 2), [](ProcessGroups& groups) {
    const int world = groups.host->rank();
    for (int turn = 0; turn < 10; ++turn) {
      for (const GroupKind kind : {GroupKind::kTensor, GroupKind::kPipeline, GroupKind::kData,
                                   GroupKind::kModel, GroupKind::kTied}) {
        Communicator& group = *groups.of(kind);
        const std::vector<int> ranks = ranks_of(groups.layout, kind);
        ASSERT_EQ(group.size(), static_cast<int>(ranks.size()));
        std::vector<float> value{static_cast<float>(world + 1)};
        group.all_reduce(tensor_of(value), Reduce::kSum, Stream::kCompute);
        float expected = 0;
        for (const int rank : ranks) expected += static_cast<float>(rank + 1);
        EXPECT_EQ(value[0], expected) << name_of(kind);
        value[0] = static_cast<float>(world);
        group.broadcast(tensor_of(value), group.size() - 1, Stream::kCompute);
        EXPECT_EQ(value[0], static_cast<float>(ranks.back())) << name_of(kind);
      }
    }
  });
}

TEST(Communicators, ExchangeInARingWithoutBlocking) {
  run_topology({1, 4, 1}, [](ProcessGroups& groups) {
    Communicator& ring = *groups.pipeline;
    std::vector<float> mine(100'000, static_cast<float>(ring.rank())), received(mine.size());
    const Transfer transfers[] = {{tensor_of(mine), (ring.rank() + 1) % 4, true},
                                  {tensor_of(received), (ring.rank() + 3) % 4, false}};
    ring.exchange(transfers, Stream::kCompute);
    EXPECT_EQ(received, std::vector<float>(mine.size(), static_cast<float>((ring.rank() + 3) % 4)));
  });
}

// Each kind of operation that training uses runs once, whatever the number of ranks.
TEST(FirstOperations, RunOverAnyNumberOfRanks) {
  for (const int size : {2, 3, 5}) {
    run_topology({.dp_size = size}, [](ProcessGroups& groups) {
      const auto backend = create_cpu_backend(1);
      EXPECT_NO_THROW(run_first_operations(*groups.data, *backend, /*exchanges=*/true));
    });
  }
}

// A communicator that gets one kind of operation wrong.
class WrongCommunicator final : public Communicator {
 public:
  WrongCommunicator(Communicator& inner, int wrong) : inner_(inner), wrong_(wrong) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(Tensor inout, Reduce reduce, Stream stream) override {
    inner_.all_reduce(inout, reduce, stream);
    if (wrong_ == 0) std::memset(inout.data(), 0, static_cast<size_t>(inout.num_bytes()));
  }
  void reduce_scatter(Tensor out, Tensor inp, Stream stream) override {
    inner_.reduce_scatter(out, inp, stream);
    if (wrong_ == 1) std::memset(out.data(), 0, static_cast<size_t>(out.num_bytes()));
  }
  void all_gather(Tensor out, Tensor inp, Stream stream) override {
    if (wrong_ == 4) throw std::invalid_argument("no algorithm for it");
    inner_.all_gather(out, inp, stream);
    if (wrong_ == 2) std::memset(out.data(), 0, static_cast<size_t>(out.num_bytes()));
  }
  void broadcast(Tensor inout, int root, Stream stream) override {
    inner_.broadcast(inout, root, stream);
  }
  void exchange(std::span<const Transfer> transfers, Stream stream) override {
    inner_.exchange(transfers, stream);
    for (const Transfer& t : transfers) {
      if (wrong_ == 3 && !t.sends)
        std::memset(t.tensor.data(), -1, static_cast<size_t>(t.tensor.num_bytes()));
    }
  }

 private:
  Communicator& inner_;
  int wrong_;
};

TEST(FirstOperations, TellWhichOneIsWrong) {
  const char* const expected[] = {"the first sum over 2 ranks gave 0 instead of 2",
                                  "the first reduce-scatter over 2 ranks gave 0",
                                  "the first all-gather over 2 ranks gave 0 instead of 1",
                                  "the first exchange over 2 ranks gave "};
  for (int wrong = 0; wrong < 4; ++wrong) {
    run_topology({.dp_size = 2}, [&](ProcessGroups& groups) {
      const auto backend = create_cpu_backend(1);
      WrongCommunicator communicator(*groups.data, wrong);
      try {
        run_first_operations(communicator, *backend, /*exchanges=*/true);
        ADD_FAILURE() << expected[wrong];
      } catch (const DeviceLost& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(expected[wrong]));
      }
    });
  }
  run_topology({.dp_size = 2}, [&](ProcessGroups& groups) {
    const auto backend = create_cpu_backend(1);
    WrongCommunicator communicator(*groups.data, 4);
    EXPECT_THROW(run_first_operations(communicator, *backend, /*exchanges=*/false),
                 std::invalid_argument);
  });
}

// Without pipeline stages the ranks of one model are its tensor-parallel ranks.
TEST(ProcessGroups, OfTheSameRanksAreOneCommunicator) {
  const Topology topology{.tp_size = 2, .dp_size = 2};
  run_topology(topology, [](ProcessGroups& groups) {
    EXPECT_EQ(groups.model, groups.tensor);
    EXPECT_NE(groups.data, groups.tensor);
    EXPECT_EQ(groups.model->size(), 2);
  });
  EXPECT_EQ(num_groups_of_several(topology), 2);
  EXPECT_EQ(num_groups_of_several({.tp_size = 2}), 1);
  EXPECT_EQ(num_groups_of_several({.tp_size = 2, .pp_size = 4, .dp_size = 2}), 5);
  EXPECT_EQ(num_groups_of_several({}), 0);
}

// A communicator that has failed while the device waits ends the wait.
TEST(ProcessGroups, WaitForTheDeviceOrAFailure) {
  class FailedCommunicator final : public Communicator {
   public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    void all_reduce(Tensor, Reduce, Stream) override {}
    void reduce_scatter(Tensor, Tensor, Stream) override {}
    void all_gather(Tensor, Tensor, Stream) override {}
    void broadcast(Tensor, int, Stream) override {}
    void exchange(std::span<const Transfer>, Stream) override {}
    void throw_if_failed() override { throw std::runtime_error("the network is gone"); }
  };
  class BusyBackend final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    bool has_happened(EventId) override { return false; }
  };
  run_ranks(2, [](HostGroup& host) {
    ProcessGroups groups = create_lone_process_groups();
    groups.host = &host;
    const auto idle = create_cpu_backend(1);
    const EventId event = idle->create_event();
    idle->record(event, Stream::kCompute);
    groups.tensor = std::make_shared<FailedCommunicator>();
    EXPECT_NO_THROW(groups.wait_for(*idle, event)) << "the event has happened";
    BusyBackend busy(create_cpu_backend(1));
    EXPECT_THROW(groups.wait_for(busy, event), std::runtime_error);
  });
}

TEST(NcclFailures, HaveTheExitCodeOfTheirCause) {
  const auto code_of = [](NcclResult result, const std::string& text) -> std::string {
    try {
      throw_nccl_failure(result, text);
    } catch (const DeviceOutOfMemory&) {
      return "device out of memory";
    } catch (const DeviceLost&) {
      return "device lost";
    } catch (const std::exception& error) {
      return std::to_string(static_cast<int>(exit_code_for(error)));
    }
  };
  EXPECT_EQ(code_of(NcclResult::kUnhandledCudaError, "Cuda failure 2 'out of memory'"),
            "device out of memory");
  EXPECT_EQ(code_of(NcclResult::kUnhandledCudaError, "an illegal memory access"), "device lost");
  EXPECT_EQ(code_of(NcclResult::kSystemError, "socket"), "13");
  EXPECT_EQ(code_of(NcclResult::kSystemError,
                    "Error while creating shared memory segment /dev/shm/nccl-x (size 9637888), "
                    "error: No space left on device (28)"),
            "9");
  EXPECT_EQ(
      code_of(NcclResult::kSystemError,
              "Error while attaching to shared memory segment /dev/shm/nccl-x (size 9637888), "
              "error: No such file or directory (2)"),
      "13");
  EXPECT_EQ(code_of(NcclResult::kRemoteError, "gone"), "13");
  EXPECT_EQ(code_of(NcclResult::kInvalidUsage, "Duplicate GPU"), "2");
  EXPECT_EQ(code_of(NcclResult::kInternalError, "?"), "1");
  EXPECT_EQ(code_of(NcclResult::kInvalidArgument, "?"), "1");
}

TEST(RankTable, NamesEachRanksPlace) {
  run_topology(topology_of(4, 2, 1), [](ProcessGroups& groups) {
    const std::string table =
        rank_table(*groups.host, groups.layout, groups.host->all_gather("CPU"));
    EXPECT_THAT(table, testing::HasSubstr("rank"));
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
  });
}

}  // namespace
}  // namespace weft
