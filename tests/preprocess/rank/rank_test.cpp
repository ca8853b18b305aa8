// A sync that fails: what it was to make last is lost, though the next sync succeeds.
#include "preprocess/rank/rank.h"

#include <cerrno>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/ledger/ledger.h"
#include "tests/faults/forked_run.h"

namespace weft {
namespace {

class Recorder final : public LedgerLink {
 public:
  explicit Recorder(const WorkPlan& plan) : ledger_(plan.tasks, {"in"}, 1, {}) {}
  LedgerReply exchange(const LedgerRequest& request) override {
    last_ = request;
    return ledger_.answer(0, request);
  }
  const LedgerRequest& last() const { return last_; }

 private:
  Ledger ledger_;
  LedgerRequest last_;
};

class FailingSync : public ForkedRuns {
 protected:
  ~FailingSync() override { set_io_fault(0, 0); }
};

TEST_F(FailingSync, NothingIsReportedAfterAFailedSync) {
  add_input("a.jsonl", 20'000, 1);
  const WorkPlan plan =
      plan_work(make_inputs(config_.inputs), config_.task_bytes, std::atomic<bool>{false});
  RankOptions options = config_;
  options.num_workers = 2;
  options.sync_interval = std::chrono::milliseconds(0);
  int num_failed_syncs = 0;
  bool has_failed = true;
  for (int64_t n = 1; has_failed; ++n) {
    ASSERT_LT(n, 5000);
    remove_output();
    Recorder ledger(plan);
    RunFiles files(out_folder_, 1, TokenType::kUInt16);
    set_io_fault(n, EIO);
    Rank rank(options, plan, vocabulary_, files, ledger);
    has_failed = false;
    try {
      rank.run([] { return false; }, [] {});
    } catch (const std::system_error& error) {
      has_failed = true;
      ASSERT_TRUE(ledger.last().leaving);
      if (std::string(error.what()).find("cannot sync") == std::string::npos) continue;
      ++num_failed_syncs;
      EXPECT_TRUE(ledger.last().durable.empty()) << "call " << n << ": " << error.what();
    }
  }
  EXPECT_GT(num_failed_syncs, 0);
}

}  // namespace
}  // namespace weft
