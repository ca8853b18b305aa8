// The table of GEMM algorithms, on which a restart relies for equal bits.
#include "kernels/cuda/algorithm_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weft::cuda {
namespace {

class AlgorithmTableTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("weft_algorithm_table_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    path_ = (folder_ / "sub" / "algorithms").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    std::ofstream(path_) << text;
  }
  std::string message_of_loading() const {
    try {
      AlgorithmTable table(path_);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(AlgorithmTableTest, RemembersAcrossInstances) {
  AlgorithmTable table(path_);
  table.add("m=8,n=8", "0a1b");
  EXPECT_EQ(table.store(), "");
  AlgorithmTable later(path_);
  EXPECT_EQ(later.find("m=8,n=8"), "0a1b");
  EXPECT_EQ(later.find("m=8,n=16"), std::nullopt);
}

TEST_F(AlgorithmTableTest, FirstChoiceStaysAlsoWhenAnotherProcessMadeIt) {
  AlgorithmTable mine(path_);
  AlgorithmTable other(path_);
  other.add("key", "first");
  EXPECT_EQ(other.store(), "");
  EXPECT_EQ(mine.find("key"), std::nullopt);
  mine.add("key", "second");
  mine.add("mine", "third");
  EXPECT_EQ(mine.store(), "");
  EXPECT_EQ(mine.find("key"), "first");
  AlgorithmTable later(path_);
  EXPECT_EQ(later.find("key"), "first");
  EXPECT_EQ(later.find("mine"), "third");
}

TEST_F(AlgorithmTableTest, LeavesNothingBesideTheFile) {
  AlgorithmTable table(path_);
  table.add("key", "value");
  EXPECT_EQ(table.store(), "");
  int num_files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path()))
    ++num_files;
  EXPECT_EQ(num_files, 1);
}

TEST_F(AlgorithmTableTest, OnlyWhatIsSettledIsFoundWhileARunGoesOn) {
  write("weft-gemm-algorithms 1\nin_file 1\nused 2\n");
  AlgorithmTable table(path_);
  table.take("weft-gemm-algorithms 1\ntaken 3\n");
  EXPECT_EQ(table.find("used"), "2");
  table.add("timed", "4");
  EXPECT_EQ(table.find_settled("in_file"), std::nullopt);
  EXPECT_EQ(table.find_settled("used"), "2");
  EXPECT_EQ(table.find_settled("taken"), "3");
  EXPECT_EQ(table.find_settled("timed"), "4");
  EXPECT_THAT(table.text_in_use(), testing::Not(testing::HasSubstr("in_file")));
}

// A checkpoint, or another rank, hands over what is in use, and it wins over the file.
TEST_F(AlgorithmTableTest, TextOfAnotherTableWinsOverTheFile) {
  AlgorithmTable source("");
  source.add("b", "2");
  source.add("a", "1");
  EXPECT_EQ(source.text_in_use(), "weft-gemm-algorithms 1\na 1\nb 2\n");
  write("weft-gemm-algorithms 1\na 9\nc 3\n");
  AlgorithmTable table(path_);
  table.take(source.text_in_use());
  EXPECT_EQ(table.text_in_use(), "") << "nothing was asked for yet";
  EXPECT_EQ(table.find("a"), "1");
  EXPECT_EQ(table.find("c"), "3");
  EXPECT_EQ(table.text_in_use(), "weft-gemm-algorithms 1\na 1\nc 3\n");
  EXPECT_EQ(table.store(), "") << "nothing was timed here";
  EXPECT_EQ(AlgorithmTable(path_).find("a"), "9");
}

TEST_F(AlgorithmTableTest, AFolderThatCannotBeWrittenIsANote) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "sub") << "a file where the folder should be";
  AlgorithmTable table(path_);
  table.add("key", "value");
  EXPECT_THAT(table.store(), testing::HasSubstr("the timed GEMM algorithms are not kept: " +
                                                (folder_ / "sub").string()));
  EXPECT_EQ(table.find("key"), "value");
}

TEST_F(AlgorithmTableTest, RejectsAnotherKindOfFile) {
  write("{\"tokens\": 3}\n");
  EXPECT_THAT(message_of_loading(), testing::HasSubstr(path_ + ": not a table of GEMM algorithms"));
  AlgorithmTable table("");
  EXPECT_THROW(table.take("{}"), std::runtime_error);
}

TEST_F(AlgorithmTableTest, NamesTheLineThatIsNotAPair) {
  write("weft-gemm-algorithms 1\na 1\nb\n");
  EXPECT_THAT(message_of_loading(), testing::HasSubstr(path_ + ":3: not 'key value'"));
}

TEST_F(AlgorithmTableTest, EmptyPathKeepsNoFile) {
  AlgorithmTable table("");
  EXPECT_FALSE(table.has_file());
  table.add("key", "value");
  EXPECT_EQ(table.store(), "");
}

}  // namespace
}  // namespace weft::cuda
