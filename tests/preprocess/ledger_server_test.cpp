// The server's clock stands still unless a test moves it, so ranks are lost exactly when a test
// says so. Waiting is always for a condition.
#include "preprocess/ledger/ledger_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "preprocess/ledger/coordinator_file.h"
#include "preprocess/ledger/ledger.h"
#include "preprocess/ledger/ledger_client.h"
#include "preprocess/ledger/ledger_messages.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Deadline soon() { return std::chrono::steady_clock::now() + 120s; }

std::vector<Task> make_tasks(int64_t num_tasks) {
  std::vector<Task> tasks;
  for (int64_t i = 0; i < num_tasks; ++i) tasks.push_back({i, 0, i * 100, (i + 1) * 100});
  return tasks;
}

// Task i has 1 + i % 7 documents of 10 tokens.
TaskCounts counts_of(const Task& task) {
  TaskCounts counts;
  counts.totals.num_lines = counts.totals.num_documents = 1 + task.number % 7;
  counts.datasets = {
      {counts.totals.num_documents, counts.totals.num_documents, 10 * counts.totals.num_documents}};
  counts.num_range_bytes = 100;
  return counts;
}

struct TestRun {
  std::filesystem::path folder;
  std::atomic<std::chrono::steady_clock::duration> time{};
  std::atomic<bool> fails = false;  // the next look at the clock, once
  std::mutex mutex;                 // of all below, as rank 0 has it
  Ledger ledger;
  std::vector<std::string> notes;
  std::atomic<int> num_answers = 0;
  std::function<void()> before_answer = [] {};
  std::unique_ptr<LedgerServer> server;
  RunSecret secret = make_run_secret();

  explicit TestRun(int num_ranks, int64_t num_tasks = 100)
      : ledger(make_tasks(num_tasks), {"corpus.jsonl"}, 1, {}) {
    std::string name = (std::filesystem::temp_directory_path() / "weft-ranks.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder = name;
    LedgerServerOptions options;
    options.address = "127.0.0.1";
    options.secret = secret;
    options.num_ranks = num_ranks;
    options.configuration = "hash-a";
    options.clock = [this] {
      if (fails.exchange(false)) throw std::runtime_error("out of everything");
      return std::chrono::steady_clock::time_point(time.load());
    };
    options.answer = [this](int rank, const LedgerRequest& request) {
      const std::lock_guard lock(mutex);
      before_answer();
      ++num_answers;
      return ledger.answer(rank, request);
    };
    options.rank_lost = [this](int rank) {
      const std::lock_guard lock(mutex);
      ledger.rank_lost(rank);
    };
    options.note = [this](const std::string& note) {
      const std::lock_guard lock(mutex);
      notes.push_back(note);
    };
    server = std::make_unique<LedgerServer>(std::move(options));
    publish("launch 1");
  }
  ~TestRun() {
    server.reset();
    std::filesystem::remove_all(folder);
  }
  void publish(const std::string& launch_id) {
    publish_coordinator(folder, {launch_id, "", server->addresses(), server->port(), secret});
  }
  LedgerClientOptions client(int rank, int num_ranks) const {
    LedgerClientOptions options;
    options.folder = folder;
    options.rank = rank;
    options.num_ranks = num_ranks;
    options.launch_id = "launch 1";
    options.configuration = "hash-a";
    return options;
  }
  std::string all_notes() {
    const std::lock_guard lock(mutex);
    std::string all;
    for (const std::string& note : notes) all += note + "\n";
    return all;
  }
  bool has_note(const std::string& text) { return all_notes().find(text) != std::string::npos; }
};

template <typename Condition>
void wait_until(Condition condition) {
  const Deadline deadline = soon();
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_TRUE(condition());
}

// A rank by hand: it does only what it is told, so it can be frozen or cut off.
struct RawRank {
  TestRun& run;
  int rank, num_ranks;
  std::string incarnation;
  std::optional<MessageSocket> socket;

  std::string greet() {
    socket = MessageSocket::connect("127.0.0.1", run.server->port(), soon());
    socket->send(
        make_hello(run.secret, R"({"rank":)" + std::to_string(rank) + R"(,"num_ranks":)" +
                                   std::to_string(num_ranks) + R"(,"incarnation":")" + incarnation +
                                   R"(","host":"node)" + std::to_string(rank) +
                                   R"(","process":1,"configuration":"hash-a"})"),
        soon());
    return socket->receive(soon());
  }
  LedgerReply ask(const LedgerRequest& request) {
    socket->send(kRequestMessage + to_message(request), soon());
    return ledger_reply_from(socket->receive(soon()).substr(1));
  }
};

