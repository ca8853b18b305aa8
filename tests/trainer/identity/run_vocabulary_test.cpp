// Where a run finds its vocabulary, and the token that ends documents.
#include "trainer/identity/run_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "tests/indexed_dataset/nested_json.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/small_run.h"
#include "tokenizer/vocabulary.h"

namespace weft {
namespace {

using testing::HasSubstr;

// Points the environment's vocabularies at `folder` while it lives.
struct Environment {
  explicit Environment(const std::string& folder) {
    setenv("WEFT_GPT2_DIR", folder.c_str(), 1);
    setenv("HOME", folder.c_str(), 1);
  }
  ~Environment() {
    gpt2 ? setenv("WEFT_GPT2_DIR", gpt2->c_str(), 1) : unsetenv("WEFT_GPT2_DIR");
    if (home) setenv("HOME", home->c_str(), 1);
  }
  static std::optional<std::string> get(const char* name) {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  }
  std::optional<std::string> gpt2 = get("WEFT_GPT2_DIR"), home = get("HOME");
};

TEST(RunVocabulary, EndsDocumentsWithTheTokenOfTheTokenizer) {
  EXPECT_EQ(kGpt2EndOfDocument, kEndOfText);
}

TEST(RunVocabulary, ComesFromTheMostParticularSource) {
  const TemporaryFolder folder;
  const Environment environment((folder / "environment").string());
  Config config = base_config();
  config.paths.data_path = {(folder / "data").string()};
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument);

  std::filesystem::create_directories(folder / "environment/.cache/weft/gpt2");
  write_file_atomically(folder / "environment/.cache/weft/gpt2/vocab.json", R"({"a":0})");
  // If WEFT_GPT2_DIR is set, no other folder is searched: a mistyped name must not mean another
  // one.
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument);
  unsetenv("WEFT_GPT2_DIR");
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 1);
  setenv("WEFT_GPT2_DIR", (folder / "environment").c_str(), 1);
  write_file_atomically(folder / "environment/vocab.json", R"({"a":0,"b":1})");
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 2);
  write_file_atomically(folder / "data.manifest.json", R"({"vocabulary":{"size":3}})");
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 3);
  EXPECT_EQ(find_run_vocabulary(config).source, (folder / "data.manifest.json").string());
  config.vocab_file = (folder / "vocab.json").string();
  EXPECT_THROW(find_run_vocabulary(config), std::system_error);
  write_file_atomically(folder / "vocab.json", R"({"a":0,"b":1,"c":2,"<|endoftext|>":3})");
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 4);
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 3);
  config.vocab_size = 50257;
  EXPECT_EQ(find_run_vocabulary(config).num_tokens, 50257);
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 3) << "the dataset's, all the same";
}

TEST(RunVocabulary, OfAnyTokenizerComesFromTheManifest) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.paths.data_path = {(folder / "data").string()};
  write_file_atomically(folder / "data.manifest.json",
                        R"({"vocabulary":{"size":70000,"end_of_document":2,"tokenizer":
                            {"kind":"huggingface","files":[{"path":"/t","sha256":"0a"}]}}})");
  const RunVocabulary found = find_run_vocabulary(config);
  EXPECT_EQ(found.num_tokens, 70000);
  EXPECT_EQ(found.end_of_document, 2);
  EXPECT_EQ(found.tokenizer.kind, "huggingface");
  EXPECT_EQ(config.padded_vocab_size(found.num_tokens) % config.make_vocab_size_divisible_by, 0);
  write_file_atomically(folder / "vocab.json", R"({"a":0})");
  config.vocab_file = (folder / "vocab.json").string();
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument) << "a file of another kind";
}

