// The text that downloads deal with: addresses, states, lists of checksums. No network.
#include "preprocess/web/url.h"

#include <gtest/gtest.h>

#include "preprocess/web/download_state.h"
#include "preprocess/web/sha256_list.h"

namespace weft {
namespace {

TEST(Url, IsToldFromOthersOfAnotherQueryWithoutShowingIt) {
  const auto one = url_without_secrets("https://h/get?id=1&key=secret"),
             two = url_without_secrets("https://h/get?id=2&key=secret");
  EXPECT_NE(one, two);
  EXPECT_EQ(one, url_without_secrets("https://h/get?id=1&key=secret"));
  EXPECT_EQ(one.find("secret"), std::string::npos);
  EXPECT_EQ(one.find("https://h/get (query "), 0U);
  EXPECT_EQ(url_without_secrets("https://h/get"), "https://h/get");
}

// Each address is signed twice.
TEST(Url, CredentialsDoNotTellFilesApartAndOtherParametersDo) {
  const auto named = [](const std::string& query) {
    return url_without_secrets("https://h/get?" + query);
  };
  const std::pair<const char*, const char*> kSigned[] = {
      {"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a&X-Amz-Date=1&X-Amz-Signature=ab",
       "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=c&X-Amz-Date=2&X-Amz-Signature=cd&"
       "X-Amz-Security-Token=t&response-content-disposition=attachment"},
      {"X-Goog-Date=1&X-Goog-Signature=ab", "X-Goog-Date=2&X-Goog-Signature=cd"},
      {"X-Amz-Signature=ab&x-id=GetObject", "X-Amz-Signature=cd"},
      {"AWSAccessKeyId=a&Expires=7&Signature=ab", "AWSAccessKeyId=b&Expires=8&Signature=cd"},
      {"AccessKeyId=a&Expires=7&Signature=ab", "AccessKeyId=b&Expires=8&Signature=cd"},
      {"x-oss-signature-version=OSS4-HMAC-SHA256&x-oss-credential=a&x-oss-date=1&x-oss-signature=ab",
       "x-oss-expires=9&x-oss-credential=b&x-oss-date=2&x-oss-signature=cd"},
      {"q-sign-algorithm=sha1&q-ak=a&q-sign-time=1&q-key-time=1&q-header-list=&q-signature=ab",
       "q-sign-algorithm=sha1&q-ak=a&q-sign-time=2&q-key-time=2&q-url-param-list=&q-signature=cd"},
      {"GoogleAccessId=a&Expires=7&Signature=ab", "GoogleAccessId=a&Expires=8&Signature=cd"},
      {"Policy=e&Signature=ab&Key-Pair-Id=K", "Policy=f&Signature=cd&Key-Pair-Id=K"},
      {"Expires=7&Policy=e&Signature=ab&Key-Pair-Id=K",
       "Expires=8&Policy=f&Signature=cd&Key-Pair-Id=K"},
      {"Expires=7&Signature=ab&Key-Pair-Id=K", "Expires=8&Signature=cd&Key-Pair-Id=L"},
      {"sv=2024-05-04&se=1&sr=b&sp=r&sig=ab", "sv=2024-05-04&st=0&se=2&sr=b&sp=r&sig=cd"},
      {"sv=1&sig=ab&skdutid=a&sduoid=b", "sv=1&sig=cd&skdutid=c&sduoid=d"},
  };
  for (const auto& [first, second] : kSigned) {
    EXPECT_EQ(named(first), "https://h/get") << first;
    EXPECT_EQ(named(second), "https://h/get") << second;
    const std::string version = "versionId=7";
    EXPECT_NE(named(version + "&" + first), named(first)) << "another version of the file";
    EXPECT_EQ(named(version + "&" + first), named(std::string(second) + "&" + version));
    EXPECT_EQ(named(version + "&" + first), named(version));
    EXPECT_NE(named(version + "&" + first), named("versionId=8&" + std::string(first)));
  }
  // Without a signature these are parameters like others.
  for (const char* name :
       {"Expires", "sr", "st", "Policy", "response-type", "AccessKeyId", "x-id", "token"})
    EXPECT_NE(named(name + std::string("=1")), named(name + std::string("=2"))) << name;
}

TEST(DownloadState, ComesBackAsItWasWritten) {
  for (const int64_t size : {int64_t{-1}, int64_t{7}, int64_t{1} << 40}) {
    const DownloadState state{"https://h/f", {size, "", "Wed, 21 Oct 2026"}, 7};
    const auto read = parse_download_state(to_json(state), 7);
    ASSERT_TRUE(read) << size;
    EXPECT_EQ(to_json(*read), to_json(state));
    EXPECT_EQ(read->num_bytes, 7);
    EXPECT_FALSE(parse_download_state(to_json(state), 6)) << "claims more than the part has";
  }
}

TEST(DownloadState, RefusesWhatItWouldNotHaveWritten) {
  const auto with = [](const std::string& num_bytes, const std::string& etag = R"(\"e\")",
                       const std::string& size = "100", const std::string& more = "") {
    return parse_download_state(R"({"version":2,"url":"u","size_bytes":)" + size + R"(,"etag":")" +
                                    etag + R"(","last_modified":"","num_bytes":)" + num_bytes +
                                    more + "}",
                                100);
  };
  EXPECT_TRUE(with("10"));
  EXPECT_TRUE(with("0"));
  EXPECT_TRUE(with("100"));
  for (const char* num_bytes : {"-5", "101", "1.5", "true", "18446744073709551615",
                                "9223372036854775807", "1e300", "{}", "\"1\"", "null", "[1]"}) {
    EXPECT_FALSE(with(num_bytes)) << num_bytes;
  }
  EXPECT_FALSE(with("10", R"(W/\"e\")")) << "weak";
  EXPECT_FALSE(with("10", "")) << "nothing could prove anything";
  EXPECT_FALSE(with("10", R"(\"e\"\r\nX: y)")) << "would be a header of its own";
  EXPECT_FALSE(with("10", R"(\"e\")", "9")) << "claims more than the file has";
  EXPECT_FALSE(with("10", R"(\"e\")", "-2"));
  EXPECT_FALSE(with("10", R"(\"e\")", "100", R"(,"missing":[])"));
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

TEST(Url, OnlyHttpsUnlessAllowedAndWithoutPasswords) {
  EXPECT_NO_THROW(check_url("https://h/x", false));
  EXPECT_NO_THROW(check_url("HTTPS://h/x", false));
  EXPECT_NO_THROW(check_url("http://h/x", true));
  EXPECT_THROW(check_url("http://h/x", false), std::invalid_argument);
  for (const char* url : {"ftp://h/x", "file:///etc/passwd", "https://u@h/x", "https://u:p@h/x",
                          "/path", "", "https://h/\nx", "javascript://h/"}) {
    EXPECT_THROW(check_url(url, true), std::invalid_argument) << url;
  }
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