// Reads and finishes tasks until all is done; returns those that it did.
std::vector<int64_t> work(LedgerLink& port) {
  std::vector<int64_t> done;
  LedgerRequest request;
  for (;;) {
    ++request.number;
    request.num_tasks_wanted = 2;
    const LedgerReply reply = port.exchange(request);
    if (reply.failure) throw std::runtime_error(reply.failure->message);
    if (reply.all_done) return done;
    request.durable.clear();
    for (const auto& given : reply.tasks) {
      TaskProgress progress;
      progress.counts = counts_of(given.task);
      progress.is_read = true;
      request.durable.push_back({given.task.number, progress});
      done.push_back(given.task.number);
    }
    if (reply.tasks.empty()) std::this_thread::sleep_for(1ms);  // others still read
  }
}

TEST(LedgerServer, ThirtyTwoRanksDoEveryTaskOnce) {
  constexpr int kNumRanks = 33;
  TestRun run(kNumRanks, 500);
  std::vector<std::vector<int64_t>> done(kNumRanks);
  std::vector<std::thread> ranks;
  for (int rank = 1; rank < kNumRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        LedgerClient client(run.client(rank, kNumRanks));
        done[static_cast<size_t>(rank)] = work(client);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_TRUE(run.server->wait_until_all_left(soon()));
  EXPECT_THAT(run.server->ranks_that_never_came(), IsEmpty());
  EXPECT_THAT(run.server->lost_ranks(), IsEmpty());
  std::multiset<int64_t> all;
  for (const auto& some : done) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), 500u);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 500u);
  EXPECT_TRUE(run.ledger.all_done());
  int64_t num_documents = 0;
  for (int64_t i = 0; i < 500; ++i) num_documents += 1 + i % 7;
  EXPECT_EQ(run.ledger.end().datasets.at(0).num_documents, num_documents);
}

TEST(LedgerServer, AFrozenRankIsLostAndToldToEndWhenItWakes) {
  TestRun run(3, 4);
  RawRank frozen{run, 1, 3, "a", {}};
  EXPECT_THAT(frozen.greet(), HasSubstr("0"));
  LedgerRequest request;
  request.number = 1;
  request.num_tasks_wanted = 1;
  EXPECT_EQ(frozen.ask(request).tasks.at(0).task.number, 0);
  RawRank lives{run, 2, 3, "b", {}};
  lives.greet();
  // It is heard at every second: only the other one is silent for more than a minute.
  LedgerRequest nothing;
  for (int second = 0; second < 62; ++second) {
    run.time = run.time.load() + 1s;
    ++nothing.number;
    EXPECT_EQ(lives.ask(nothing).failure, std::nullopt);
  }
  wait_until([&] { return run.server->lost_ranks() == std::vector<int>{1}; });
  EXPECT_THAT(run.all_notes(), HasSubstr("rank 1 (node1, process 1) is lost (silent for 60 s)"));
  ++nothing.number;
  nothing.num_tasks_wanted = 1;
  EXPECT_EQ(lives.ask(nothing).tasks.at(0).task.number, 0) << "what the lost rank held";
  // It wakes up: the old connection is closed, a new one refused.
  EXPECT_THROW(
      {
        frozen.socket->send("H", soon());
        frozen.socket->receive(soon());
      },
      ConnectionLost);
  EXPECT_THAT(frozen.greet(), AllOf(HasSubstr("13"), HasSubstr("given up")));
}

TEST(LedgerServer, AKilledRankIsLostAfterTenSeconds) {
  TestRun run(2, 4);
  RawRank killed{run, 1, 2, "a", {}};
  killed.greet();
  killed.socket.reset();
  // The server has to notice the closed connection before time counts.
  wait_until([&] {
    run.time = run.time.load() + 11s;
    return run.server->lost_ranks() == std::vector<int>{1};
  });
  EXPECT_TRUE(run.server->wait_until_all_left(soon()));
}

