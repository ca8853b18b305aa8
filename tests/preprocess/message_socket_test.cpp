// All in one thread: a connection waits in the kernel until the server polls, so nothing races.
#include "preprocess/ledger/message_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "indexed_dataset/storage/file_io.h"
#include "preprocess/ledger/coordinator_file.h"
#include "preprocess/ledger/message_server.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Deadline soon() { return std::chrono::steady_clock::now() + 60s; }
Deadline now() { return std::chrono::steady_clock::now(); }

// A server that notes what happens and answers every hello with "welcome", every message doubled.
struct Fixture {
  RunSecret secret = make_run_secret();
  std::chrono::steady_clock::time_point time{};  // stands still unless a test moves it
  std::vector<std::string> hellos, messages;
  int num_gone = 0;
  MessageServer server;

  explicit Fixture(const std::string& address = "127.0.0.1")
      : server(address, secret,
               {[this](auto peer, std::string payload) {
                  hellos.push_back(payload);
                  server.send(peer, "welcome");
                },
                [this](auto peer, std::string message) {
                  messages.push_back(message);
                  server.send(peer, message + message);
                },
                [this](auto) { ++num_gone; }},
               [this] { return time; }) {}

  MessageSocket connect() {
    return MessageSocket::connect(server.addresses().at(0), server.port(), soon());
  }
  template <typename Condition>
  void poll_until(Condition condition) {
    while (!condition() && now() < give_up_) server.poll_once(10ms);
    ASSERT_TRUE(condition());
  }
  MessageSocket connect_known() {
    MessageSocket socket = connect();
    socket.send(make_hello(secret, "I"), soon());
    const size_t before = hellos.size();
    poll_until([&] { return hellos.size() > before; });
    EXPECT_EQ(socket.receive(soon()), "welcome");
    return socket;
  }
  void expect_served(MessageSocket& socket) {
    const size_t before = messages.size();
    socket.send("ping", soon());
    poll_until([&] { return messages.size() > before; });
    EXPECT_EQ(socket.receive(soon()), "pingping");
  }

 private:
  const Deadline give_up_ = now() + 120s;
};

bool is_closed(MessageSocket& socket) {
  try {
    socket.receive(soon());
  } catch (const ConnectionLost& error) {
    return std::string(error.what()).find("in time") == std::string::npos;
  }
  return false;
}

TEST(MessageReader, CutsAtEveryByteAlike) {
  const std::string bytes = framed("") + framed("one") + framed(std::string(300, 'x'));
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    MessageReader reader(1000);
    std::vector<std::string> messages;
    for (const std::string& part : {bytes.substr(0, cut), bytes.substr(cut)}) {
      reader.feed(part);
      while (auto message = reader.next()) messages.push_back(*message);
    }
    EXPECT_THAT(messages, ElementsAre("", "one", std::string(300, 'x'))) << cut;
  }
}

TEST(MessageReader, ALengthOverTheLimitIsRefusedBeforeTheBytesCome) {
  MessageReader reader(10);
  reader.feed(framed("0123456789"));
  EXPECT_EQ(reader.next(), "0123456789");
  reader.feed(std::string("\x0b\0\0\0", 4));
  EXPECT_THROW(reader.next(), ConnectionLost);
  EXPECT_THROW(framed(std::string(kMaxMessageBytes + 1, 'x')), LimitExceeded);
}

TEST(Hello, OpensOnlyWithItsSecret) {
  const RunSecret secret = make_run_secret();
  const std::string hello = make_hello(secret, "payload");
  EXPECT_EQ(open_hello(secret, hello), "payload");
  EXPECT_NE(make_run_secret(), secret);
  for (size_t at = 0; at < hello.size() - 7; ++at) {
    std::string changed = hello;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    if (at >= 8 && at < 12) {
      EXPECT_THROW(open_hello(secret, changed), ConnectionLost) << "another version";
    } else {
      EXPECT_EQ(open_hello(secret, changed), std::nullopt) << at;
    }
    EXPECT_EQ(open_hello(secret, hello.substr(0, at)), std::nullopt);
  }
}

