// The bookkeeping of downloads: parts, states, addresses, lists of checksums. No network.
#include "preprocess/web/fetch_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "preprocess/web/download_state.h"
#include "preprocess/web/sha256_list.h"
#include "preprocess/web/url.h"

namespace weft {
namespace {

using Ranges = std::vector<ByteRange>;
constexpr int64_t kEndless = FetchPlan::kEndless;

TEST(FetchPlan, HandsOutPartsInOrderAndClipsThemToTheSize) {
  FetchPlan plan;
  const int first = *plan.take(10);
  EXPECT_EQ(plan.missing_of(first), (ByteRange{0, 10}));
  plan.set_size(25);
  const int second = *plan.take(10), third = *plan.take(10);
  EXPECT_EQ(plan.missing_of(second), (ByteRange{10, 20}));
  EXPECT_EQ(plan.missing_of(third), (ByteRange{20, 25}));
  EXPECT_FALSE(plan.take(10));
  EXPECT_FALSE(plan.is_complete());
  plan.advance(second, 10);
  plan.give_back(second);
  plan.advance(first, 4);
  plan.give_back(first);
  EXPECT_EQ(plan.missing(), (Ranges{{4, 10}, {20, 25}}));
  EXPECT_EQ(plan.num_bytes_held(25), 14);
  EXPECT_EQ(plan.missing_of(*plan.take(10)), (ByteRange{4, 10}));
}

TEST(FetchPlan, SizeMayCutWhatIsTakenAndEndsAnEmptyFile) {
  FetchPlan plan;
  const int part = *plan.take(100);
  plan.set_size(0);
  EXPECT_EQ(plan.missing_of(part), (ByteRange{0, 0}));
  EXPECT_TRUE(plan.is_complete());
}

TEST(FetchPlan, TakesOnlyWhatEndsInsideTheWindow) {
  FetchPlan plan;
  plan.set_size(25);
  EXPECT_TRUE(plan.take(10, 20));
  EXPECT_TRUE(plan.take(10, 20));
  EXPECT_FALSE(plan.take(10, 24));
  EXPECT_TRUE(plan.take(10, 25));
}

TEST(FetchPlan, OnePieceForgetsWhatCameBehindTheFirstGap) {
  FetchPlan plan(Ranges{{5, 10}, {20, 30}});
  plan.take(3);
  const int all = plan.take_rest_as_one(30);
  EXPECT_EQ(plan.missing_of(all), (ByteRange{5, 30}));
  EXPECT_EQ(plan.missing(), (Ranges{{5, 30}}));
  EXPECT_FALSE(plan.take(1));
}

// Against a plain array of bytes.
TEST(FetchPlan, NeverLosesOrRepeatsAByte) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::minstd_rand random(seed);
    const int64_t size = 1 + random() % 200;
    FetchPlan plan;
    plan.set_size(size);
    std::vector<int> num_times(static_cast<size_t>(size));
    std::vector<int> taken;
    while (!plan.is_complete()) {
      if (taken.empty() || random() % 3 == 0) {
        if (const auto part = plan.take(1 + random() % 40)) taken.push_back(*part);
      }
      if (taken.empty()) continue;
      const size_t at = random() % taken.size();
      const ByteRange missing = plan.missing_of(taken[at]);
      const int64_t num_bytes = static_cast<int64_t>(random()) % (missing.end - missing.begin + 1);
      for (int64_t i = 0; i < num_bytes; ++i) ++num_times[static_cast<size_t>(missing.begin + i)];
      plan.advance(taken[at], num_bytes);
      if (random() % 2 == 0 || missing.begin + num_bytes == missing.end) {
        plan.give_back(taken[at]);
        taken.erase(taken.begin() + static_cast<ptrdiff_t>(at));
      }
      int64_t held = 0;
      for (const int times : num_times) held += times;
      ASSERT_EQ(plan.num_bytes_held(size), held) << "seed " << seed;
      // A state written here would be taken up as it is.
      const DownloadState state{"u", {size, "\"e\"", ""}, plan.missing()};
      const auto read = parse_download_state(to_json(state), size);
      ASSERT_TRUE(read) << "seed " << seed;
      ASSERT_EQ(read->missing, plan.missing());
    }
    ASSERT_EQ(num_times, std::vector<int>(static_cast<size_t>(size), 1)) << "seed " << seed;
  }
}

