#include "indexed_dataset/format/sidecars/tokenizer_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

constexpr char kMerges[] = "#version: 0.2\na b\nab c\n";

class TokenizerFilesTest : public testing::Test {
 protected:
  TokenizerFiles files_with(const std::string& merges, const std::string& vocab = "{}") {
    write_file_atomically(folder_ / "vocab.json", vocab);
    write_file_atomically(folder_ / "merges.txt", merges);
    return with_checksums(gpt2_files(folder_ / "vocab.json", folder_ / "merges.txt"));
  }

  TemporaryFolder folder_;
};

TEST_F(TokenizerFilesTest, HaveTheSha256ThatSha256sumPrints) {
  const TokenizerFiles files = files_with(kMerges);
  EXPECT_EQ(files.files[0].sha256, sha256_of("{}"));
  EXPECT_EQ(files.files[1].sha256, sha256_of(kMerges));
  EXPECT_TRUE(files.has_checksums());
}

TEST_F(TokenizerFilesTest, MergesCountAsTheyAreRead) {
  const std::string id = id_of(files_with(kMerges));
  for (const char* same : {"a b\nab c\n", "a b\nab c", "#version: 0.2\r\na b\r\nab c\r\n",
                           "\xEF\xBB\xBF#version: 0.2\na b\nab c\n",
                           "\xEF\xBB\xBF"
                           "a b\r\nab c"}) {
    EXPECT_EQ(id_of(files_with(same)), id) << same;
    EXPECT_FALSE(are_different(files_with(kMerges), files_with(same))) << same;
  }
  const TokenizerFiles first = files_with(kMerges);
  for (const char* other : {"ab c\na b\n", "a b\n", "a b\nab c\nx y\n", "a b\n\nab c\n", ""}) {
    EXPECT_NE(id_of(files_with(other)), id) << other;
    EXPECT_TRUE(are_different(first, files_with(other))) << other;
  }
  EXPECT_NE(id_of(files_with(kMerges, "{\"a\": 0}")), id);
}

TEST_F(TokenizerFilesTest, WhatIsNotKnownIsNoDifference) {
  const TokenizerFiles known = files_with(kMerges);
  EXPECT_FALSE(are_different(known, {}));
  TokenizerFiles partly = known;
  partly.files[1] = {};
  EXPECT_FALSE(are_different(known, partly));
  EXPECT_FALSE(partly.has_checksums());
  partly.files[0].sha256 = "0";
  EXPECT_TRUE(are_different(known, partly));
  EXPECT_TRUE(gpt2_files("", "").empty());
  EXPECT_EQ(id_of({}), "");
  EXPECT_EQ(id_of(gpt2_files("v", "m")), "");
}

TEST_F(TokenizerFilesTest, ComeBackFromJson) {
  const TokenizerFiles files = files_with(kMerges);
  EXPECT_EQ(tokenizer_files_from(to_json(files)), files);
  EXPECT_EQ(to_json(files)["id"], id_of(files));
  EXPECT_EQ(tokenizer_files_from(to_json(TokenizerFiles())), TokenizerFiles());
  for (const char* other :
       {"null", "[]", R"({"kind": "gpt2"})", R"({"kind": "gpt2", "files": 1})",
        R"({"kind": "gpt2", "files": [1]})", R"({"kind": "other", "files": [{}, {}]})"}) {
    EXPECT_TRUE(tokenizer_files_from(nlohmann::ordered_json::parse(other)).empty()) << other;
  }
}

TEST_F(TokenizerFilesTest, OtherKindsHaveOneFile) {
  write_file_atomically(folder_ / "tokenizer.json", "{}");
  for (const char* kind : {"huggingface", "tekken", "tiktoken", "tiktoken:cl100k"}) {
    const TokenizerFiles files = with_checksums(tokenizer_file(kind, folder_ / "tokenizer.json"));
    EXPECT_EQ(tokenizer_files_from(to_json(files)), files);
    EXPECT_TRUE(id_of(files).starts_with(kind));
    TokenizerFiles two = files;
    two.files.push_back(two.files[0]);
    EXPECT_TRUE(tokenizer_files_from(to_json(two)).empty());
  }
  EXPECT_EQ(tiktoken_pattern(tokenizer_file("tiktoken:v2", "x")), "v2");
  EXPECT_EQ(tiktoken_pattern(tokenizer_file("tiktoken", "x")), "");
  EXPECT_TRUE(are_different(tokenizer_file("tiktoken:v1", "x"), tokenizer_file("tiktoken", "x")))
      << "another pattern makes another tokenizer";
}

TEST_F(TokenizerFilesTest, AnAbsentFileIsAnError) {
  EXPECT_THROW(with_checksums(gpt2_files(folder_ / "vocab.json", "")), std::system_error);
}

}  // namespace
}  // namespace weft