TEST(MessageServer, ServesThoseWhoKnowTheSecret) {
  Fixture fixture;
  MessageSocket one = fixture.connect_known(), two = fixture.connect_known();
  fixture.expect_served(one);
  fixture.expect_served(two);
  fixture.expect_served(one);
  EXPECT_THAT(fixture.hellos, ElementsAre("I", "I"));
}

TEST(MessageServer, LargeMessagesPassWhole) {
  Fixture fixture;
  MessageSocket socket = fixture.connect_known();
  std::string large(7 << 20, 'x');
  large[12345] = 'y';
  // More than the kernel's buffers hold: one thread sends while the other polls.
  std::string answer;
  std::atomic<bool> is_done = false;
  std::thread client([&] {
    try {
      socket.send(large, soon());
      answer = socket.receive(soon());
    } catch (const ConnectionLost& error) {
      ADD_FAILURE() << error.what();
    }
    is_done = true;
  });
  while (!is_done) fixture.server.poll_once(10ms);
  client.join();
  ASSERT_EQ(fixture.messages.size(), 1u);
  EXPECT_EQ(fixture.messages.at(0), large);
  EXPECT_EQ(answer, large + large);
}

TEST(MessageServer, StrangersAreDroppedAndDisturbNobody) {
  Fixture fixture;
  MessageSocket known = fixture.connect_known();
  RunSecret wrong = fixture.secret;
  wrong[31] ^= 1;
  MessageSocket wrong_secret = fixture.connect(), garbage = fixture.connect(),
                huge = fixture.connect(), browser = fixture.connect();
  wrong_secret.send(make_hello(wrong, "I"), soon());
  garbage.send("garbage", soon());
  huge.send(std::string(70'000, 'x'), soon());
  browser.send("GET / HTTP/1.1", soon());
  fixture.poll_until([&] { return fixture.server.num_connections() == 5; });
  fixture.poll_until([&] { return fixture.server.num_connections() == 1; });
  for (MessageSocket* stranger : {&wrong_secret, &garbage, &huge, &browser}) {
    EXPECT_TRUE(is_closed(*stranger));
  }
  EXPECT_THAT(fixture.hellos, ElementsAre("I"));
  EXPECT_EQ(fixture.num_gone, 0) << "nobody who was known";
  fixture.expect_served(known);
}

TEST(MessageServer, AHelloThatDoesNotComeEndsTheConnection) {
  Fixture fixture;
  MessageSocket known = fixture.connect_known();
  MessageSocket silent = fixture.connect();
  fixture.poll_until([&] { return fixture.server.num_connections() == 2; });
  fixture.time += 9s;
  fixture.expect_served(known);
  EXPECT_EQ(fixture.server.num_connections(), 2);
  fixture.time += 2s;
  fixture.poll_until([&] { return fixture.server.num_connections() == 1; });
  EXPECT_TRUE(is_closed(silent));
  fixture.expect_served(known);
}

TEST(MessageServer, OfManyStrangersTheOldestGo) {
  Fixture fixture;
  MessageSocket known = fixture.connect_known();
  std::vector<MessageSocket> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(fixture.connect());
    fixture.server.poll_once(10ms);
  }
  MessageSocket late = fixture.connect_known();
  EXPECT_LE(fixture.server.num_connections(), 66);
  EXPECT_TRUE(is_closed(strangers.front()));
  fixture.expect_served(late);
  fixture.expect_served(known);
}

TEST(MessageServer, ABrokenConnectionIsReportedOnce) {
  Fixture fixture;
  MessageSocket stays = fixture.connect_known();
  { MessageSocket goes = fixture.connect_known(); }
  fixture.poll_until([&] { return fixture.num_gone == 1; });
  fixture.expect_served(stays);
  EXPECT_EQ(fixture.num_gone, 1);
}

TEST(MessageServer, APeerThatReadsNothingIsGivenUp) {
  Fixture fixture;
  MessageSocket deaf = fixture.connect_known(), other = fixture.connect_known();
  const std::string message(1 << 20, 'x');
  // Peers are numbered from 1. Kernel buffers take some MB, the server 32 MiB.
  for (int i = 0; i < 64; ++i) fixture.server.send(1, message);
  fixture.poll_until([&] { return fixture.num_gone == 1; });
  fixture.expect_served(other);
}

TEST(MessageServer, ListensOnAllAddressesByIpv4AndIpv6) {
  Fixture fixture("");
  ASSERT_FALSE(fixture.server.addresses().empty());
  for (const std::string& address :
       {std::string("127.0.0.1"), fixture.server.addresses().front()}) {
    MessageSocket socket = MessageSocket::connect(address, fixture.server.port(), soon());
    socket.send(make_hello(fixture.secret, address), soon());
    fixture.poll_until([&] { return !fixture.hellos.empty() && fixture.hellos.back() == address; });
  }
}

TEST(MessageServer, ListensOnOneAddressWhereAsked) {
  EXPECT_THAT(Fixture("127.0.0.1").server.addresses(), ElementsAre("127.0.0.1"));
  EXPECT_THROW(Fixture("localhost"), std::invalid_argument) << "names may take long to resolve";
}

TEST(MessageSocket, FailuresAreConnectionLost) {
  uint16_t port = 0;
  { port = MessageListener("127.0.0.1").port(); }
  EXPECT_THROW(MessageSocket::connect("127.0.0.1", port, soon()), ConnectionLost) << "refused";
  const MessageListener never_answers("127.0.0.1");
  MessageSocket waits = MessageSocket::connect("127.0.0.1", never_answers.port(), soon());
  EXPECT_THROW(waits.receive(now()), ConnectionLost);
}

TEST(MessageSocket, WritingToAClosedConnectionIsNoSignal) {
  Fixture fixture;
  MessageSocket socket = fixture.connect();
  socket.send("garbage", soon());
  fixture.poll_until([&] { return fixture.server.num_connections() == 1; });
  fixture.poll_until([&] { return fixture.server.num_connections() == 0; });
  EXPECT_THROW(
      {
        for (int i = 0; i < 1000; ++i) socket.send(std::string(1 << 16, 'x'), soon());
      },
      ConnectionLost);
}

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-ranks.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

const CoordinatorAddress kAddress = {"7.0", "node1", {"10.0.0.1", "fd00::1"}, 4711, {1, 2, 255}};

TEST(CoordinatorFile, SaysWhereRank0IsToItsOwnerOnly) {
  const Folder folder;
  std::string problem;
  EXPECT_EQ(find_coordinator(folder.path, problem), std::nullopt);
  EXPECT_THAT(problem, HasSubstr("is not there"));
  // What a killed run left behind, open to all.
  std::ofstream(folder.path / "coordinator.json.part") << "old";
  publish_coordinator(folder.path, kAddress);
  EXPECT_EQ(find_coordinator(folder.path, problem), kAddress);
  EXPECT_EQ(problem, "");
  struct stat status {};
  ASSERT_EQ(::stat((folder.path / kCoordinatorFileName).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  withdraw_coordinator(folder.path);
  EXPECT_EQ(find_coordinator(folder.path, problem), std::nullopt);
}

TEST(CoordinatorFile, WhatIsNoneIsAProblemNotACrash) {
  const Folder folder;
  publish_coordinator(folder.path, kAddress);
  const std::string good = read_file(folder.path / kCoordinatorFileName);
  const auto problem_of = [&](const std::string& text) {
    std::ofstream(folder.path / kCoordinatorFileName, std::ios::trunc) << text;
    std::string problem;
    EXPECT_EQ(find_coordinator(folder.path, problem), std::nullopt) << text.substr(0, 100);
    return problem;
  };
  for (size_t size = 0; size + 2 < good.size(); ++size) problem_of(good.substr(0, size));
  const auto with = [&](const std::string& old, const std::string& text) {
    std::string changed = good;
    return changed.replace(changed.find(old), old.size(), text);
  };
  EXPECT_THAT(problem_of(with("4711", "65536")), HasSubstr("port"));
  EXPECT_THAT(problem_of(with("4711", "\"x\"")), HasSubstr("coordinator.json"));
  EXPECT_THAT(problem_of(with("0102ff", "0102f")), HasSubstr("secret"));
  EXPECT_THAT(problem_of(with("0102ff", "0102fg")), HasSubstr("hexadecimal"));
  EXPECT_THAT(problem_of(with("coordinator 1", "coordinator 2")), HasSubstr("format"));
  EXPECT_THAT(problem_of(std::string(100'000, ' ') + good), HasSubstr("too large"));
}

}  // namespace
}  // namespace weft
