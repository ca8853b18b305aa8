// Amazon's Signature Version 4 for requests without a body: who asks is proven by a keyed hash over
// what is asked for. [docs.aws.amazon.com, "Create a signed AWS API request"; botocore's auth.py
// gives the same canonical requests, see tests/golden/sigv4]
//
//   canonical request := METHOD \n path \n query \n headers \n names of headers \n hash of the body
//   text to sign      := AWS4-HMAC-SHA256 \n time \n date/region/s3/aws4_request \n its SHA-256
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft {

struct SigningKeys {
  std::string access_key_id, secret_access_key;
  std::string session_token;  // of temporary keys; else ""
};

struct RequestToSign {
  std::string method = "GET";
  std::string host;  // with its port, as the request's Host header has it
  std::string path;  // "/bucket/a key", not encoded
  std::vector<std::pair<std::string, std::string>> query{};    // not encoded
  std::vector<std::pair<std::string, std::string>> headers{};  // that are signed beside the usual
};

// "name=value&..." in the order and the encoding of the signature; "" for no parameters.
std::string encoded_query(const RequestToSign& request);

// `time`: seconds since 1970.
std::string canonical_request(const RequestToSign& request, const SigningKeys& keys, int64_t time);
// The headers to send, as "Name: value": those of the request, x-amz-*, and Authorization.
std::vector<std::string> signed_headers(const RequestToSign& request, const SigningKeys& keys,
                                        const std::string& region, int64_t time);

}  // namespace weft