TEST(LedgerServer, AnswersARepeatedRequestAsTheFirstTime) {
  TestRun run(2, 4);
  RawRank rank{run, 1, 2, "a", {}};
  rank.greet();
  LedgerRequest request;
  request.number = 1;
  request.num_tasks_wanted = 2;
  const std::string first = to_message(rank.ask(request));
  // The connection broke, the reply may not have arrived.
  rank.greet();
  EXPECT_THAT(run.all_notes(), HasSubstr("is back"));
  EXPECT_EQ(to_message(rank.ask(request)), first);
  EXPECT_EQ(run.num_answers, 1);
  ++request.number;
  EXPECT_EQ(rank.ask(request).tasks.at(0).task.number, 2);
}

TEST(LedgerServer, ASecondProcessOfARankIsRefused) {
  TestRun run(2);
  RawRank first{run, 1, 2, "a", {}}, second{run, 1, 2, "b", {}};
  first.greet();
  EXPECT_THAT(second.greet(), AllOf(HasSubstr("13"), HasSubstr("in this run already")));
  LedgerRequest request;
  request.number = 1;
  EXPECT_EQ(first.ask(request).failure, std::nullopt) << "the first one is not disturbed";
}

TEST(LedgerServer, NonsenseOfOneRankDoesNotDisturbOthers) {
  TestRun run(5, 10);
  std::vector<RawRank> bad;
  for (int rank = 1; rank <= 3; ++rank) bad.push_back({run, rank, 5, "a", {}});
  for (RawRank& rank : bad) rank.greet();
  bad[0].socket->send("garbage", soon());
  bad[1].socket->send("Qgarbage", soon());
  LedgerRequest no_such_task;
  no_such_task.number = 0;  // they count from 1
  bad[2].socket->send(kRequestMessage + to_message(no_such_task), soon());
  wait_until([&] { return run.server->lost_ranks() == std::vector<int>{1, 2, 3}; });
  LedgerClient good(run.client(4, 5));
  EXPECT_EQ(work(good).size(), 10u);
}

TEST(LedgerServer, DifferentConfigurationsAreNamed) {
  TestRun run(3);
  LedgerClientOptions options = run.client(2, 3);
  options.configuration = "hash-b";
  try {
    LedgerClient client(options);
    FAIL();
  } catch (const ConfigurationDiffers& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 2"), HasSubstr("hash-a"), HasSubstr("hash-b")));
  }
  EXPECT_THROW(LedgerClient(run.client(2, 4)), ConfigurationDiffers) << "another number of ranks";
  EXPECT_THROW(LedgerClient(run.client(3, 3)), ConfigurationDiffers);
}

TEST(LedgerServer, AFailureOfTheLedgerReachesEveryRank) {
  TestRun run(3);
  LedgerClient one(run.client(1, 3)), two(run.client(2, 3));
  {
    const std::lock_guard lock(run.mutex);
    run.before_answer = [] {
      throw std::system_error(ENOSPC, std::generic_category(), "cannot write the journal");
    };
  }
  LedgerRequest request;
  request.number = 1;
  const LedgerReply reply = one.exchange(request);
  ASSERT_TRUE(reply.failure);
  EXPECT_EQ(reply.failure->exit_code, 5);
  EXPECT_THAT(reply.failure->message, HasSubstr("journal"));
  EXPECT_EQ(two.exchange(request).failure->exit_code, 5);
  EXPECT_EQ(run.server->failure()->exit_code, 5);
}

// Rank 0 goes on alone, instead of waiting for ranks that nobody listens to.
TEST(LedgerServer, WhenItFailsItselfTheWorkOfAllRanksComesBack) {
  TestRun run(2, 3);
  RawRank rank{run, 1, 2, "a", {}};
  rank.greet();
  LedgerRequest request;
  request.number = 1;
  request.num_tasks_wanted = 3;
  ASSERT_EQ(rank.ask(request).tasks.size(), 3u);
  run.fails = true;
  wait_until([&] { return run.has_note("rank 1 (node1, process 1) is lost"); });
  EXPECT_THAT(run.all_notes(), HasSubstr("rank 0 cannot hear it: out of everything"));
  const std::lock_guard lock(run.mutex);
  EXPECT_THAT(run.ledger.answer(0, request).tasks, testing::SizeIs(3));
}

