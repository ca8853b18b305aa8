// Files that name documents without loss.
#include "indexed_dataset/run_record/unseen_documents.h"

#include <gmock/gmock.h>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

class UnseenFile : public testing::Test {
 protected:
  UnseenFile() { write_dataset<uint16_t>(folder_ / "d", TokenType::kUInt16, {{1}, {2}, {3}}); }
  UnseenDocuments read(const std::string& text) const {
    write_file_atomically(folder_ / "unsee", text);
    return UnseenDocuments(folder_ / "unsee", {(folder_ / "d").string()}, folder_.path());
  }
  const TemporaryFolder folder_;
};

TEST_F(UnseenFile, NamesDocumentsInEachFormAlsoBehindAByteOrderMark) {
  for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
    for (const std::string text :
         {"d 1\n", "# found\n\n d\t1\r\n", R"({"document": 1, "dataset": "d"})",
          R"({"dataset": "d", "parts": [{"document": 1}]})",
          R"({"lm_loss": 9, "samples": [{"dataset": "d", "documents": [{"document": 1}]}]})"}) {
      const UnseenDocuments unseen = read(mark + text);
      EXPECT_EQ(unseen.num_documents(), 1) << text;
      const UnseenSequences* sequences = unseen.find((folder_ / "d").string());
      ASSERT_NE(sequences, nullptr) << text;
      EXPECT_TRUE(sequences->contains(1) && !sequences->contains(0) && !sequences->contains(2));
    }
  }
}

TEST_F(UnseenFile, ThatNamesNoDocumentIsRefused) {
  for (const std::string text :
       {"", "# nothing\n", R"({"lm_loss": 9, "samples": []})", R"({"lm_loss": 9, "unknown": "x"})"})
    EXPECT_THROW(read(text), std::invalid_argument) << text;
  for (const std::string text : {"d 3\n", "e 1\n", "d\n", R"({"dataset": "d"})", "a.jsonl:0\n"})
    EXPECT_THROW(read(text), std::runtime_error) << text;
}

}  // namespace
}  // namespace weft
