// weft-train --unsee FILE: announcements, and lines that name nothing. inspect_tokens_test.cpp
// compares the masks that a step gets with what inspect shows.
#include <gmock/gmock.h>

#include "indexed_dataset/run_record/unseen_documents.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

class Unsee : public Training {
 protected:
  std::string write(const std::string& lines) const {
    const std::string file = (folder_ / "unsee").string();
    write_file_atomically(file, lines);
    return file;
  }
};

TEST_F(Unsee, AnotherFileOnResumeIsAnnounced) {
  const std::string file = write(prefix_ + " 1\n");
  const auto until = [&](const std::string& iteration) {
    return arguments("run", 12, {"--unsee", file, "--exit-interval", iteration});
  };
  ASSERT_EQ(run(until("3")), 0) << output();
  EXPECT_THAT(output(), HasSubstr("1 documents, whose tokens have no loss in training (SHA-256 "));
  ASSERT_EQ(run(until("6")), 0) << output();
  EXPECT_THAT(output(), testing::Not(HasSubstr("--unsee was")));
  write(prefix_ + " 2\n");
  ASSERT_EQ(run(until("9")), 0) << output();
  EXPECT_THAT(output(), HasSubstr("--unsee was a file with SHA-256 "));
  const auto manifest = nlohmann::json::parse(read_file(folder_ / "run/run_manifest.json"));
  ASSERT_EQ(manifest.at("earlier").size(), 2U);
  EXPECT_EQ(manifest.at("earlier")[1].at("unsee"), "unchanged");
  EXPECT_NE(manifest.at("unsee").at("sha256"), manifest.at("earlier")[0].at("unsee").at("sha256"));
  EXPECT_EQ(manifest.at("unsee").at("path"), file);
  ASSERT_EQ(run(arguments("run", 12)), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" and is none now"));
}

TEST_F(Unsee, LinesNameDocumentsOfTheRunsDatasets) {
  const std::string other = write_tiny_dataset(folder_ / "other", 40);
  const auto unseen = [&](const std::string& line, const std::vector<std::string>& prefixes) {
    return UnseenDocuments(write(line + "\n"), prefixes, folder_.path());
  };
  const auto several = unseen("# two of them\nother 7\n" + prefix_ + "\t8\n", {prefix_, other});
  EXPECT_EQ(several.num_documents(), 2);
  EXPECT_TRUE(several.find(other)->contains(7));
  EXPECT_TRUE(several.find(prefix_)->contains(8));
  // A run with one dataset does not name it.
  const std::string part = R"({"document": 6})";
  EXPECT_TRUE(unseen(part, {prefix_}).find(prefix_)->contains(6));
  try {
    unseen(part, {prefix_, other});
    ADD_FAILURE() << "a document of an unknown dataset was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("it does not name the dataset, of which the run has several"));
  }
}

TEST_F(Unsee, AFileThatNamesNoDocumentIsWrongUsage) {
  for (const char* text : {"", "# none\n\n", R"({"lm_loss": 9, "samples": []})"}) {
    const std::string file = write(text);
    EXPECT_EQ(run(arguments("run", 12, {"--unsee", file})), 2) << text << output();
    EXPECT_THAT(output(), HasSubstr("--unsee " + file + ": it names no document"));
  }
}

TEST_F(Unsee, LinesThatNameNoDocumentAreRefused) {
  for (const auto& [line, why] : std::vector<std::pair<std::string, std::string>>{
           {"nonsense", "it names no document; give PREFIX NUMBER, FILE:OFFSET"},
           {prefix_ + " 300", "has no document 300, there are 300 (from 0)"},
           {prefix_ + " -1", "has no document -1"},
           {"absent 1", "the run has no dataset absent; it has "},
           {"document 4 of absent, 12 tokens", "it names no document"},
           {"corpus.jsonl:17", "no dataset of the run was made of corpus.jsonl; no source map"},
           {R"({"dataset": 5})", "not an object with \"dataset\" and \"document\""},
           {R"({"document": 18446744073709551615})",
            "\"document\": an integer was expected, not 18446744073709551615"},
           {R"({"document": 7.5})", "\"document\": an integer was expected, not 7.5"}}) {
    const std::string file = write("# first\n" + prefix_ + " 7\n" + line + "\n");
    EXPECT_EQ(run(arguments("run", 12, {"--unsee", file})), 3) << line << output();
    EXPECT_THAT(output(), HasSubstr(file + ", line 3: "));
    EXPECT_THAT(output(), HasSubstr(why));
  }
  EXPECT_EQ(run(arguments("run", 12, {"--unsee", (folder_ / "gone").string()})), 4) << output();
}

}  // namespace
}  // namespace weft
