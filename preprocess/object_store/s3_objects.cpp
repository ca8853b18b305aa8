#include "preprocess/object_store/s3_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <set>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

// A page of 1,000 keys of 1,024 bytes, each byte as %XX, is shorter.
constexpr int64_t kMaxPageBytes = int64_t{8} << 20;

class S3File final : public RemoteFile {
 public:
  S3File(S3Address address, std::shared_ptr<S3Bucket> bucket)
      : address_(std::move(address)), bucket_(std::move(bucket)) {}

  std::string name() const override { return address_.text(); }
  std::string key() const override {
    return bucket_->endpoint().empty() ? name() : name() + " at " + bucket_->endpoint();
  }
  RemoteRequest request(const std::optional<ByteRange>&, const std::string& validator) override {
    std::vector<std::pair<std::string, std::string>> headers;
    if (!validator.empty())
      headers.emplace_back(validator.front() == '"' ? "If-Match" : "If-Unmodified-Since",
                           validator);
    return bucket_->request(address_.key, {}, std::move(headers));
  }
  HttpFailure judge(const HttpRefusal& refusal) override { return bucket_->judge(refusal); }

 private:
  const S3Address address_;
  const std::shared_ptr<S3Bucket> bucket_;
};

class S3ListRequest final : public RemoteFile {
 public:
  S3ListRequest(std::string name, std::shared_ptr<S3Bucket> bucket, std::string prefix,
                std::string token)
      : name_(std::move(name)),
        bucket_(std::move(bucket)),
        prefix_(std::move(prefix)),
        token_(std::move(token)) {}

  std::string name() const override { return name_; }
  RemoteRequest request(const std::optional<ByteRange>&, const std::string&) override {
    std::vector<std::pair<std::string, std::string>> query{
        {"list-type", "2"}, {"prefix", prefix_}, {"encoding-type", "url"}};
    if (!token_.empty()) query.emplace_back("continuation-token", token_);
    return bucket_->request("", std::move(query), {});
  }
  HttpFailure judge(const HttpRefusal& refusal) override { return bucket_->judge(refusal); }
  bool has_ranges() const override { return false; }

 private:
  const std::string name_;
  const std::shared_ptr<S3Bucket> bucket_;
  const std::string prefix_, token_;
};

std::string decoded_key(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  return percent_decoded(text);
}

}  // namespace

std::shared_ptr<RemoteFile> make_s3_object(const S3Address& address, const S3Options& options) {
  return std::make_shared<S3File>(address, shared_bucket(address, options));
}

S3ListPage parse_s3_list(std::string_view xml, const std::string& prefix, const std::string& name) {
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_buffer(
      xml.data(), xml.size(), pugi::parse_default | pugi::parse_ws_pcdata_single);
  const pugi::xml_node list = document.child("ListBucketResult");
  if (!result || !list)
    throw NetworkError(name + ": the server's list of objects cannot be read; is it an S3 store?");
  const bool is_encoded = std::string_view(list.child_value("EncodingType")) == "url";
  S3ListPage page;
  for (const pugi::xml_node object : list.children("Contents")) {
    std::string key = object.child_value("Key");
    if (is_encoded) key = decoded_key(std::move(key));
    if (!key.starts_with(prefix)) {
      throw NetworkError(fmt::format("{}: the server lists '{}', which does not begin with '{}'",
                                     name, escape_for_terminal(key), escape_for_terminal(prefix)));
    }
    page.keys.push_back(std::move(key));
  }
  if (!list.child("IsTruncated").text().as_bool()) return page;
  page.next_token = list.child_value("NextContinuationToken");
  if (page.next_token.empty()) {
    throw NetworkError(name +
                       ": the server's list of objects goes on and does not say how: it is none of "
                       "list-type=2; name its objects one by one");
  }
  return page;
}

std::vector<std::string> list_s3_keys(const S3Address& bucket, const std::string& prefix,
                                      const HttpOptions& options,
                                      const std::atomic<bool>& cancelled) {
  const std::string name = bucket.text();
  const auto shared = shared_bucket(bucket, options.s3);
  std::vector<std::string> keys;
  std::string token;
  std::set<std::string> tokens;
  do {
    const auto request = std::make_shared<S3ListRequest>(name, shared, prefix, token);
    FetchOptions fetch;
    fetch.http = options;
    S3ListPage page =
        parse_s3_list(read_url(request, fetch, kMaxPageBytes, cancelled), prefix, name);
    token = page.next_token;
    if (!tokens.insert(token).second)
      throw NetworkError(name + ": the server's list of objects has no end");
    for (std::string& key : page.keys) {
      if (!key.ends_with('/')) keys.push_back(std::move(key));
    }
  } while (!token.empty());
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace weft
