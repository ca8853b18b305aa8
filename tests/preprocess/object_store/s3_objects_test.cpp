#include "preprocess/object_store/s3_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/object_store/s3_refusal.h"

namespace weft {
namespace {

using testing::HasSubstr;

HttpRefusal refusal_of(long status, const std::string& body, const std::string& region = "") {
  return {.url = "https://h/",
          .status = status,
          .redirect_url = "",
          .header =
              [region](const char* name) {
                return std::string(name) == "x-amz-bucket-region" ? region : "";
              },
          .body = body};
}

std::string error_of(const std::string& code, const std::string& more = "") {
  return "<?xml version=\"1.0\"?>\n<Error><Code>" + code + "</Code><Message>m &amp; m</Message>" +
         more + "</Error>";
}

class S3BucketTest : public testing::Test {
 protected:
  S3BucketTest() {
    for (const char* name : {"AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION",
                             "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE", "STORAGE_EMULATOR_HOST"}) {
      ::unsetenv(name);
    }
    ::setenv("HOME", "/nonexistent", 1);
  }
  static S3Bucket bucket_of(const std::string& address, const S3Options& options = {}) {
    return {parse_s3_address(address), options, std::make_shared<CachedCredentials>([] {
              return Credentials{{"id", "secret-0815", ""}, std::nullopt, "test"};
            })};
  }
};

TEST_F(S3BucketTest, AddressesFollowTheStore) {
  EXPECT_EQ(bucket_of("s3://corpus/a").request("a b/é+", {}, {}).url,
            "https://corpus.s3.us-east-1.amazonaws.com/a%20b/%C3%A9%2B");
  EXPECT_EQ(bucket_of("s3://my.corpus/a").request("a", {}, {}).url,
            "https://s3.us-east-1.amazonaws.com/my.corpus/a");
  EXPECT_EQ(bucket_of("s3://corpus/a").request("", {{"list-type", "2"}}, {}).url,
            "https://corpus.s3.us-east-1.amazonaws.com/?list-type=2");
  EXPECT_EQ(bucket_of("gs://corpus/a").request("a", {}, {}).url,
            "https://storage.googleapis.com/corpus/a");
  ::setenv("AWS_REGION", "cn-north-1", 1);
  EXPECT_EQ(bucket_of("s3://corpus/a").request("a", {}, {}).url,
            "https://corpus.s3.cn-north-1.amazonaws.com.cn/a");
  const RemoteRequest own =
      bucket_of("s3://corpus/a", {.endpoint = "https://minio:443/"}).request("a/../b", {}, {});
  EXPECT_EQ(own.url, "https://minio/corpus/a/../b");
  EXPECT_TRUE(own.is_path_as_is);
  EXPECT_FALSE(own.follows_redirects);
}

TEST_F(S3BucketTest, OnlyAnEndpointThatTheUserNamesMayBeUnencrypted) {
  EXPECT_FALSE(bucket_of("s3://corpus/a").request("a", {}, {}).may_be_unencrypted);
  ::setenv("AWS_ENDPOINT_URL", "http://ceph:80", 1);
  const RemoteRequest request = bucket_of("s3://corpus/a").request("a", {}, {});
  EXPECT_EQ(request.url, "http://ceph/corpus/a");
  EXPECT_TRUE(request.may_be_unencrypted);
  EXPECT_EQ(find_s3_endpoint({.endpoint = "http://minio:9000"}), "http://minio:9000");
  for (const char* bad : {"minio:9000", "http://minio/path", "http://u:p@minio", "ftp://minio"})
    EXPECT_THROW(find_s3_endpoint({.endpoint = bad}), UsageError) << bad;
}

TEST_F(S3BucketTest, TheRegionIsLearntFromAnswers) {
  S3Bucket bucket = bucket_of("s3://corpus/a");
  EXPECT_TRUE(bucket.judge(refusal_of(301, error_of("PermanentRedirect"), "eu-west-1")).asks_anew);
  EXPECT_EQ(bucket.request("a", {}, {}).url, "https://corpus.s3.eu-west-1.amazonaws.com/a");
  EXPECT_TRUE(bucket
                  .judge(refusal_of(
                      400, error_of("AuthorizationHeaderMalformed", "<Region>us-west-2</Region>")))
                  .asks_anew);
  EXPECT_EQ(bucket.request("a", {}, {}).url, "https://corpus.s3.us-west-2.amazonaws.com/a");
  for (const char* region : {"", "evil.org/x?", "UP"})
    EXPECT_FALSE(bucket.judge(refusal_of(301, "", region)).asks_anew) << region;
}

TEST_F(S3BucketTest, RefusalsAreToldApart) {
  S3Bucket bucket = bucket_of("s3://corpus/a");
  const auto why = [&](long status, const std::string& body) {
    return bucket.judge(refusal_of(status, body)).why;
  };
  EXPECT_THAT(why(403, error_of("AccessDenied")), HasSubstr("policy"));
  EXPECT_THAT(why(403, error_of("RequestTimeTooSkewed")), HasSubstr("clock"));
  EXPECT_THAT(why(403, error_of("SignatureDoesNotMatch")), HasSubstr("secret key of test"));
  EXPECT_THAT(why(400, error_of("ExpiredToken")), HasSubstr("expired"));
  EXPECT_THAT(why(404, error_of("NoSuchKey")), HasSubstr("slash at its end"));
  EXPECT_THAT(why(418, error_of("Odd\x1b[31m")), HasSubstr("Odd\\x1B[31m (m & m)"));
  const std::string cut = error_of("SignatureDoesNotMatch", std::string(20'000, 'x'));
  EXPECT_THAT(why(403, cut.substr(0, 16'384)), HasSubstr("clock"));
  EXPECT_THAT(why(403, "no XML"), HasSubstr("answered 403"));
  EXPECT_THROW(why(412, error_of("PreconditionFailed")), CannotContinue);
  EXPECT_TRUE(bucket.judge(refusal_of(503, error_of("SlowDown"))).is_overload);
  EXPECT_THAT(bucket_of("s3://commoncrawl/a").judge(refusal_of(403, error_of("AccessDenied"))).why,
              HasSubstr("https://data.commoncrawl.org/"));
}

TEST(S3Address, IsABucketAndAKeyThatNothingIsEncodedIn) {
  EXPECT_EQ(parse_s3_address("s3://corpus").key, "");
  EXPECT_EQ(parse_s3_address("s3://corpus").text(), "s3://corpus/");
  EXPECT_EQ(parse_s3_address("gs://corpus/a//b?c%20").key, "a//b?c%20");
  for (const char* bad : {"s3://", "s3:///key", "s3://a/k", "s3://user@bucket/k", "s3://b..c/k",
                          "https://corpus/k"}) {
    EXPECT_THROW(parse_s3_address(bad), UsageError) << bad;
  }
}

TEST(S3List, PagesAreReadWithKeysThatXmlCannotHold) {
  const S3ListPage page = parse_s3_list(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><EncodingType>url</EncodingType>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>a+b/=</NextContinuationToken>"
      "<Contents><Key>a+b%2Bc%0A%C3%A9</Key><Size>5368709121</Size></Contents></ListBucketResult>",
      "a ", "s3://corpus/");
  EXPECT_EQ(page.keys, std::vector<std::string>{"a b+c\né"});
  EXPECT_EQ(page.next_token, "a+b/=");
  const S3ListPage plain = parse_s3_list(
      "<ListBucketResult><Contents><Key>a+%41 &lt;</Key><Size>1</Size></Contents>"
      "<IsTruncated>false</IsTruncated></ListBucketResult>",
      "", "s3://corpus/");
  EXPECT_EQ(plain.keys, std::vector<std::string>{"a+%41 <"});
  EXPECT_EQ(plain.next_token, "");
  for (const char* bad : {"", "<html>", "<ListBucketResult>", "<Error/>"})
    EXPECT_THROW(parse_s3_list(bad, "", "s3://corpus/"), NetworkError) << bad;
}

TEST(S3List, APageThatIsNoneOfWhatWasAskedForIsRefused) {
  const std::string one = "<ListBucketResult><Contents><Key>x</Key></Contents>";
  EXPECT_THROW(parse_s3_list(one + "</ListBucketResult>", "folder/", "s3://corpus/folder/"),
               NetworkError)
      << "it has no prefix: another folder's object would be read";
  EXPECT_THROW(parse_s3_list(one + "<IsTruncated>true</IsTruncated><NextMarker>x</NextMarker>" +
                                 "</ListBucketResult>",
                             "", "s3://corpus/"),
               NetworkError)
      << "a list of version 1: what follows would be missing";
}

}  // namespace
}  // namespace weft
