#include "preprocess/compressed/window_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace weft {
namespace {

constexpr WindowSizes kSizes{.total = 100, .max = 60, .free = 10};

void poll(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

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

TEST(WindowBudget, SeveralClaimsHoldMemoryAtATime) {
  WindowBudget budget(kSizes);
  WindowBudget::Claim first(budget), second(budget);
  first.renew(60);
  second.renew(40);
  EXPECT_EQ(budget.taken_bytes(), 100);
}

TEST(WindowBudget, NeverGivesMoreThanThereIs) {
  WindowBudget budget(kSizes);
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
          if (random() % 8 == 0) std::this_thread::yield();
          taken -= size_bytes;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 100);
  EXPECT_EQ(budget.taken_bytes(), 0);
}

// Small claims that come later would let a large one wait for ever.
TEST(WindowBudget, ALargeClaimIsNotPassedOver) {
  std::vector<int64_t> first_to_wait;
  WindowBudget budget(kSizes, [&](int64_t claim_bytes) { first_to_wait.push_back(claim_bytes); });
  auto first = std::make_unique<WindowBudget::Claim>(budget);
  first->renew(50);
  std::atomic<bool> has_large{false}, has_small{false};
  std::thread large([&] {
    WindowBudget::Claim claim(budget);
    claim.renew(60);
    has_large = true;
  });
  poll([&] { return budget.num_waiting() == 1; });
  std::thread small([&] {
    WindowBudget::Claim claim(budget);
    claim.renew(30);
    has_small = true;
  });
  // A claim is served or waits from the moment it asks, so that one of the two becomes true.
  poll([&] { return budget.num_waiting() == 2 || has_small; });
  EXPECT_FALSE(has_small) << "30 of the other 50 would fit";
  EXPECT_FALSE(has_large) << "60 do not fit beside 50";
  first.reset();
  large.join();
  small.join();
  EXPECT_TRUE(has_large && has_small);
  EXPECT_EQ(first_to_wait, std::vector<int64_t>{60});
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
  poll([&] { return budget.num_waiting() == 3 || num_ended > 0; });
  EXPECT_EQ(num_ended, 0);
  budget.close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_ended, 3);
  EXPECT_THROW(first.renew(1), ReadCancelled);
}

}  // namespace
}  // namespace weft
