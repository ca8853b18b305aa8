#include "preprocess/object_store/sigv4.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <new>

#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/terminal/text_pieces.h"
#include "preprocess/web/url.h"

namespace weft {
namespace {

using SortedHeaders = std::map<std::string, std::string>;  // by names in lower case

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size_bytes = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
           &size_bytes) == nullptr) {
    throw std::bad_alloc();
  }
  return {reinterpret_cast<const char*>(digest.data()), size_bytes};
}

std::string hex_digits(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string time_stamp(int64_t time) { return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(time)); }

// All values as the canonical form has them: trimmed, and runs of spaces are one.
SortedHeaders headers_to_sign(const RequestToSign& request, const SigningKeys& keys, int64_t time) {
  SortedHeaders headers{{"host", request.host},
                        {"x-amz-content-sha256", sha256_of("")},
                        {"x-amz-date", time_stamp(time)}};
  if (!keys.session_token.empty()) headers["x-amz-security-token"] = keys.session_token;
  for (const auto& [name, value] : request.headers) {
    std::string lower = name, tidy;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const char c : trimmed(value)) {
      if (c != ' ' || !tidy.ends_with(' ')) tidy += c;
    }
    headers[lower] = tidy;
  }
  return headers;
}

std::string names_of(const SortedHeaders& headers) {
  std::string names;
  for (const auto& [name, value] : headers) names += (names.empty() ? "" : ";") + name;
  return names;
}

std::string canonical_text(const RequestToSign& request, const SortedHeaders& headers) {
  std::string lines;
  for (const auto& [name, value] : headers) lines += fmt::format("{}:{}\n", name, value);
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, percent_encoded(request.path, "/"),
                     encoded_query(request), lines, names_of(headers),
                     headers.at("x-amz-content-sha256"));
}

}  // namespace

std::string encoded_query(const RequestToSign& request) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : request.query)
    encoded.emplace_back(percent_encoded(name), percent_encoded(value));
  std::sort(encoded.begin(), encoded.end());
  std::string text;
  for (const auto& [name, value] : encoded)
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, value);
  return text;
}

std::string canonical_request(const RequestToSign& request, const SigningKeys& keys, int64_t time) {
  return canonical_text(request, headers_to_sign(request, keys, time));
}

std::vector<std::string> signed_headers(const RequestToSign& request, const SigningKeys& keys,
                                        const std::string& region, int64_t time) {
  const SortedHeaders headers = headers_to_sign(request, keys, time);
  const std::string stamp = time_stamp(time), date = stamp.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", date, region);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", stamp, scope,
                                          sha256_of(canonical_text(request, headers)));
  std::string key = "AWS4" + keys.secret_access_key;
  for (const std::string& part : {date, region, std::string("s3"), std::string("aws4_request")})
    key = hmac_sha256(key, part);
  std::vector<std::string> lines;
  for (const auto& [name, value] : headers) {
    if (name != "host") lines.push_back(fmt::format("{}: {}", name, value));  // libcurl sends it
  }
  lines.push_back(fmt::format(
      "Authorization: AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
      keys.access_key_id, scope, names_of(headers), hex_digits(hmac_sha256(key, to_sign))));
  return lines;
}

}  // namespace weft
