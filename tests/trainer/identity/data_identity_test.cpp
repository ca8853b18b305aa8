// A run is tied to the bytes of its data and to its vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/indexed_dataset/dataset_writer.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/small_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

TEST(Resume, BytesThatWereReplacedUnderTheirNameAreRefused) {
  const Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  const auto message = [&](const DataIdentity& ours) {
    try {
      plan_resume(info, shape, config, ours);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  DataIdentity ours = data_of_run();
  EXPECT_EQ(message(ours), "");
  ours.datasets[0].bin_xxh3 = 3;
  EXPECT_THAT(message(ours), testing::AllOf(HasSubstr("/data/p was replaced or changed"),
                                            HasSubstr("3 documents, 100 tokens")));
  ours.datasets[0].prefix = "/data/other";
  EXPECT_EQ(message(ours), "") << "another dataset was asked for";
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::ElementsAre(HasSubstr("/data/other")));
  ours.datasets[0].bin_xxh3 = 2;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings, testing::IsEmpty())
      << "a copy of the same bytes";
}

// The schedule tells from which sample on its datasets are read.
TEST(Resume, ADatasetThatOnlyAScheduleNamesChangesNoSampleFromHereOn) {
  const Config config = base_config();
  DataIdentity saved = data_of_run();
  saved.blends.blends.fill({parse_blend({"1", "/data/p"}, "")});
  DataIdentity ours = saved;
  ours.blends.changes = {
      {.from_samples = 50, .from_tokens = {}, .blend = parse_blend({"1", "/data/q"}, "")}};
  ours.datasets.push_back({.prefix = "/data/q", .num_documents = 1, .bin_xxh3 = 5});
  EXPECT_THAT(compare_data(saved, ours, config).allowed, testing::IsEmpty());
  EXPECT_THAT(compare_data(ours, saved, config).allowed, testing::IsEmpty());
  ours.blends.blends[0][0].prefixes.push_back("/data/q");
  EXPECT_THAT(compare_data(saved, ours, config).allowed,
              testing::ElementsAre(HasSubstr("/data/q was not read before the checkpoint")));
}

TEST(Resume, AVocabularyOfOtherEntriesIsRefused) {
  Config config = base_config();
  const ModelShape shape = model_shape(config, 64);
  const CheckpointInfo info = saved_by(config, shape);
  DataIdentity ours = data_of_run();
  ours.vocabulary.tokenizer.files[1].sha256 = "cc";
  EXPECT_THROW(plan_resume(info, shape, config, ours), std::runtime_error);
  config.finetune = true;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::ElementsAre(HasSubstr("the same token ids stand for other text")));
  config.finetune = false;
  ours.vocabulary.tokenizer = {};
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings, testing::IsEmpty());
}

TEST(Resume, AnotherEndOfDocumentsIsRefusedUnlessToldWhereTheRunLooksForIt) {
  Config config = base_config();
  config.eod_mask_loss = true;
  const ModelShape shape = model_shape(config, 64);
  CheckpointInfo info = saved_by(config, shape);
  info.data.vocabulary.end_of_document = 66;
  info.data.vocabulary.end_of_document_source = "the last one of --vocab-size";
  DataIdentity ours = data_of_run();
  ours.vocabulary.end_of_document = 63;
  ours.vocabulary.end_of_document_source = "the last one of tiny";
  EXPECT_THAT([&] { plan_resume(info, shape, config, ours); },
              testing::ThrowsMessage<std::runtime_error>(testing::AllOf(
                  HasSubstr("documents ended with token 66, the last one of --vocab-size, "
                            "when the checkpoint was saved and end with token 63, the last "
                            "one of tiny, now"),
                  HasSubstr("give --eod-token-id 66 to go on as before"))));
  config.eod_token_id = 63;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::Contains(HasSubstr("now: the run goes on with the new value")));
  config.eod_token_id.reset();
  config.eod_mask_loss = false;
  EXPECT_THAT(plan_resume(info, shape, config, ours).warnings,
              testing::ElementsAre(HasSubstr("--eod-mask-loss was true")));
}

TEST(DatasetWatch, TellsWhatItCannotCompare) {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "large").string();
  constexpr int64_t kTokens = 40 << 20;  // 80 MiB
  {
    DatasetWriter writer(prefix, TokenType::kUInt16);
    const std::vector<uint16_t> tokens(kTokens);
    const auto length = static_cast<int32_t>(kTokens);
    writer.append_documents(std::as_bytes(std::span(tokens)), {&length, 1});
    writer.finish();
  }
  DatasetWatch watch(prefix);
  watch.check_untouched();
  EXPECT_EQ(watch.check(), "");
  const auto write_at = [&](int64_t offset_bytes) {
    std::fstream bin(prefix + ".bin", std::ios::binary | std::ios::in | std::ios::out);
    bin.seekp(offset_bytes);
    bin.write("x", 1);
  };
  write_at((1 << 20) + 1000);  // between the first two of 64 pieces
  EXPECT_THROW(watch.check_untouched(), std::runtime_error);
  EXPECT_THAT(watch.check(), HasSubstr("whether the other 16777216 bytes are, nothing tells"));
  EXPECT_EQ(watch.check(), "") << "it is told once";
  write_at(0);
  EXPECT_THROW(watch.check(), std::runtime_error);
}

}  // namespace
}  // namespace weft