TEST(RunVocabulary, TheTokenThatEndsDocumentsNeedNotBeTheLast) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.paths.data_path = {(folder / "data").string()};
  config.vocab_file = (folder / "vocab.json").string();
  write_file_atomically(folder / "vocab.json", R"({"<|endoftext|>":0,"a":1,"b":2,"c":3})");
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 0);
  write_file_atomically(folder / "data.manifest.json",
                        R"({"vocabulary":{"size":4,"end_of_document":1}})");
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 1) << "the dataset knows best";
  config.vocab_file.clear();
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 1);
  config.eod_token_id = 2;
  EXPECT_EQ(find_run_vocabulary(config).end_of_document, 2);
  config.eod_token_id = 4;
  EXPECT_THAT([&] { find_run_vocabulary(config); },
              testing::ThrowsMessage<std::invalid_argument>(
                  HasSubstr("the end-of-document token 4, that of --eod-token-id, is outside")));
  config.eod_token_id.reset();
  for (const char* unknown : {"null", "-1", "4", "\"2\"", "18446744073709551615", "1.5"}) {
    write_file_atomically(
        folder / "data.manifest.json",
        R"({"vocabulary":{"size":4,"end_of_document":)" + std::string(unknown) + "}}");
    EXPECT_EQ(find_run_vocabulary(config).end_of_document, 3) << unknown;
  }
}

TEST(RunVocabulary, AnotherFileThanTheDatasetsIsRefused) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.paths.data_path = {(folder / "data").string()};
  write_file_atomically(folder / "right.json", R"({"a":0,"b":1})");
  write_file_atomically(folder / "wrong.json", R"({"a":0,"c":1})");
  const std::string sha256 = sha256_of_file(folder / "right.json");
  write_file_atomically(folder / "data.manifest.json",
                        R"({"vocabulary":{"size":2,"tokenizer":{"kind":"gpt2","files":[)"
                        R"({"path":"/v.json","sha256":")" +
                            sha256 + R"("},{"path":"/m.txt","sha256":"00"}]}}})");
  EXPECT_EQ(find_run_vocabulary(config).tokenizer.files[0].sha256, sha256);
  EXPECT_EQ(find_run_vocabulary(config).tokenizer.files[1].path, "/m.txt");
  config.vocab_file = (folder / "right.json").string();
  EXPECT_EQ(find_run_vocabulary(config).tokenizer.files[0].sha256, sha256);
  EXPECT_EQ(find_run_vocabulary(config).tokenizer.files[1].sha256, "00");
  config.vocab_file = (folder / "wrong.json").string();
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument);
  config.vocab_file.clear();
  config.vocab_size = 1;
  EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument);
  config.vocab_size = 3;
  EXPECT_EQ(find_run_vocabulary(config).tokenizer.files[0].sha256, sha256);
}

TEST(RunVocabulary, AFileThatIsNoVocabularyIsBadInput) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.vocab_file = (folder / "vocab.json").string();
  write_file_atomically(config.vocab_file, "[1, 2]");
  EXPECT_THROW(find_run_vocabulary(config), std::runtime_error);
  write_file_atomically(config.vocab_file, "{\"a\":");
  EXPECT_THROW(find_run_vocabulary(config), std::runtime_error);
  write_file_atomically(config.vocab_file, "{\"a\": " + nested_json(200'000) + "}");
  EXPECT_THROW(find_run_vocabulary(config), std::runtime_error);
}

TEST(RunVocabulary, IsNotTakenFromAManifestThatDoesNotSay) {
  const TemporaryFolder folder;
  const Environment environment((folder / "environment").string());
  Config config = base_config();
  config.paths.data_path = {(folder / "data").string()};
  const auto manifest = folder / "data.manifest.json";
  for (const char* text : {"[]", R"({"vocabulary": 3})", R"({"vocabulary": {"size": "big"}})"}) {
    write_file_atomically(manifest, text);
    EXPECT_THROW(find_run_vocabulary(config), std::invalid_argument) << text;
  }
  write_file_atomically(manifest, nested_json(200'000));
  EXPECT_THROW(find_run_vocabulary(config), std::runtime_error);
}

TEST(DatasetPrefix, LeavesOutWeightAndSuffix) {
  Config config = base_config();
  config.paths.data_path = {"1.0", "folder/data_text_document.bin"};
  EXPECT_THAT(dataset_prefixes(config), testing::ElementsAre("folder/data_text_document"));
}

}  // namespace
}  // namespace weft
