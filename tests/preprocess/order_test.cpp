// Documents dealt to partitions, and the token type of a dataset.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/pair/interleave_partitions.h"
#include "indexed_dataset/pair/reader.h"
#include "indexed_dataset/pair/writer.h"
#include "indexed_dataset/storage/file_io.h"
#include "preprocess/datasets/source_map.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "tests/preprocess/temporary_folder.h"

namespace weft {
namespace {

class Dealing : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() / name; }

  // A pair and its sources: documents of 0 to 2 sequences, some far longer than any buffer.
  void write_dataset(int64_t num_documents) {
    std::mt19937 random(7);
    std::vector<std::byte> entries;
    for (int64_t d = 0; d < num_documents; ++d) {
      documents_.emplace_back();
      for (uint32_t s = random() % 3; s > 0; --s) {
        documents_.back().emplace_back(d == 5 ? 3'000'000 : 1 + random() % 200);
        for (uint16_t& token : documents_.back().back()) token = static_cast<uint16_t>(random());
      }
      append_source_entry(entries, {0, 1000 * d});
    }
    PlacedDatasetWriter writer(path("x.bin"), path("x.idx"), path("x.bounds"), TokenType::kUInt16);
    DatasetCounts counts;
    for (const auto& document : documents_) {
      std::vector<uint16_t> tokens;
      std::vector<int32_t> lengths;
      for (const auto& sequence : document) {
        tokens.insert(tokens.end(), sequence.begin(), sequence.end());
        lengths.push_back(static_cast<int32_t>(sequence.size()));
      }
      const std::vector<int32_t> sequences{static_cast<int32_t>(lengths.size())};
      writer.write(counts, std::as_bytes(std::span(tokens)), lengths, sequences);
      counts.add(PlacedDatasetWriter::counts_of(lengths, sequences));
    }
    writer.finish(counts);
    OutputFile sources(path("x.sources"));
    if (!entries.empty()) sources.write_at(entries.data(), entries.size(), source_entry_at(0));
    sources.close();
    seal_source_map(path("x.sources"), num_documents, {"in.jsonl"});
  }

  void deal(
      int64_t num_partitions, const std::function<void()>& check = [] {}) const {
    deal_pair(path("x.bin"), path("x.idx"), path("y.bin"), path("y.idx"), num_partitions, check);
    deal_source_map(path("x.sources"), path("y.sources"), num_partitions);
  }

  TemporaryFolder folder_;
  std::vector<std::vector<std::vector<uint16_t>>> documents_;
};

TEST_F(Dealing, PutsDocumentsOfOnePartitionAfterAnother) {
  write_dataset(1000);
  for (const int64_t num_partitions : {1, 2, 3, 7, 64, 999, 1000, 1001, 1024}) {
    deal(num_partitions);
    const DatasetReader reader(path("y"));
    const SourceMap sources(path("y.sources"));
    EXPECT_TRUE(verify_dataset(path("y"), 65536).empty());
    ASSERT_EQ(reader.num_documents(), 1000);
    int64_t place = 0;
    for (int64_t p = 0; p < num_partitions; ++p) {
      ASSERT_EQ(documents_before_partition(p, 1000, num_partitions), place);
      for (int64_t d = p; d < 1000; d += num_partitions, ++place) {
        ASSERT_EQ(sources.entry(place).offset_bytes, 1000 * d);
        const auto& document = documents_[static_cast<size_t>(d)];
        const int64_t first = reader.document_bound(place);
        ASSERT_EQ(reader.document_bound(place + 1) - first, std::ssize(document));
        for (size_t s = 0; s < document.size(); ++s) {
          const std::vector<int32_t> tokens = reader.tokens(first + static_cast<int64_t>(s));
          ASSERT_TRUE(
              std::equal(tokens.begin(), tokens.end(), document[s].begin(), document[s].end()))
              << num_partitions << " partitions, document " << d;
        }
      }
    }
  }
  deal(1);
  for (const char* suffix : {".bin", ".idx", ".sources"}) {
    EXPECT_EQ(read_file(path("x") + suffix), read_file(path("y") + suffix));
  }
}

TEST_F(Dealing, DealsNoDocuments) {
  write_dataset(0);
  deal(3);
  EXPECT_EQ(DatasetReader(path("y")).num_documents(), 0);
  EXPECT_EQ(SourceMap(path("y.sources")).num_documents(), 0);
}

TEST_F(Dealing, RefusesAPairWhosePartsDoNotFit) {
  write_dataset(20);
  const auto cut = [&](const char* name, int64_t num_bytes) {
    const std::string whole = read_file(path(name));
    write_file_atomically(path(name), whole.substr(0, whole.size() - num_bytes));
    EXPECT_THROW(deal(3), std::runtime_error) << name;
    write_file_atomically(path(name), whole);
  };
  cut("x.bin", 2);
  cut("x.bin", 1);
  cut("x.idx", 8);
  cut("x.sources", 1);
  // Bounds and lengths that lead outside.
  const std::string idx = read_file(path("x.idx"));
  for (size_t at = 34; at < idx.size(); at += 4) {
    std::string wrong = idx;
    wrong[at + 3] = static_cast<char>(wrong[at + 3] ^ 0x80);
    write_file_atomically(path("x.idx"), wrong);
    try {
      deal(3);
    } catch (const std::runtime_error&) {
    }
  }
}

TEST_F(Dealing, EndsWhenItIsStoppedAndWhenACallFails) {
  write_dataset(100);
  struct Stop {};
  EXPECT_THROW(deal(3, [] { throw Stop{}; }), Stop);
  const int64_t before = num_io_calls();
  deal(3);
  const int64_t num_calls = num_io_calls() - before;
  const std::string bin = read_file(path("y.bin")), idx = read_file(path("y.idx"));
  for (int64_t n = 1; n <= num_calls; ++n) {
    set_io_fault(n, ENOSPC);
    EXPECT_THROW(deal(3), std::system_error) << "call " << n;
    set_io_fault(0, 0);
  }
  deal(3);
  EXPECT_EQ(read_file(path("y.bin")), bin);
  EXPECT_EQ(read_file(path("y.idx")), idx);
}

TEST(TokenTypeOfFiles, FollowsMegatronUnlessItIsForced) {
  TokenizeRules rules;
  EXPECT_EQ(token_type(rules, 65499), TokenType::kUInt16);
  EXPECT_EQ(token_type(rules, 65500), TokenType::kInt32);
  rules.token_type = TokenType::kInt32;
  EXPECT_EQ(token_type(rules, 50257), TokenType::kInt32);
  rules.token_type = TokenType::kUInt16;
  EXPECT_EQ(token_type(rules, 65536), TokenType::kUInt16);
  EXPECT_THROW(token_type(rules, 65537), std::invalid_argument);
}

}  // namespace
}  // namespace weft
