#include "preprocess/ledger/ledger_messages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

namespace weft {
namespace {

BadLine bad_line() {
  return {"corpus.jsonl", 12, 345, {LineProblem::kNotJson, "expected ','", 6}, "a hint"};
}

TaskCounts counts(int64_t seed) {
  TaskCounts counts;
  counts.totals = {seed,     seed + 1, seed + 2, seed + 3, seed + 4,
                   seed + 5, seed + 6, seed + 7, {},       {}};
  counts.totals.left_out.by_comparison = {{seed, 2, 3}, {0, seed + 1, 0}};
  counts.totals.bad_lines.by_problem.back() = seed + 8;
  counts.datasets = {{seed + 9, seed + 10, seed + 11}, {0, INT64_MAX, 1}};
  const auto crc = [&](uint32_t k) { return Crc32(~k, seed + 14 + k); };
  counts.written = {{crc(0), crc(1), crc(2), crc(3)}, {}};
  counts.bad_lines = {bad_line(), bad_line()};
  counts.num_range_bytes = seed + 12;
  return counts;
}

LedgerRequest full_request() {
  LedgerRequest request;
  request.num_tasks_wanted = 96;
  request.newly_seen = counts(100).totals;
  request.read_tasks = {{3, counts(200)}, {4, counts(300)}};
  request.durable = {
      {5, {counts(400), 11, {{20, 5}, {21, 7}}, {{1, 2, 3}, {4, 5, 6}}, true}, {{23, 8}}}};
  request.num_parts_wanted = 12;
  request.part_results = {{8, {Crc32(1, 2), Crc32(UINT32_MAX, 4)}, {5, UINT64_MAX}}, {}};
  request.failed_task = {6, {3, "damaged", bad_line()}};
  request.leaving = {10, "stopped by signal 15", {}};
  return request;
}

LedgerReply full_reply() {
  LedgerReply reply;
  reply.assigned = {{{9, 2, 100, -1}, {counts(500), 13, {{22, 14}}, {}, false}}};
  reply.offsets_known = {{9, {{{1, 2, 3}, {4, 5, 6}}, 7, 8}}};
  reply.parts = {{3, 1, LastPassPart::Kind::kIndex, {4, 5, 6}, {{{1, 2, 3}, 4}, {}}, 0, 0, {}},
                 {4, 0, LastPassPart::Kind::kIdx, {}, {}, 100, 300, {150, 200}}};
  reply.all_done = true;
  reply.failure = {3, "bad", bad_line()};
  return reply;
}

TEST(LedgerMessages, EveryFieldComesBack) {
  const std::string request = to_message(full_request());
  const LedgerRequest read = ledger_request_from(request);
  EXPECT_EQ(to_message(read), request);
  EXPECT_EQ(read.durable.at(0).progress.counts.datasets, counts(400).datasets);
  EXPECT_EQ(read.durable.at(0).progress.counts.written, counts(400).written);
  EXPECT_EQ(read.part_results.at(0).checksums.at(1), Crc32(UINT32_MAX, 4));
  EXPECT_EQ(read.part_results.at(0).block_hashes, (std::vector<uint64_t>{5, UINT64_MAX}));
  EXPECT_EQ(num_bytes_of(read.durable.at(0).progress.spill), 12);
  EXPECT_EQ(read.durable.at(0).progress.spill.at(1), (SpillFile{21, 7}));
  EXPECT_EQ(read.durable.at(0).progress.before_spill.at(1).num_tokens, 6);
  EXPECT_TRUE(read.durable.at(0).progress.is_read);
  EXPECT_EQ(read.durable.at(0).copied_spill.at(0), (SpillFile{23, 8}));
  EXPECT_EQ(read.read_tasks.at(1).counts.bad_lines.at(1).message(), bad_line().message());
  EXPECT_EQ(read.newly_seen.bad_lines.total(), 108);
  EXPECT_EQ(read.failed_task->failure.bad_line->offset_bytes, 345);
  EXPECT_EQ(read.leaving->message, "stopped by signal 15");

  const std::string reply = to_message(full_reply());
  const LedgerReply read_reply = ledger_reply_from(reply);
  EXPECT_EQ(to_message(read_reply), reply);
  EXPECT_EQ(read_reply.assigned.at(0).task.end, -1);
  EXPECT_EQ(read_reply.offsets_known.at(0).offset.datasets.at(1).num_tokens, 6);
  EXPECT_EQ(read_reply.parts.at(0).offsets.at(0).before.num_tokens, 3);
  EXPECT_EQ(read_reply.parts.at(1).kind, LastPassPart::Kind::kIdx);
  EXPECT_EQ(read_reply.parts.at(1).cuts, (std::vector<int64_t>{150, 200}));
  EXPECT_TRUE(read_reply.all_done);
  EXPECT_EQ(read_reply.failure->exit_code, 3);

  const std::string failure = to_message(RunFailure{13, "silent", bad_line()});
  EXPECT_EQ(to_message(run_failure_from(failure)), failure);
  EXPECT_EQ(run_failure_from(failure).message, "silent");
}

TEST(LedgerMessages, EmptyOnesToo) {
  EXPECT_EQ(ledger_request_from(to_message(LedgerRequest{})).failed_task, std::nullopt);
  EXPECT_EQ(ledger_reply_from(to_message(LedgerReply{})).failure, std::nullopt);
}

TEST(LedgerMessages, CutOrLongerOnesAreRefused) {
  for (const std::string& whole : {to_message(full_request()), to_message(full_reply())}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(ledger_request_from(whole.substr(0, size)), std::domain_error) << size;
      EXPECT_THROW(ledger_reply_from(whole.substr(0, size)), std::domain_error) << size;
    }
  }
  EXPECT_THROW(ledger_request_from(to_message(full_request()) + '\0'), std::domain_error);
  EXPECT_THROW(ledger_reply_from(to_message(full_reply()) + '\0'), std::domain_error);
}

// The largest address space that this process has had, in bytes. Memory that was reserved and never
// used counts.
int64_t peak_address_space() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPeak:")) return std::stoll(line.substr(7)) * 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmPeak");
}

// A length that is larger than its message is refused before memory is taken for it.
TEST(LedgerMessages, LyingLengthsTakeNoMemory) {
  // Sanitizers keep freed memory for a while, up to 256 MiB.
  constexpr int64_t kMaxGrowth = int64_t{512} << 20;
  const int64_t before = peak_address_space();
  int num_refused = 0;
  for (const std::string& good : {to_message(full_request()), to_message(full_reply())}) {
    for (size_t at = 0; at + 8 <= good.size(); ++at) {
      for (const int64_t lie : {int64_t{1} << 30, int64_t{1} << 31, int64_t{1} << 40, INT64_MAX,
                                int64_t{-1}, INT64_MIN}) {
        std::string changed = good;
        changed.replace(at, 8, reinterpret_cast<const char*>(&lie), 8);
        try {
          ledger_request_from(changed);  // it may have met an integer that may have any value
        } catch (const std::domain_error&) {
          ++num_refused;
        }
        try {
          ledger_reply_from(changed);
        } catch (const std::domain_error&) {
          ++num_refused;
        }
      }
    }
  }
  EXPECT_GT(num_refused, 1000);
  EXPECT_LT(peak_address_space() - before, kMaxGrowth);
}

}  // namespace
}  // namespace weft
