// Runs whose positions restart and whose attention ends with the documents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/format/pair/reader.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kBoth = {"--reset-position-ids", "--reset-attention-mask"};

class Documents : public Training {
 protected:
};

TEST_F(Documents, StoppedAnywhereARunEndsWithTheSameBits) {
  const Arguments more = with(kBoth, {"--attention-dropout", "0.1", "--eod-mask-loss"});
  ASSERT_EQ(run(arguments("whole", 12, more)), 0) << output();
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(run(arguments("pieces", 12, with(more, {"--exit-interval", "5"}))), 0) << output();
  EXPECT_EQ(trajectory("pieces"), trajectory("whole"));
}

TEST_F(Documents, EachFlagChangesTheTraining) {
  const std::vector<Arguments> variants = {{}, {kBoth[0]}, {kBoth[1]}, kBoth};
  std::vector<std::vector<std::string>> trajectories;
  for (size_t i = 0; i < variants.size(); ++i) {
    const std::string name = "run" + std::to_string(i);
    ASSERT_EQ(run(arguments(name, 4, variants[i])), 0) << output();
    for (const auto& other : trajectories) EXPECT_NE(trajectory(name), other);
    trajectories.push_back(trajectory(name));
  }
  // The documents of this dataset end with the token.
  ASSERT_EQ(run(arguments("core", 4, {"--dataloader-inter-document-masking"})), 0) << output();
  EXPECT_EQ(trajectory("core"), trajectories.back());
}

// Rows of a curriculum, too: what a document is follows from the row.
TEST_F(Documents, MicroBatchesDoNotChangeWhatAStepSees) {
  const Arguments more =
      with(kBoth, {"--curriculum-schedule-type", "fixed_linear", "--curriculum-min-difficulty", "8",
                   "--curriculum-total-step", "6", "--curriculum-difficulty-step", "8"});
  ASSERT_EQ(run(arguments("two", 8, more)), 0) << output();
  ASSERT_EQ(run(arguments("one", 8, with(more, {"--micro-batch-size", "1"}))), 0) << output();
  const auto two = metrics("two"), one = metrics("one");
  ASSERT_EQ(two.size(), one.size());
  int num_compared = 0;
  for (size_t i = 0; i < two.size(); ++i) {
    if (!two[i].contains("lm_loss")) continue;
    const double loss = two[i].at("lm_loss");
    EXPECT_NEAR(one[i].at("lm_loss").get<double>(), loss, 1e-5 * loss);
    ++num_compared;
  }
  EXPECT_GE(num_compared, 8);
}

