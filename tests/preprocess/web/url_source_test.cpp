// UrlSource with a ring far smaller than the file, against bad_http_server.py.
#include "preprocess/web/url_source.h"

#include <curl/curl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdarg>
#include <optional>
#include <random>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/preprocess/web/bad_http_server.h"
#include "tests/temporary_folder.h"

namespace {
CURLoption unknown_option = CURLOPT_LASTENTRY;  // which this libcurl "does not know"
}  // namespace

// Stands before curl_easy_setopt() (ld --wrap). Every argument of it is a long or a pointer.
CURLcode real_setopt(CURL* curl, CURLoption option, ...) asm("__real_curl_easy_setopt");
CURLcode checked_setopt(CURL* curl, CURLoption option, ...) asm("__wrap_curl_easy_setopt");
CURLcode checked_setopt(CURL* curl, CURLoption option, ...) {
  va_list arguments;
  va_start(arguments, option);
  void* const value = va_arg(arguments, void*);
  va_end(arguments);
  return option == unknown_option ? CURLE_UNKNOWN_OPTION : real_setopt(curl, option, value);
}

namespace weft {
namespace {

class UrlSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!BadHttpServer::can_run()) GTEST_SKIP() << "no python3";
    server_.emplace(folder_.path());
    at_ = server_->url("");
    whole_ = server_->whole();
    options_.fetch.http.allow_http = true;
    options_.fetch.num_connections = 3;
    options_.fetch.part_bytes = 20'000;
    options_.fetch.first_backoff_s = 0.01;
  }
  std::shared_ptr<RemoteFile> file(const std::string& path) const {
    return make_web_file(at_ + path, /*allow_http=*/true);
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
    return read_all(*open_url_source(file(path), options_, begin, cancelled_));
  }

  TemporaryFolder folder_;
  std::optional<BadHttpServer> server_;
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
  const UrlStat stat = stat_url(file("plain"), options_, cancelled_);
  const UrlIdentity& identity = stat.identity;
  EXPECT_EQ(identity.size_bytes, static_cast<int64_t>(whole_.size()));
  EXPECT_EQ(identity.etag, "\"one\"");
  EXPECT_EQ(stat.first_bytes, whole_.substr(0, 10));
  EXPECT_EQ(stat_url(file("weak"), options_, cancelled_).identity.validator(), "");
  const UrlStat empty = stat_url(file("empty"), options_, cancelled_);
  EXPECT_EQ(empty.identity.size_bytes, 0);
  EXPECT_EQ(empty.first_bytes, "");
  EXPECT_EQ(version_text(identity), std::to_string(whole_.size()) + " etag \"one\"");
  EXPECT_EQ(version_text({5, "", "Mon"}), "5 changed Mon");
  EXPECT_EQ(version_text({5, "", ""}), "");
  options_.expected = identity;
  EXPECT_TRUE(read_all("plain", 7) == whole_.substr(7));
  for (const char* mode : {"unlike", "weak", "dated"})
    EXPECT_THROW(read_all(mode, 7), NetworkError) << mode;
}

TEST_F(UrlSourceTest, ReadsNoMoreThanIsWanted) {
  EXPECT_EQ(stat_url(file("endless"), options_, cancelled_).first_bytes, "eeeeeeeeee");
  EXPECT_EQ(read_url(file("plain"), options_.fetch, 300'000, cancelled_), whole_);
  EXPECT_THROW(read_url(file("plain"), options_.fetch, 299'999, cancelled_), LimitExceeded);
  EXPECT_THROW(read_url(file("endless"), options_.fetch, 1'000'000, cancelled_), LimitExceeded);
}

TEST_F(UrlSourceTest, ReadsRangesIntoMemory) {
  options_.expected = stat_url(file("plain"), options_, cancelled_).identity;
  const auto read = [&](const std::string& path, ByteRange range) {
    std::string bytes(static_cast<size_t>(range.end - range.begin), '\0');
    read_url_range(*file(path), options_, range, bytes.data(), cancelled_);
    return bytes;
  };
  const auto size = static_cast<int64_t>(whole_.size());
  for (const char* mode : {"plain", "cuts", "norange"}) {
    EXPECT_TRUE(read(mode, {7, 123'457}) == whole_.substr(7, 123'450)) << mode;
    EXPECT_EQ(read(mode, {size - 4, size}), whole_.substr(whole_.size() - 4)) << mode;
  }
  EXPECT_EQ(read("plain", {5, 5}), "");
  EXPECT_THROW(read("plain", {size - 4, size + 1}), NetworkError);
  EXPECT_THROW(read("unlike", {7, 100}), NetworkError);
  cancelled_ = true;
  EXPECT_THROW(read("plain", {7, 100}), ReadCancelled);
}

TEST_F(UrlSourceTest, NeverMixesTwoFiles) {
  // The third answer, and all behind it, are of another file.
  const auto source = open_url_source(file("changed"), options_, 0, cancelled_);
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

// An older libcurl would follow a redirect to http without a word.
TEST_F(UrlSourceTest, NothingIsFetchedByALibcurlThatDoesNotKnowARule) {
  for (const CURLoption option : {CURLOPT_PROTOCOLS_STR, CURLOPT_REDIR_PROTOCOLS_STR,
                                  CURLOPT_MAXREDIRS, CURLOPT_LOW_SPEED_LIMIT}) {
    unknown_option = option;
    EXPECT_THROW(read_all("plain", 0), std::logic_error) << option;
    EXPECT_EQ(server_->requests(), "") << option;
  }
  unknown_option = CURLOPT_LASTENTRY;
  EXPECT_TRUE(read_all("plain", 0) == whole_);
}

TEST_F(UrlSourceTest, AReaderThatStopsDoesNotWait) {
  auto source = open_url_source(file("plain"), options_, 0, cancelled_);
  char byte = 0;
  EXPECT_EQ(source->read(&byte, 1), 1u);
  source.reset();  // with a full ring
  source = open_url_source(file("held"), options_, 0, cancelled_);
  cancelled_ = true;
  EXPECT_THROW(read_all(*source), ReadCancelled);
  cancelled_ = false;
  source->interrupt();
  EXPECT_THROW(read_all(*source), ReadCancelled);
}

}  // namespace
}  // namespace weft
