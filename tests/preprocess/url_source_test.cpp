// UrlSource with a ring far smaller than the file, against bad_http_server.py.
#include "preprocess/url_source.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "indexed_dataset/exit_code.h"
#include "temporary_folder.h"

namespace weft {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class UrlSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("WEFT_SOURCE_DIR");
    ASSERT_NE(source, nullptr);
    if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "no python3";
    const std::string command = "exec python3 '" + std::string(source) +
                                "/tests/preprocess/bad_http_server.py' whole >port 2>requests";
    const std::string in_folder = "cd '" + folder_.path().string() + "' && " + command;
    const char* arguments[] = {"sh", "-c", in_folder.c_str(), nullptr};
    ASSERT_EQ(posix_spawn(&server_, "/bin/sh", nullptr, nullptr,
                          const_cast<char* const*>(arguments), environ),
              0);
    std::string port;
    for (int i = 0; i < 1200 && !port.ends_with('\n'); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      port = content_of(folder_.path() / "port");
    }
    ASSERT_TRUE(port.ends_with('\n')) << "the server does not start";
    at_ = "http://127.0.0.1:" + port.substr(0, port.size() - 1) + "/";
    whole_ = content_of(folder_.path() / "whole");
    options_.fetch.http.allow_http = true;
    options_.fetch.num_connections = 3;
    options_.fetch.part_bytes = 20'000;
    options_.fetch.first_backoff_s = 0.01;
  }
  void TearDown() override {
    if (server_ <= 0) return;
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }

  // In pieces of changing size.
  static std::string read_all(ByteSource& source) {
    std::minstd_rand random(1);
    std::string all, piece(30'000, '\0');
    while (const size_t got = source.read(piece.data(), 1 + random() % piece.size()))
      all.append(piece, 0, got);
    return all;
  }
  std::string read_all(const std::string& path, int64_t begin) {
    return read_all(*open_url_source(at_ + path, options_, begin, cancelled_));
  }

  TemporaryFolder folder_;
  pid_t server_ = -1;
  std::string at_, whole_;
  UrlOptions options_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(UrlSourceTest, GivesTheBytesInOrderWhateverTheServerDoes) {
  for (const char* mode : {"plain", "cuts", "dated", "norange", "sometimes", "short", "excess",
                           "long", "wrongrange"}) {
    EXPECT_TRUE(read_all(mode, 0) == whole_) << mode;
  }
  EXPECT_EQ(read_all("empty", 0), "");
}

TEST_F(UrlSourceTest, BeginsInTheMiddleAndAtTheEnd) {
  const auto size = static_cast<int64_t>(whole_.size());
  for (const int64_t begin : {int64_t{1}, int64_t{123'457}, size - 1, size, size + 1}) {
    const std::string rest = whole_.substr(static_cast<size_t>(std::min(begin, size)));
    for (const char* mode : {"plain", "norange", "cuts"})
      EXPECT_TRUE(read_all(mode, begin) == rest) << mode << " from " << begin;
  }
}

TEST_F(UrlSourceTest, TellsWhatTheFileIsAndRefusesAnother) {
  std::string first_bytes;
  UrlIdentity identity = stat_url(at_ + "plain", options_, cancelled_, &first_bytes);
  EXPECT_EQ(identity.size_bytes, static_cast<int64_t>(whole_.size()));
  EXPECT_EQ(identity.etag, "\"one\"");
  EXPECT_EQ(first_bytes, whole_.substr(0, 10));
  EXPECT_EQ(stat_url(at_ + "weak", options_, cancelled_).validator(), "");
  EXPECT_EQ(stat_url(at_ + "empty", options_, cancelled_, &first_bytes).size_bytes, 0);
  EXPECT_EQ(first_bytes, "");
  const std::string version = version_text(identity);
  options_.expected = parse_version_text(version);
  EXPECT_EQ(version_text(options_.expected), version);
  EXPECT_TRUE(read_all("plain", 7) == whole_.substr(7));
  for (const char* mode : {"unlike", "weak", "dated"})
    EXPECT_THROW(read_all(mode, 7), NetworkError) << mode;
  EXPECT_EQ(parse_version_text("").validator(), "");
  EXPECT_EQ(parse_version_text("12 etag W/\"x\"").validator(), "");
  EXPECT_EQ(parse_version_text("12 changed \r\n").validator(), "");
}

TEST_F(UrlSourceTest, NeverMixesTwoFiles) {
  // The third answer, and all behind it, are of another file.
  const auto source = open_url_source(at_ + "changed", options_, 0, cancelled_);
  std::string all, piece(1000, '\0');
  EXPECT_THROW(
      {
        while (const size_t got = source->read(piece.data(), piece.size()))
          all.append(piece, 0, got);
      },
      NetworkError);
  EXPECT_TRUE(whole_.starts_with(all));
  // A cut that nothing proves to be continued rightly.
  EXPECT_THROW(read_all("novalidator", 0), NetworkError);
  EXPECT_THROW(read_all("missing", 0), NetworkError);
}

TEST_F(UrlSourceTest, AReaderThatStopsDoesNotWait) {
  auto source = open_url_source(at_ + "plain", options_, 0, cancelled_);
  char byte = 0;
  EXPECT_EQ(source->read(&byte, 1), 1u);
  source.reset();  // with a full ring
  source = open_url_source(at_ + "held", options_, 0, cancelled_);
  cancelled_ = true;
  EXPECT_THROW(read_all(*source), ReadCancelled);
  cancelled_ = false;
  source->interrupt();
  EXPECT_THROW(read_all(*source), ReadCancelled);
}

}  // namespace
}  // namespace weft
