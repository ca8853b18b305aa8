#include "preprocess/compressed/window_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;

constexpr WindowSizes kSizes{.total = 100, .max = 60, .free = 10};

TEST(WindowBudget, ClaimsAreWhatDecodersMayTake) {
  WindowBudget budget(kSizes);
  WindowBudget::Claim claim(budget);
  EXPECT_EQ(claim.limits().size_bytes, 10);
  EXPECT_EQ(claim.limits().max_bytes, 60);
  EXPECT_EQ(budget.taken_bytes(), 0);
  claim.renew(60);
  EXPECT_EQ(claim.limits().size_bytes, 60);
  EXPECT_EQ(budget.taken_bytes(), 60);
  claim.renew(50);  // as the only one it would wait for itself if it kept what it has
  EXPECT_EQ(budget.taken_bytes(), 50);
  WindowBudget tiny({.total = 5, .max = 5, .free = 10});
  EXPECT_EQ(WindowBudget::Claim(tiny).limits().size_bytes, 5) << "no more than one may have";
}

TEST(WindowBudget, NeverGivesMoreThanThereIs) {
  int64_t first_to_wait = 0;
  std::atomic<int> num_notes{0};
  WindowBudget budget(kSizes, [&](int64_t claim_bytes) {
    first_to_wait = claim_bytes;
    ++num_notes;
  });
  std::atomic<int64_t> taken{0}, most{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int round = 0; round < 300; ++round) {
        WindowBudget::Claim claim(budget);
        for (int renewal = 0; renewal < 3; ++renewal) {
          const auto size_bytes = static_cast<int64_t>(random() % 60 + 1);
          claim.renew(size_bytes);
          const int64_t now = taken += size_bytes;
          int64_t before = most;
          while (before < now && !most.compare_exchange_weak(before, now)) {
          }
          if (random() % 8 == 0) std::this_thread::sleep_for(10us);
          taken -= size_bytes;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 100);
  EXPECT_GT(most, 60) << "several at a time";
  EXPECT_EQ(num_notes, 1);
  EXPECT_GT(first_to_wait, 0);
  EXPECT_EQ(budget.taken_bytes(), 0);
}

// Small ones that come later would let it wait for ever.
TEST(WindowBudget, ALargeClaimIsNotPassedOver) {
  std::atomic<bool> waits{false};
  WindowBudget budget(kSizes, [&](int64_t) { waits = true; });
  auto first = std::make_unique<WindowBudget::Claim>(budget);
  first->renew(50);
  std::atomic<bool> has_large{false}, has_small{false};
  std::thread large([&] {
    WindowBudget::Claim claim(budget);
    claim.renew(60);
    has_large = true;
    while (!has_small) std::this_thread::sleep_for(1ms);
  });
  while (!waits) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(5ms);
  std::thread small([&] {
    WindowBudget::Claim claim(budget);
    claim.renew(30);
    has_small = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(has_small) << "30 of the other 50 would fit";
  first.reset();
  large.join();
  small.join();
  EXPECT_TRUE(has_large);
}

TEST(WindowBudget, ClosingEndsAllWaiting) {
  WindowBudget budget(kSizes);
  WindowBudget::Claim first(budget);
  first.renew(60);
  std::atomic<int> num_ended{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      WindowBudget::Claim claim(budget);
      EXPECT_THROW(claim.renew(60), ReadCancelled);
      ++num_ended;
    });
  }
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(num_ended, 0);
  budget.close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_ended, 3);
  EXPECT_THROW(first.renew(1), ReadCancelled);
}

}  // namespace
}  // namespace weft
