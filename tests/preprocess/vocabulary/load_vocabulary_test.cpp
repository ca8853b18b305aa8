#include "preprocess/vocabulary/load_vocabulary.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "preprocess/vocabulary/find_tokenizer.h"
#include "tests/temporary_folder.h"
#include "tokenizer/formats/learned_files.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class LoadVocabulary : public testing::Test {
 protected:
  LoadVocabulary() {
    VocabularyTrainer trainer;
    trainer.add_text("abc abc abc");
    learned_ = trainer.train(260, 1);
    write_file_atomically(folder_ / "vocab.json", vocab_json_of(learned_));
    write_file_atomically(folder_ / "merges.txt", merges_txt_of(learned_));
  }
  TokenizerFiles files() const {
    return gpt2_files(folder_ / "vocab.json", folder_ / "merges.txt");
  }

  TemporaryFolder folder_;
  LearnedVocabulary learned_;
};

TEST_F(LoadVocabulary, ReadsFilesThatAnEditorHasMarked) {
  EXPECT_EQ(load_vocabulary(files())->size(), 260);
  write_file_atomically(folder_ / "vocab.json", "\xEF\xBB\xBF" + vocab_json_of(learned_));
  write_file_atomically(folder_ / "merges.txt", "\xEF\xBB\xBF" + merges_txt_of(learned_));
  const auto vocabulary = load_vocabulary(files());
  EXPECT_EQ(vocabulary->size(), 260);
  EXPECT_EQ(vocabulary->merges().size(), 3u);
}

TEST_F(LoadVocabulary, NamesAFileThatCannotBeRead) {
  EXPECT_THAT([&] { load_vocabulary(gpt2_files("absent.json", folder_ / "merges.txt")); },
              ThrowsMessage<std::system_error>(HasSubstr("absent.json")));
  EXPECT_THROW(load_vocabulary(gpt2_files(folder_.path(), folder_.path())), std::system_error);
}

TEST_F(LoadVocabulary, FilesAreFoundWhereTheyAreGivenOrInTheNamedFolder) {
  EXPECT_EQ(find_tokenizer_files(gpt2_files("x/v", "x/m")), gpt2_files("x/v", "x/m"));
  const char* before = std::getenv("WEFT_GPT2_DIR");
  const std::string saved = before ? before : "";
  setenv("WEFT_GPT2_DIR", folder_.path().c_str(), 1);
  const auto found = find_tokenizer_files({});
  setenv("WEFT_GPT2_DIR", (folder_ / "mistyped").c_str(), 1);
  EXPECT_THROW(find_tokenizer_files({}), std::invalid_argument);
  setenv("WEFT_GPT2_DIR", saved.c_str(), 1);
  EXPECT_EQ(found, files());
}

TEST_F(LoadVocabulary, AFolderHasTheFirstOfTheFilesThatTokenizersAreReadFrom) {
  EXPECT_EQ(find_tokenizer(folder_.path()), files());
  EXPECT_THROW(find_tokenizer(folder_ / "absent"), std::invalid_argument);
  std::filesystem::create_directory(folder_ / "ranks");
  EXPECT_THROW(find_tokenizer(folder_ / "ranks"), std::invalid_argument) << "it holds nothing";
  write_file_atomically(folder_ / "ranks/a.tiktoken", "IQ== 0\n");
  EXPECT_EQ(find_tokenizer(folder_ / "ranks"),
            tokenizer_file(kTiktokenKind, folder_ / "ranks/a.tiktoken"));
  write_file_atomically(folder_ / "ranks/b.tiktoken", "IQ== 0\n");
  EXPECT_THAT([&] { find_tokenizer(folder_ / "ranks"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("a.tiktoken and b.tiktoken")));
  write_file_atomically(folder_ / "ranks/tekken.json",
                        R"({"special_tokens": [")" + std::string(9000, 'x') +
                            R"("], "vocab": [], "config": {"default_vocab_size": 3}})");
  EXPECT_EQ(find_tokenizer(folder_ / "ranks"),
            tokenizer_file(kTekkenKind, folder_ / "ranks/tekken.json"));
  write_file_atomically(folder_ / "tokenizer.json", "\xEF\xBB\xBF {\"version\": \"1.0\"}");
  EXPECT_EQ(find_tokenizer(folder_.path()),
            tokenizer_file(kHuggingFaceKind, folder_ / "tokenizer.json"));
}

TEST_F(LoadVocabulary, AModelIsFoundInTheCacheOfTheHub) {
  const std::filesystem::path model = folder_ / "hub/models--owner--model";
  for (const char* revision : {"old", "new"}) {
    std::filesystem::create_directories(model / "snapshots" / revision);
    write_file_atomically(model / "snapshots" / revision / "tokenizer.json",
                          R"({"version": "1.0"})");
  }
  setenv("HF_HUB_CACHE", (folder_ / "hub").c_str(), 1);
  EXPECT_THROW(find_tokenizer("owner/model"), std::invalid_argument) << "which of the two?";
  std::filesystem::create_directory(model / "refs");
  write_file_atomically(model / "refs/main", "new\n");
  const auto found = find_tokenizer("owner/model");
  EXPECT_THROW(find_tokenizer("owner/model/file"), std::invalid_argument);
  unsetenv("HF_HUB_CACHE");
  EXPECT_EQ(found, tokenizer_file(kHuggingFaceKind, model / "snapshots/new/tokenizer.json"));
}

TEST_F(LoadVocabulary, TheTokenThatEndsDocumentsIsNamedByTextOrId) {
  const auto vocabulary = load_vocabulary(files());
  EXPECT_EQ(resolve_end_of_document(*vocabulary, ""), 259);
  EXPECT_EQ(resolve_end_of_document(*vocabulary, "<|endoftext|>"), 259);
  EXPECT_EQ(resolve_end_of_document(*vocabulary, "abc"), 257);
  EXPECT_EQ(resolve_end_of_document(*vocabulary, "200"), 200);
  for (const char* wrong : {"260", "-1", "x y"})
    EXPECT_THROW(resolve_end_of_document(*vocabulary, wrong), std::invalid_argument) << wrong;
}

}  // namespace
}  // namespace weft
