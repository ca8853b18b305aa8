// All ranks of a run use the GEMM algorithms that one of them has timed.
#include "trainer/loop/tune_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "kernels/cuda/gemm/algorithm_table.h"
#include "kernels/forwarding_backend.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/model_fixture.h"
#include "tests/trainer/ranks/thread_ranks.h"

namespace weft {
namespace {

// A backend that times products as a GPU does: what its table lacks gets this rank's own choice.
class TimingBackend final : public ForwardingBackend {
 public:
  TimingBackend(int rank, bool has_memory, const std::string& gpu)
      : ForwardingBackend(create_cpu_backend(1)),
        rank_(rank),
        has_memory_(has_memory),
        end_of_keys_(",workspace=64MiB,cublaslt=1,gpu=" + gpu) {}
  TuneResult tune(std::span<const AnyOperation>, const AlgorithmChoices& known) override {
    if (!has_memory_) return {.notes = "GEMM algorithms are not timed\n"};
    table_.offer(known);
    for (const char* product : {"m=1", "m=2"}) {
      const std::string key = product + end_of_keys_;
      if (!table_.find(key)) table_.add(key, std::to_string(rank_));
    }
    const std::string own = "m=1" + end_of_keys_ + ",own";
    if (has_own_kernels_ && !table_.find(own)) table_.add(own, std::to_string(rank_));
    return {.timed = table_.take_timed()};
  }
  // Times our own kernel for m=1 beside the library's, if the memory lasts so far.
  void set_own_kernels(bool has_own_kernels) { has_own_kernels_ = has_own_kernels; }
  std::string algorithms() const override { return text_of(table_.in_use()); }
  void use_algorithms(const std::string& text) override {
    table_.use(parse_algorithms(text, "a text"));
  }
  // As Gemm chooses while a run goes on; "" is the library's own choice.
  std::string choice(const std::string& question = "") {
    return table_.find_settled("m=1" + end_of_keys_ + question).value_or("");
  }

 private:
  const int rank_;
  const bool has_memory_;
  bool has_own_kernels_ = false;
  cuda::AlgorithmTable table_;
  const std::string end_of_keys_;
};

// Returns the choices of all ranks for one product, those of `short_ranks` without memory to time.
// With files each rank has one of its own, from earlier runs on its node.
std::vector<std::string> tuned(const std::set<int>& short_ranks, bool has_files = false) {
  const TemporaryFolder folder;
  std::vector<std::string> choices(3);
  run_ranks(3, [&](HostGroup& ranks) {
    const std::string rank = std::to_string(ranks.rank());
    const std::filesystem::path file = folder / rank;
    if (has_files) {
      write_file_atomically(
          file, "weft-gemm-algorithms 1\nm=1,workspace=64MiB,cublaslt=1,gpu=H200 a" + rank + "\n");
    }
    TimingBackend backend(ranks.rank(), short_ranks.count(ranks.rank()) == 0, "H200");
    Trainer trainer(backend, small_options());
    tune_on_first_rank(trainer, backend, ranks, file);
    choices[static_cast<size_t>(ranks.rank())] = backend.choice();
  });
  return choices;
}

TEST(Tuning, AllRanksUseTheChoicesOfTheLowestThatHasMemoryToTime) {
  EXPECT_THAT(tuned({}), testing::Each("0"));
  EXPECT_THAT(tuned({0}), testing::Each("1")) << "two ranks have timed, each for itself";
  EXPECT_THAT(tuned({1}), testing::Each("0"));
  EXPECT_THAT(tuned({0, 1}), testing::Each("2"));
  EXPECT_THAT(tuned({0, 1, 2}), testing::Each("")) << "the library's own choice, on all";
}

TEST(Tuning, TheFileOfOneNodeIsFollowedByAllRanksOrByNone) {
  EXPECT_THAT(tuned({}, true), testing::Each("a0"));
  EXPECT_THAT(tuned({0}, true), testing::Each("a1"));
  EXPECT_THAT(tuned({0, 1}, true), testing::Each("a2"));
  EXPECT_THAT(tuned({0, 1, 2}, true), testing::Each("")) << "nobody has timed";
}

TEST(Tuning, ARankThatHasNotTimedOurOwnKernelsTakesTheChoiceOfAnother) {
  run_ranks(2, [](HostGroup& ranks) {
    TimingBackend backend(ranks.rank(), true, "H200");
    backend.set_own_kernels(ranks.rank() == 1);
    Trainer trainer(backend, small_options());
    const TemporaryFolder folder;
    tune_on_first_rank(trainer, backend, ranks, folder / "algorithms");
    EXPECT_EQ(backend.choice(), "0");
    EXPECT_EQ(backend.choice(",own"), "1");
  });
}

TEST(Tuning, RanksWithOtherGpusAreRefused) {
  run_ranks(2, [](HostGroup& ranks) {
    TimingBackend backend(ranks.rank(), true, ranks.rank() == 0 ? "H200" : "H100");
    Trainer trainer(backend, small_options());
    const TemporaryFolder folder;
    EXPECT_THROW(tune_on_first_rank(trainer, backend, ranks, folder / "algorithms"),
                 ConfigurationDiffers);
  });
}

}  // namespace
}  // namespace weft
