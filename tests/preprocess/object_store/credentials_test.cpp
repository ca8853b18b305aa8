#include "preprocess/object_store/credentials.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/object_store/aws_profile.h"
#include "preprocess/object_store/credential_services.h"
#include "preprocess/object_store/find_credentials.h"
#include "tests/temporary_folder.h"

extern char** environ;

namespace weft {
namespace {

// An environment without the user's own keys, and a home folder for AWS's files.
class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() {
    for (char** variable = environ; *variable != nullptr;) {
      const std::string name = std::string(*variable).substr(0, std::string(*variable).find('='));
      if (name.starts_with("AWS_") || name.starts_with("GS_")) {
        ::unsetenv(name.c_str());
        variable = environ;
      } else {
        ++variable;
      }
    }
    set("HOME", folder_.path().string());
    set("AWS_EC2_METADATA_DISABLED", "true");
    std::filesystem::create_directory(folder_.path() / ".aws");
  }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / ".aws" / name) << text;
  }
  static std::string found_key() { return find_credentials(false).keys.access_key_id; }

  TemporaryFolder folder_;
};

TEST_F(CredentialsTest, TheEnvironmentComesBeforeTheProfile) {
  write("credentials", "[default]\naws_access_key_id = filed\naws_secret_access_key=s\n");
  EXPECT_EQ(found_key(), "filed");
  set("AWS_ACCESS_KEY_ID", "given");
  EXPECT_THROW(found_key(), UsageError) << "a key without its secret";
  set("AWS_SECRET_ACCESS_KEY", "s");
  EXPECT_EQ(found_key(), "given");
}

TEST_F(CredentialsTest, ProfilesHaveKeysProgramsAndEndpoints) {
  write("config",
        "# mine\n[default]\nregion = eu-west-1 # near\n[profile train]\nregion=us-west-2\n"
        "services = minio\ncredential_process = echo '{\"Version\": 1, \"AccessKeyId\": \"made\", "
        "\"SecretAccessKey\": \"s\", \"SessionToken\": \"t\", "
        "\"Expiration\": \"2030-01-01T00:00:00Z\"}'\n[services minio]\ns3 =\n  endpoint_url = "
        "http://minio:9000\nsts =\n  endpoint_url = http://other\n"
        "[profile sso]\nsso_session = corporate\n");
  EXPECT_EQ(read_aws_profile().get("region"), "eu-west-1");
  set("AWS_PROFILE", "train");
  EXPECT_EQ(read_aws_profile().s3_endpoint, "http://minio:9000");
  const Credentials made = find_credentials(false);
  EXPECT_EQ(made.keys.access_key_id, "made");
  EXPECT_EQ(made.keys.session_token, "t");
  EXPECT_EQ(made.expires, 1893456000);
  set("AWS_PROFILE", "sso");
  try {
    found_key();
    FAIL() << "an SSO session gave keys";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("export-credentials --profile sso"),
              std::string::npos);
  }
  set("AWS_PROFILE", "nobody");
  EXPECT_THROW(found_key(), UsageError);
}

TEST_F(CredentialsTest, AProgramThatFailsOrPrintsNoKeysIsRefusedWithoutItsOutput) {
  for (const char* command :
       {"echo '{\"AccessKeyId\": \"secret-0815'", "echo secret-0815", "false"}) {
    write("config", std::string("[default]\ncredential_process = ") + command + "\n");
    try {
      found_key();
      FAIL() << command;
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).find("0815"), std::string::npos) << error.what();
    }
  }
}

TEST_F(CredentialsTest, WithoutAnyTheMessageNamesThePlaces) {
  EXPECT_THROW(found_key(), UsageError);
  EXPECT_THROW(find_credentials(true), UsageError);
  set("GS_ACCESS_KEY_ID", "google");
  set("GS_SECRET_ACCESS_KEY", "s");
  EXPECT_EQ(find_credentials(true).keys.access_key_id, "google");
  EXPECT_THROW(found_key(), UsageError) << "Google's keys are not AWS's";
}

TEST(Container, OnlyLocalAddressesMayBeUnencrypted) {
  for (const char* url : {"https://any", "http://localhost:1/x", "http://169.254.170.23/v1",
                          "http://[fd00:ec2::23]/v1"}) {
    EXPECT_TRUE(is_allowed_for_container(url)) << url;
  }
  for (const char* url : {"http://any", "http://localhost.evil.org/", "http://127.0.0.1@evil.org/",
                          "http://localhost:@evil.org/"})
    EXPECT_FALSE(is_allowed_for_container(url)) << url;
}

TEST(CachedCredentials, AreRenewedBeforeTheyExpireAndOutliveTrouble) {
  int64_t expires_in = 200;
  int num_asked = 0;
  bool fails = false;
  CachedCredentials cached([&]() -> Credentials {
    ++num_asked;
    if (fails) throw NetworkError("no answer");
    return {{"id", "s", std::to_string(num_asked)}, std::time(nullptr) + expires_in, "test"};
  });
  cached.get();
  EXPECT_EQ(cached.get().keys.session_token, "1") << "asked again at once";
  EXPECT_TRUE(cached.replace());
  EXPECT_TRUE(cached.replace()) << "an answer to a request from before";
  EXPECT_EQ(num_asked, 2);

  expires_in = -1;  // they have expired: now each call asks, and fails where the source does
  CachedCredentials expired([&]() -> Credentials {
    if (fails) throw NetworkError("no answer");
    return {{"id", "s", ""}, std::time(nullptr) + expires_in, "test"};
  });
  expired.get();
  EXPECT_FALSE(expired.replace()) << "the same keys once more";
  fails = true;
  EXPECT_THROW(expired.get(), NetworkError);
}

TEST(UtcTime, IsReadAsServicesWriteIt) {
  EXPECT_EQ(parse_utc_time("1970-01-02T00:00:00Z"), 86400);
  EXPECT_EQ(parse_utc_time("1970-01-02T00:00:00.123+00:00"), 86400);
  EXPECT_EQ(parse_utc_time("1970-01-02T00:00:00+02:00"), std::nullopt);
  EXPECT_EQ(parse_utc_time("tomorrow"), std::nullopt);
}

}  // namespace
}  // namespace weft
