#include "preprocess/vocabulary/load_vocabulary.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"
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
    write_file_atomically(folder_ / "vocab.json", learned_.vocab_json);
    write_file_atomically(folder_ / "merges.txt", learned_.merges_txt);
  }
  TokenizerFiles files() const {
    return gpt2_files(folder_ / "vocab.json", folder_ / "merges.txt");
  }

  TemporaryFolder folder_;
  LearnedVocabulary learned_;
};

TEST_F(LoadVocabulary, ReadsFilesThatAnEditorHasMarked) {
  EXPECT_EQ(load_vocabulary(files())->size(), 260);
  write_file_atomically(folder_ / "vocab.json", "\xEF\xBB\xBF" + learned_.vocab_json);
  write_file_atomically(folder_ / "merges.txt", "\xEF\xBB\xBF" + learned_.merges_txt);
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

}  // namespace
}  // namespace weft
