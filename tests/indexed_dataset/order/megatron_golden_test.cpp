// Files and sample indexes that Megatron-Core's own code wrote (megatron_peer.py;
// tests/golden/indexed_dataset/README.md) against ours. WEFT_MEGATRON_GOLDEN_DIR points to other
// such files than the shipped ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "indexed_dataset/order/samples/gpt_dataset.h"
#include "tests/indexed_dataset/md5.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

std::filesystem::path golden_folder() {
  if (const char* folder = std::getenv("WEFT_MEGATRON_GOLDEN_DIR")) return folder;
  const char* source = std::getenv("WEFT_SOURCE_DIR");
  return std::filesystem::path(source != nullptr ? source : ".") / "tests/golden/indexed_dataset";
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::istringstream text(read_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

template <typename T>
std::vector<std::vector<T>> documents_of(const std::filesystem::path& path) {
  std::vector<std::vector<T>> documents;
  for (const std::string& line : lines_of(path)) {
    std::istringstream words(line);
    documents.emplace_back();
    for (int64_t id; words >> id;) documents.back().push_back(static_cast<T>(id));
  }
  return documents;
}

TEST(MegatronGolden, WriterMakesTheSameBytes) {
  const auto lines = lines_of(golden_folder() / "datasets.txt");
  ASSERT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    std::istringstream words(line);
    std::string name;
    int type_code = 0;
    words >> name >> type_code;
    const auto theirs = golden_folder() / name;
    const TemporaryFolder folder;
    const auto ours = folder / "d";
    if (static_cast<TokenType>(type_code) == TokenType::kUInt16) {
      write_dataset(ours, TokenType::kUInt16, documents_of<uint16_t>(theirs.string() + ".txt"));
    } else {
      ASSERT_EQ(static_cast<TokenType>(type_code), TokenType::kInt32);
      write_dataset(ours, TokenType::kInt32, documents_of<int32_t>(theirs.string() + ".txt"));
    }
    for (const char* suffix : {".bin", ".idx"}) {
      EXPECT_TRUE(read_file(ours.string() + suffix) == read_file(theirs.string() + suffix))
          << name << suffix;
    }
  }
}

TEST(MegatronGolden, ReaderAcceptsTheirFiles) {
  for (const std::string& line : lines_of(golden_folder() / "datasets.txt")) {
    const std::string name = line.substr(0, line.find(' '));
    EXPECT_THAT(verify_dataset(golden_folder() / name.c_str()), ::testing::IsEmpty());
    const DatasetReader reader(golden_folder() / name);
    const auto documents = documents_of<int32_t>(golden_folder() / (name + ".txt"));
    ASSERT_EQ(reader.num_documents(), static_cast<int64_t>(documents.size()));
    for (int64_t i = 0; i < reader.num_sequences(); ++i) {
      EXPECT_EQ(reader.tokens(i), documents[static_cast<size_t>(reader.document_of_sequence(i))]);
    }
  }
}

// One line of samples.txt.
struct SampleCase {
  std::string dataset, split;
  size_t which = 0;
  GptIndexOptions options;
  SequenceRange range;
  int64_t num_samples = 0;
  std::string document_md5, sample_md5, shuffle_md5, text_md5;

  explicit SampleCase(const std::string& line) {
    std::istringstream words(line);
    int64_t wanted = -1;
    words >> dataset >> split >> which >> wanted >> options.sequence_length >> options.seed >>
        options.add_extra_token >> options.drop_last_partial_sequence >> range.begin >> range.end >>
        num_samples >> document_md5 >> sample_md5 >> shuffle_md5 >> text_md5;
    EXPECT_FALSE(words.fail()) << line;
    if (wanted >= 0) options.num_samples = wanted;
  }
};

std::string text_md5_of(const GptDataset& dataset) {
  const int64_t size = dataset.sequence_length() + 1;
  std::vector<int32_t> tokens(static_cast<size_t>(size * dataset.num_samples()));
  for (int64_t i = 0; i < dataset.num_samples(); ++i)
    dataset.sample(i, &tokens[static_cast<size_t>(i * size)]);
  return md5_of(tokens);
}

TEST(MegatronGolden, SplitsIndexesAndTokensAreTheSame) {
  const auto lines = lines_of(golden_folder() / "samples.txt");
  ASSERT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    SCOPED_TRACE(line);
    SampleCase expected(line);
    const auto reader = std::make_shared<DatasetReader>(golden_folder() / expected.dataset);
    const auto range = split_ranges(expected.split, reader->num_sequences())[expected.which];
    ASSERT_EQ(range, expected.range);
    expected.options.range = *range;
    const GptIndex index = build_gpt_index(reader->lengths(), expected.options);
    EXPECT_EQ(index.plan.num_samples, expected.num_samples);
    EXPECT_EQ(md5_of(index.document_index), expected.document_md5);
    EXPECT_EQ(md5_of(std::get<std::vector<int32_t>>(index.sample_index)), expected.sample_md5);
    EXPECT_EQ(md5_of(std::get<std::vector<uint32_t>>(index.shuffle_index)), expected.shuffle_md5);
    if (expected.text_md5 == "-") continue;
    const GptDataset dataset(reader, *range, expected.options.num_samples,
                             expected.options.sequence_length, expected.options.seed);
    EXPECT_EQ(text_md5_of(dataset), expected.text_md5);
  }
}

}  // namespace
}  // namespace weft
