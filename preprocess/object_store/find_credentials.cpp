#include "preprocess/object_store/find_credentials.h"

#include "indexed_dataset/base/process/environment.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/object_store/aws_profile.h"
#include "preprocess/object_store/credential_services.h"

namespace weft {
namespace {

SigningKeys keys_of_environment(const std::string& id_variable,
                                const std::string& secret_variable) {
  SigningKeys keys;
  keys.access_key_id = environment_text(id_variable.c_str());
  keys.secret_access_key = environment_text(secret_variable.c_str());
  if (keys.access_key_id.empty() != keys.secret_access_key.empty())
    throw UsageError(id_variable + " and " + secret_variable + ": one is set without the other");
  return keys;
}

std::optional<Credentials> credentials_of_profile() {
  const AwsProfile profile = read_aws_profile();
  Credentials found;
  found.source = "the profile '" + profile.name + "'";
  found.keys.access_key_id = profile.get("aws_access_key_id");
  found.keys.secret_access_key = profile.get("aws_secret_access_key");
  found.keys.session_token = profile.get("aws_session_token");
  if (!found.keys.access_key_id.empty() && !found.keys.secret_access_key.empty()) return found;
  if (const std::string command = profile.get("credential_process"); !command.empty())
    return credentials_of_program(command, found.source);
  for (const char* setting :
       {"role_arn", "sso_session", "sso_start_url", "sso_account_id", "login_session"}) {
    if (profile.get(setting).empty()) continue;
    throw UsageError(found.source + " has " + setting +
                     ", which only the AWS CLI can follow; give a profile of its own the line "
                     "credential_process = aws configure export-credentials --profile " +
                     profile.name + " --format process");
  }
  return std::nullopt;
}

}  // namespace

Credentials find_credentials(bool is_google) {
  Credentials found;
  if (is_google) {
    found.keys = keys_of_environment("GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY");
    found.source = "GS_ACCESS_KEY_ID";
    if (!found.keys.access_key_id.empty()) return found;
    throw UsageError(
        "no keys for gs:// addresses: set GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY to an HMAC key "
        "of Cloud Storage (gcloud storage hmac create), or read a public bucket with "
        "--s3-unsigned");
  }
  found.keys = keys_of_environment("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
  found.keys.session_token = environment_text("AWS_SESSION_TOKEN");
  found.source = "AWS_ACCESS_KEY_ID";
  if (!found.keys.access_key_id.empty()) return found;
  for (const auto source : {credentials_of_web_identity, credentials_of_profile,
                            credentials_of_container, credentials_of_instance}) {
    if (auto credentials = source()) return *credentials;
  }
  throw UsageError(
      "no AWS credentials found: neither in the environment (AWS_ACCESS_KEY_ID and "
      "AWS_SECRET_ACCESS_KEY) nor in a profile (AWS_PROFILE, aws configure) nor from this machine's "
      "role; a public bucket is read with --s3-unsigned");
}

}  // namespace weft
