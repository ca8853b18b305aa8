#include "preprocess/object_store/credential_services.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/environment.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/terminal/text_pieces.h"
#include "preprocess/object_store/aws_profile.h"
#include "preprocess/object_store/s3_refusal.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// Answers of such services have 2 kB.
constexpr int64_t kMaxAnswerBytes = int64_t{1} << 20;
constexpr char kInstanceService[] = "http://169.254.169.254";

// A page of a service that gives keys. Its address may hold a token, so messages have its name.
class ServicePage final : public RemoteFile {
 public:
  ServicePage(std::string name, RemoteRequest request)
      : name_(std::move(name)), request_(std::move(request)) {
    request_.follows_redirects = false;
    request_.may_be_unencrypted = true;
    request_.reads_error_body = true;
  }

  std::string name() const override { return name_; }
  RemoteRequest request(const std::optional<ByteRange>&, const std::string&) override {
    return request_;
  }
  HttpFailure judge(const HttpRefusal& refusal) override {
    HttpFailure failure = failure_of_status(refusal.status, refusal.retry_after_s);
    failure.why = fmt::format("answered {}{}", refusal.status, text_of_refusal(refusal.body));
    return failure;
  }
  bool has_ranges() const override { return false; }

 private:
  const std::string name_;
  RemoteRequest request_;
};

std::string read_page(const std::string& name, RemoteRequest request, int timeout_s,
                      int num_attempts) {
  FetchOptions options;
  options.http.connect_timeout_s = options.http.stall_timeout_s = timeout_s;
  options.num_attempts = num_attempts;
  return read_url(std::make_shared<ServicePage>(name, std::move(request)), options, kMaxAnswerBytes,
                  stop_flag());
}

std::string text_member(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// The form that programs, containers and instances share, but for the name of the token.
Credentials credentials_of_json(const std::string& text, const char* token_name,
                                const std::string& source) {
  Credentials found;
  found.source = source;
  try {
    const Json json = parse_json<Json>(text);
    found.keys = {text_member(json, "AccessKeyId"), text_member(json, "SecretAccessKey"),
                  text_member(json, token_name)};
    found.expires = parse_utc_time(text_member(json, "Expiration"));
  } catch (const std::exception&) {  // the library's message would quote the text
    found.keys = {};
  }
  if (found.keys.access_key_id.empty() || found.keys.secret_access_key.empty())
    throw UsageError(source + " gave no AccessKeyId and SecretAccessKey");
  return found;
}

}  // namespace

std::optional<Credentials> credentials_of_web_identity() {
  const std::string token_file = environment_text("AWS_WEB_IDENTITY_TOKEN_FILE"),
                    role = environment_text("AWS_ROLE_ARN");
  if (token_file.empty() || role.empty()) return std::nullopt;
  const std::string session = environment_text("AWS_ROLE_SESSION_NAME");
  std::string region = environment_text("AWS_REGION");
  if (region.empty()) region = environment_text("AWS_DEFAULT_REGION");
  std::string endpoint = environment_text("AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) {
    endpoint = region.empty() ? "https://sts.amazonaws.com"
                              : fmt::format("https://sts.{}.amazonaws.com{}", region,
                                            region.starts_with("cn-") ? ".cn" : "");
  }
  RequestToSign query;
  query.query = {{"Action", "AssumeRoleWithWebIdentity"},
                 {"Version", "2011-06-15"},
                 {"RoleArn", role},
                 {"RoleSessionName", session.empty() ? "weft-data" : session},
                 {"WebIdentityToken", std::string(trimmed(read_file(token_file)))}};
  const std::string source = "STS (AWS_WEB_IDENTITY_TOKEN_FILE)";
  const std::string answer =
      read_page(source, {.url = endpoint + "/?" + encoded_query(query), .headers = {}}, 5, 5);
  pugi::xml_document document;
  document.load_buffer(answer.data(), answer.size());
  const auto keys = document.child("AssumeRoleWithWebIdentityResponse")
                        .child("AssumeRoleWithWebIdentityResult")
                        .child("Credentials");
  Credentials found;
  found.source = source;
  found.keys = {keys.child_value("AccessKeyId"), keys.child_value("SecretAccessKey"),
                keys.child_value("SessionToken")};
  found.expires = parse_utc_time(keys.child_value("Expiration"));
  if (found.keys.secret_access_key.empty())
    throw UsageError(source + " gave no AccessKeyId and SecretAccessKey");
  return found;
}