TEST(LedgerClient, WaitsForAFileOfItsOwnLaunch) {
  TestRun run(2, 10);
  // A crashed run's file: its port is closed.
  uint16_t closed_port = 0;
  { closed_port = MessageListener("127.0.0.1").port(); }
  publish_coordinator(run.folder, {"", "", {"127.0.0.1"}, closed_port, make_run_secret()});
  std::atomic<size_t> num_done = 0;
  std::thread rank([&] {
    LedgerClient client(run.client(1, 2));
    num_done = work(client).size();
  });
  run.publish("launch 0");  // passed over, though somebody would answer
  run.publish("launch 1");
  rank.join();
  EXPECT_EQ(num_done, 10u);
}

TEST(LedgerClient, GivesUpOnARank0ThatDoesNotCome) {
  TestRun run(2);
  run.publish("launch 0");
  LedgerClientOptions options = run.client(1, 2);
  options.start_timeout = 50ms;
  try {
    LedgerClient client(options);
    FAIL();
  } catch (const PeerLost& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("rank 1 cannot reach rank 0"), HasSubstr("launch 0")));
  }
  std::atomic<bool> cancelled = true;
  options.start_timeout = 600s;
  options.cancelled = &cancelled;
  EXPECT_THROW(LedgerClient{options}, PeerLost);
}

TEST(LedgerClient, EndsWhenRank0IsGone) {
  TestRun run(2);
  LedgerClientOptions options = run.client(1, 2);
  options.peer_timeout = 100ms;
  LedgerClient client(options);
  run.server.reset();
  LedgerRequest request;
  request.number = 1;
  EXPECT_THROW(client.exchange(request), PeerLost);
  EXPECT_THROW(client.exchange(request), PeerLost);
}

TEST(LedgerClient, DoesNotWaitForARank0ThatIsGoneWhenItIsAskedToStop) {
  TestRun run(2);
  std::atomic<bool> is_stopped = false;
  LedgerClientOptions options = run.client(1, 2);
  options.peer_timeout = 600s;
  options.stop_requested = [&is_stopped] { return is_stopped.load(); };
  LedgerClient client(options);
  run.server.reset();
  LedgerRequest request;
  request.number = 1;
  std::thread stops([&is_stopped] { is_stopped = true; });
  EXPECT_THROW(client.exchange(request), PeerLost);
  stops.join();
}

TEST(LedgerClient, EndsWhenItWasGivenUp) {
  TestRun run(2);
  LedgerClient client(run.client(1, 2));
  wait_until([&] {
    run.time = run.time.load() + 61s;
    return run.server->lost_ranks() == std::vector<int>{1};
  });
  LedgerRequest request;
  request.number = 1;
  try {
    client.exchange(request);
    FAIL();
  } catch (const PeerLost& error) {
    EXPECT_THAT(error.what(), HasSubstr("was given up"));
  }
}

TEST(LedgerClient, ComesBackAndRepeatsAfterABrokenConnection) {
  // A rank 0 that closes every connection at the first request on it, three times.
  const RunSecret secret = make_run_secret();
  std::vector<std::string> requests;
  int num_hellos = 0;
  std::atomic<bool> stop = false;
  std::unique_ptr<MessageServer> server;
  MessageServer::Events events;
  events.on_hello = [&](auto peer, const std::string&) {
    ++num_hellos;
    server->send(peer, R"({"exit_code":0})");
  };
  events.on_message = [&](auto peer, const std::string& message) {
    if (message[0] != kRequestMessage) return;
    requests.push_back(message);
    if (requests.size() < 4) return server->close_peer(peer);
    LedgerReply reply;
    reply.all_done = true;
    server->send(peer, kReplyMessage + to_message(reply));
  };
  events.on_gone = [](auto) {};
  server = std::make_unique<MessageServer>("127.0.0.1", secret, std::move(events),
                                           [] { return std::chrono::steady_clock::now(); });
  TestRun folder_only(2);
  publish_coordinator(folder_only.folder, {"launch 1", "", {"127.0.0.1"}, server->port(), secret});
  std::thread serving([&] {
    while (!stop) server->poll_once(10ms);
  });
  {
    LedgerClient client(folder_only.client(1, 2));
    LedgerRequest request;
    request.number = 5;
    EXPECT_TRUE(client.exchange(request).all_done);
  }
  stop = true;
  serving.join();
  EXPECT_EQ(num_hellos, 4);
  ASSERT_EQ(requests.size(), 4u);
  for (const std::string& request : requests) EXPECT_EQ(request, requests[0]);
}

}  // namespace
}  // namespace weft