TEST(DownloadState, KeepsAnEndlessRange) {
  const DownloadState state{"https://h/f", {-1, "", "Wed, 21 Oct 2026"}, {{7, kEndless}}};
  const auto read = parse_download_state(to_json(state), 7);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->missing, (Ranges{{7, kEndless}}));
  EXPECT_EQ(read->identity.last_modified, "Wed, 21 Oct 2026");
  EXPECT_FALSE(parse_download_state(to_json(state), 6)) << "claims more than the part has";
}

TEST(DownloadState, RefusesWhatItWouldNotHaveWritten) {
  const auto with = [](const std::string& missing, const std::string& etag = R"(\"e\")",
                       const std::string& size = "100") {
    return parse_download_state(R"({"version":1,"url":"u","size_bytes":)" + size + R"(,"etag":")" +
                                    etag + R"(","last_modified":"","missing":)" + missing + "}",
                                100);
  };
  EXPECT_TRUE(with("[[10,20],[30,100]]"));
  EXPECT_TRUE(with("[]"));
  for (const char* missing :
       {"[[20,10]]", "[[-5,10]]", "[[0,101]]", "[[10,20],[15,30]]", "[[10,20],[20,30]]", "[[1]]",
        "[[1.5,2]]", "[[0,18446744073709551615]]", "[[0,9223372036854775807]]", "[[0,-1]]", "{}",
        "[[0,\"1\"]]", "null"}) {
    EXPECT_FALSE(with(missing)) << missing;
  }
  EXPECT_FALSE(with("[]", R"(W/\"e\")")) << "weak";
  EXPECT_FALSE(with("[]", "")) << "nothing could prove anything";
  EXPECT_FALSE(with("[]", R"(\"e\"\r\nX: y)")) << "would be a header of its own";
  EXPECT_FALSE(with("[]", R"(\"e\")", "101")) << "claims more than the part has";
  EXPECT_FALSE(with("[]", R"(\"e\")", "-2"));
  for (const char* json : {"", "{", "[]", "{}", "null", R"({"version":2})", "\xff"})
    EXPECT_FALSE(parse_download_state(json, 100)) << json;
}

TEST(Url, FileNamesAreOneSafeComponent) {
  EXPECT_EQ(url_file_name("https://h/a/corpus-1.jsonl.zst"), "corpus-1.jsonl.zst");
  EXPECT_EQ(url_file_name("https://h/a/b?x=/c/d#/e"), "b");
  EXPECT_EQ(url_file_name("https://h/..%2f..%2Fetc%2fpasswd"), "passwd");
  EXPECT_EQ(url_file_name("https://h/%2e%2e"), "");
  EXPECT_EQ(url_file_name("https://h/...x"), "x");
  EXPECT_EQ(url_file_name("https://h/a%00b%0ac%20d%c3%a9"), "a_b_c_d__");
  EXPECT_EQ(url_file_name("https://h/a\\b"), "a_b");
  EXPECT_EQ(url_file_name("https://h/"), "");
  EXPECT_EQ(url_file_name("https://h"), "");
  EXPECT_EQ(url_file_name("https://h/" + std::string(300, 'x') + ".gz").size(), 200u);
  EXPECT_TRUE(url_file_name("https://h/" + std::string(300, 'x') + ".gz").ends_with(".gz"));
}

TEST(Url, ShowsNoSecrets) {
  EXPECT_EQ(display_url("https://u:p@h:1/a?sig=1#f"), "https://h:1/a");
  EXPECT_EQ(display_url("https://h/a@b?c"), "https://h/a@b");
  EXPECT_EQ(display_url("https://h?x@y"), "https://h");
}