TEST_F(Documents, AChangedFlagIsToldOnResume) {
  ASSERT_EQ(run(arguments("run", 12, {"--exit-interval", "5"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 12, kBoth)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("--reset-position-ids was false when the checkpoint was saved "
                                  "and is true now: the run goes on with the new value"));
  EXPECT_THAT(output(), HasSubstr("--reset-attention-mask was false when"));
}

TEST_F(Documents, TheDryRunPlansTheirBounds) {
  ASSERT_EQ(run(arguments("run", 12, with(kBoth, {"--dry-run", "--verbose"}))), 0) << output();
  EXPECT_THAT(output(), HasSubstr("document bounds"));
  ASSERT_EQ(run(arguments("run", 12, {"--dry-run", "--verbose"})), 0) << output();
  EXPECT_THAT(output(), testing::Not(HasSubstr("document bounds")));
}

TEST_F(Documents, TwoMeaningsOfADocumentAreRefused) {
  ASSERT_EQ(run(arguments("run", 12, with(kBoth, {"--dataloader-inter-document-masking"}))), 2);
  EXPECT_THAT(output(), HasSubstr("give the one or the others"));
}

TEST_F(Documents, EndWithTheDatasetsTokenWhateverTheVocabSize) {
  write_file_atomically(prefix_ + ".manifest.json", R"({"vocabulary":{"size":64}})");
  const Arguments larger = {"--vocab-size", "67"};
  ASSERT_EQ(run(arguments("tokens", 4, with(kBoth, larger))), 0) << output();
  ASSERT_EQ(run(arguments("core", 4, with({"--dataloader-inter-document-masking"}, larger))), 0);
  ASSERT_EQ(run(arguments("without", 4, larger)), 0) << output();
  EXPECT_EQ(trajectory("tokens"), trajectory("core"));
  EXPECT_NE(trajectory("tokens"), trajectory("without"));
}

TEST_F(Documents, WhoseEndIsNotFoundAreRefused) {
  for (const char* flag : {"--reset-position-ids", "--reset-attention-mask", "--eod-mask-loss"}) {
    for (const Arguments& more : {Arguments{}, Arguments{"--dry-run"}}) {
      EXPECT_EQ(run(arguments("run", 4, with({flag, "--vocab-size", "67"}, more))), 2);
      EXPECT_THAT(output(), HasSubstr(std::string(flag) +
                                      " looks for the end-of-document token 66, "
                                      "the last one of --vocab-size, but no document of"));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/metrics.jsonl"));
}

TEST_F(Documents, WhoseEndIsNamedNeedNotEndWithTheLastToken) {
  ASSERT_EQ(
      run(arguments("tokens", 4, with(kBoth, {"--vocab-size", "67", "--eod-token-id", "63"}))), 0)
      << output();
  EXPECT_THAT(output(), HasSubstr("documents end with token 63, that of --eod-token-id"));
  ASSERT_EQ(
      run(arguments("core", 4, {"--dataloader-inter-document-masking", "--vocab-size", "67"})), 0);
  EXPECT_EQ(trajectory("tokens"), trajectory("core"));
  const auto manifest = nlohmann::json::parse(read_file(folder_ / "tokens/run_manifest.json"));
  EXPECT_EQ(manifest.at("vocabulary").at("end_of_document"), 63);
}

TEST_F(Documents, WhoseEndChangesOnResumeAreRefusedUnlessItIsNamed) {
  const DatasetReader reader(prefix_);
  std::fstream bin(prefix_ + ".bin", std::ios::binary | std::ios::in | std::ios::out);
  bin.seekp(2 * (reader.length(0) - 1));
  bin.write("\x3e", 1);  // one document ends with token 62
  bin.close();
  const Arguments larger = with(kBoth, {"--vocab-size", "67"});
  const Arguments named = with(larger, {"--eod-token-id", "62"});
  ASSERT_EQ(run(arguments("run", 12, with(named, {"--exit-interval", "5"}))), 0) << output();
  write_file_atomically(prefix_ + ".manifest.json", R"({"vocabulary":{"size":64}})");
  EXPECT_EQ(run(arguments("run", 12, larger)), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), HasSubstr("documents ended with token 62, that of --eod-token-id, when the "
                                  "checkpoint was saved and end with token 63, the last one of"));
  EXPECT_EQ(run(arguments("run", 12, with(named, {"--exit-interval", "5"}))), 0) << output();
  EXPECT_THAT(output(), testing::Not(HasSubstr("the run goes on with the new")));
  EXPECT_EQ(run(arguments("run", 12, with(larger, {"--eod-token-id", "63"}))), 0) << output();
  EXPECT_THAT(output(), HasSubstr("63, that of --eod-token-id, now: the run goes on with the new"));
}

// Documents without an end run into the next ones, and nothing else tells of it.
TEST_F(Documents, ThatDoNotEndWithTheTokenAreNamedByDataset) {
  const std::string without = (folder_ / "without").string(), part = (folder_ / "part").string();
  const auto write = [](const std::string& prefix, int num_without, int num_with) {
    DatasetWriter writer(prefix, TokenType::kUInt16);
    for (int d = 0; d < num_without + num_with; ++d) {
      std::vector<uint16_t> tokens(40, static_cast<uint16_t>(d % 60));
      if (d >= num_without) tokens.back() = 63;
      const int32_t length = 40;
      writer.append_documents(std::as_bytes(std::span(tokens)), {&length, 1});
    }
    writer.finish();
  };
  write(without, 70, 0);
  write(part, 64, 3);
  const Arguments flag = {"--eod-mask-loss", "--dry-run", "--data-path"};
  ASSERT_EQ(run(arguments("run", 4, with(flag, {prefix_, without}))), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("WARNING: --eod-mask-loss looks for the end-of-document token 63"));
  EXPECT_THAT(output(), HasSubstr("no document of " + without + " ends with it"));
  // The order of a dataset's parts decides nothing.
  ASSERT_EQ(run(arguments("run", 4, with(flag, {part}))), 0) << output();
  EXPECT_THAT(output(), HasSubstr(part + " (3 of 67)"));
  // A validation set does not help the training.
  Arguments split = arguments(
      "run", 4,
      {"--eod-mask-loss", "--dry-run", "--train-data-path", without, "--valid-data-path", prefix_});
  const auto erase = [&split](const std::string& name) {
    const auto found = std::find(split.begin(), split.end(), name);
    split.erase(found, found + 2);
  };
  erase("--data-path");
  erase("--split");
  EXPECT_EQ(run(split), 2) << output();
  EXPECT_THAT(output(), HasSubstr("no document of " + without + " ends with it"));
}

TEST_F(Documents, AnEndThatIsNamedForNothingIsAWarning) {
  ASSERT_EQ(run(arguments("run", 4, {"--eod-token-id", "62", "--dry-run"})), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("WARNING: --eod-token-id 62: no document of " + prefix_ + " ends with it"));
  ASSERT_EQ(run(arguments("run", 4, {"--eod-token-id", "63", "--dry-run"})), 0) << output();
  EXPECT_THAT(output(), testing::Not(HasSubstr("WARNING: --eod-token-id")));
}

}  // namespace
}  // namespace weft