std::optional<Credentials> credentials_of_program(const std::string& command,
                                                  const std::string& source) {
  // Standard input may be the corpus.
  const std::string shell_line = "exec </dev/null; " + command;
  std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(shell_line.c_str(), "re"), ::pclose);
  if (!output) throw std::system_error(errno, std::generic_category(), "credential_process");
  std::string text;
  std::array<char, 4096> block;
  while (const size_t got = std::fread(block.data(), 1, block.size(), output.get()))
    text.append(block.data(), got);
  const int status = ::pclose(output.release());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw UsageError("credential_process of " + source + " failed; run it by hand to see why");
  return credentials_of_json(text, "SessionToken", "credential_process of " + source);
}

bool is_allowed_for_container(const std::string& url) {
  if (is_https(url)) return true;
  if (url.find('@') != url.npos) return false;  // what is before it is no host
  for (const char* host :
       {"localhost", "127.0.0.1", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"}) {
    const std::string begin = std::string("http://") + host;
    if (!url.starts_with(begin)) continue;
    const std::string_view rest = std::string_view(url).substr(begin.size());
    if (rest.empty() || rest.front() == '/' || rest.front() == ':') return true;
  }
  return false;
}

std::optional<Credentials> credentials_of_container() {
  const std::string relative = environment_text("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
                    full = environment_text("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative.empty() && full.empty()) return std::nullopt;
  const std::string url = relative.empty() ? full : "http://169.254.170.2" + relative;
  if (!is_allowed_for_container(url)) {
    throw UsageError(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI: only https, this machine, 169.254.170.2, "
        "169.254.170.23 and fd00:ec2::23 may give keys");
  }
  // The file changes while a program runs.
  const std::string token_file = environment_text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const std::string token(trimmed(token_file.empty()
                                      ? environment_text("AWS_CONTAINER_AUTHORIZATION_TOKEN")
                                      : read_file(token_file)));
  RemoteRequest request{.url = url, .headers = {}};
  if (!token.empty()) request.headers.push_back("Authorization: " + token);
  const std::string source = "the container's service of credentials";
  return credentials_of_json(read_page(source, request, 5, 3), "Token", source);
}

std::optional<Credentials> credentials_of_instance() {
  if (is_switched_on("AWS_EC2_METADATA_DISABLED")) return std::nullopt;
  std::string at = environment_text("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (at.empty()) at = kInstanceService;
  while (at.ends_with('/')) at.pop_back();
  const std::string source = "the metadata service of EC2";
  const std::string path = at + "/latest/meta-data/iam/security-credentials/";
  std::vector<std::string> headers;
  std::string roles;
  try {
    const std::string token = read_page(source,
                                        {.url = at + "/latest/api/token",
                                         .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"},
                                         .method = "PUT"},
                                        1, 1);
    headers.push_back("X-aws-ec2-metadata-token: " + token);
    roles = read_page(source, {.url = path, .headers = headers}, 1, 1);
  } catch (const NetworkError&) {  // most machines are none of EC2's, or have no role
    return std::nullopt;
  }
  const std::string role(trimmed(roles.substr(0, roles.find('\n'))));
  if (role.empty()) return std::nullopt;
  return credentials_of_json(read_page(source, {.url = path + role, .headers = headers}, 1, 3),
                             "Token", source);
}

}  // namespace weft