TEST(Url, OnlyHttpsUnlessAllowedAndWithoutPasswords) {
  EXPECT_NO_THROW(check_url("https://h/x", false));
  EXPECT_NO_THROW(check_url("HTTPS://h/x", false));
  EXPECT_NO_THROW(check_url("http://h/x", true));
  EXPECT_THROW(check_url("http://h/x", false), std::invalid_argument);
  for (const char* url : {"ftp://h/x", "file:///etc/passwd", "https://u@h/x", "https://u:p@h/x",
                          "/path", "", "https://h/\nx", "javascript://h/"}) {
    EXPECT_THROW(check_url(url, true), std::invalid_argument) << url;
  }
  EXPECT_TRUE(looks_like_url("s3://bucket/key"));
  EXPECT_FALSE(looks_like_url("folder/name://x"));
}

TEST(Url, SameOriginIsSchemeHostAndPort) {
  EXPECT_TRUE(is_same_origin("https://H/x", "https://h:443"));
  EXPECT_FALSE(is_same_origin("https://h/x", "http://h"));
  EXPECT_FALSE(is_same_origin("https://h:444/x", "https://h"));
  EXPECT_FALSE(is_same_origin("https://h.evil/x", "https://h"));
  EXPECT_FALSE(is_same_origin("https://h@evil/x", "https://h"));
  EXPECT_FALSE(is_same_origin("https://h\\@evil/x", "https://h")) << "libcurl connects to evil";
}

TEST(UrlIdentity, OnlyAStrongValidatorAndTheSizeProveThatAFileIsTheSame) {
  const UrlIdentity file{10, "\"a\"", "Mon"};
  EXPECT_TRUE(file.matches({10, "\"a\"", ""}, false));
  EXPECT_TRUE(file.matches({-1, "\"a\"", "Mon"}, false));
  EXPECT_FALSE(file.matches({11, "\"a\"", "Mon"}, true));
  EXPECT_FALSE(file.matches({10, "\"b\"", "Mon"}, true));
  EXPECT_FALSE(file.matches({10, "", "Mon"}, false)) << "a whole answer must prove itself";
  EXPECT_TRUE(file.matches({10, "", ""}, true)) << "If-Range was asked";
  EXPECT_FALSE(file.matches({10, "", "Tue"}, true));
  const UrlIdentity dated{10, "", "Mon"};
  EXPECT_TRUE(dated.matches({10, "", "Mon"}, false));
  EXPECT_FALSE(dated.matches({10, "", ""}, false));
  EXPECT_FALSE((UrlIdentity{10, "", ""}).matches({10, "", ""}, true));
}

TEST(Sha256List, TakesTheEntryThatEndsThePath) {
  const std::string a(64, 'a'), b(64, 'B'), c(64, 'c');
  const Sha256List list("sums", "# made by hand\n\n" + a + "  x.gz\n" + b + " *./train/x.gz\r\n" +
                                    "SHA256 (y (1).gz) = " + c + "\n" + c + "  z\n" + a + "  z");
  EXPECT_EQ(list.find("https://h/d/x.gz?q"), a);
  EXPECT_EQ(list.find("https://h/train/x.gz"), std::string(64, 'b'));
  EXPECT_EQ(list.find("https://h/y%20(1).gz"), c);
  EXPECT_THROW(list.find("https://h/ax.gz"), std::runtime_error);
  EXPECT_THROW(list.find("https://h/z"), std::runtime_error) << "two contradict";
  EXPECT_THROW(Sha256List("sums", a + "\n"), std::runtime_error);
  EXPECT_THROW(Sha256List("sums", "<html>"), std::runtime_error);
  EXPECT_THROW(Sha256List("sums", a.substr(1) + "  x"), std::runtime_error);
}

}  // namespace
}  // namespace weft
