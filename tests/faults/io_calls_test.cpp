// Every call of the I/O layer fails in turn: the run ends with the right code, nothing looks
// complete that is not, and the same command again makes the same files.
#include <cerrno>
#include <set>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/faults/forked_run.h"

namespace weft {
namespace {

class IoCalls : public ForkedRuns {
 protected:
  void SetUp() override {
    add_input("a.jsonl", 20'000, 1);
    add_input("b.jsonl.zst", 5'000, 2);
    add_input("c.jsonl.gz", 5'000, 3);
    config_.inputs.push_back(path("empty.jsonl"));
    write_file_atomically(path("empty.jsonl"), "");
    make_reference();
  }

  void fail_call(int64_t n, int error_number) {
    const std::string when =
        "call " + std::to_string(n) + " fails with " + std::to_string(error_number);
    remove_output();
    const RunEnd end = run([=] { set_io_fault(n, error_number); });
    expect_nothing_half_done(when);
    if (end.exit_code == 0) {
      // A run need not make as many calls as another one: how often it syncs is a matter of time.
      EXPECT_LT(end.num_io_calls, n) << when;
    } else if (error_number == kIoFaultKills) {
      EXPECT_TRUE(end.is_killed()) << when << ": " << end.message;
    } else {
      EXPECT_EQ(end.exit_code, error_number == ENOSPC ? 5 : 4) << end.message << ", " << when;
      EXPECT_NE(end.message.find(folder_.path()), std::string::npos) << end.message;
    }
    expect_rerun_completes(when);
  }

  // All, or about `count` of them: the first and last ones, and some of the many in between.
  std::set<int64_t> calls(int64_t count) const {
    std::set<int64_t> chosen;
    const int64_t all = num_reference_calls_;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t third = count / 3;
      chosen.insert(i < third ? i + 1 : i < 2 * third ? all - (i - third) : i * all / count);
    }
    return chosen;
  }
};

constexpr int kErrors[] = {EIO, ENOSPC, kIoFaultKills};

#if !WEFT_FAULTS_LONG
TEST_F(IoCalls, SomeFail) {
  int turn = 0;
  for (const int64_t n : calls(60)) {
    fail_call(n, kErrors[turn++ % 3]);
    if (HasFailure()) return;
  }
}
#else
TEST_F(IoCalls, EachFailsInEveryWay) {
  for (const int error_number : kErrors) {
    for (int64_t n = 1; n <= num_reference_calls_ + 20; ++n) {
      fail_call(n, error_number);
      if (HasFailure()) return;
    }
  }
}
#endif

// Calls also fail in a run that goes on, which reads its journal and its spill files again.
TEST_F(IoCalls, SomeFailInARunThatGoesOn) {
  for (const int64_t n : calls(WEFT_FAULTS_LONG ? 150 : 15)) {
    remove_output();
    ASSERT_TRUE(run(crash_at("dataset_prepared")).is_killed());
    const std::string when = "call " + std::to_string(n) + " of the second run fails";
    const RunEnd end = run([=] { set_io_fault(n, EIO); });
    if (end.exit_code != 0) {
      EXPECT_EQ(end.exit_code, 4) << when;
    }
    expect_nothing_half_done(when);
    expect_rerun_completes(when);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft
