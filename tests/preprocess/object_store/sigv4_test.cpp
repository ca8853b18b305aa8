#include "preprocess/object_store/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Json = nlohmann::json;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// Requests that botocore has signed: see make_vectors.py beside them.
TEST(SigV4, SignsAsBotocoreDoes) {
  std::ifstream vectors(std::string(std::getenv("WEFT_SOURCE_DIR")) +
                        "/tests/golden/sigv4/vectors.jsonl");
  int num_vectors = 0;
  for (std::string line; std::getline(vectors, line); ++num_vectors) {
    const Json vector = Json::parse(line);
    const RequestToSign request{.host = vector["host"],
                                .path = vector["path"],
                                .query = vector["query"].get<Pairs>(),
                                .headers = vector["headers"].get<Pairs>()};
    const SigningKeys keys{vector["access_key_id"], vector["secret_access_key"],
                           vector["session_token"]};
    const int64_t time = vector["time"];
    EXPECT_EQ(canonical_request(request, keys, time), vector["canonical_request"]);
    const auto headers = signed_headers(request, keys, vector["region"], time);
    EXPECT_EQ(headers.back(), "Authorization: " + vector["authorization"].get<std::string>());
    for (const std::string& header : headers)
      EXPECT_EQ(header.find(keys.secret_access_key), header.npos);
  }
  EXPECT_EQ(num_vectors, 200);
}

TEST(SigV4, SendsWhatItHasSigned) {
  const RequestToSign request{.host = "h", .path = "/b/k", .headers = {{"If-Match", "\"1\""}}};
  EXPECT_THAT(
      signed_headers(request, {"id", "secret", "token"}, "auto", 0),
      testing::ElementsAre("if-match: \"1\"",
                           "x-amz-content-sha256: "
                           "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                           "x-amz-date: 19700101T000000Z", "x-amz-security-token: token",
                           testing::StartsWith("Authorization: AWS4-HMAC-SHA256 "
                                               "Credential=id/19700101/auto/s3/aws4_request, ")));
}

}  // namespace
}  // namespace weft
