// The file of GEMM algorithms, on which a restart relies for equal bits.
#include "kernels/cuda/algorithm_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weft::cuda {
namespace {

class AlgorithmCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("weft_algorithm_cache_" + std::to_string(getpid()));
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
      AlgorithmCache cache(path_);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(AlgorithmCacheTest, RemembersAcrossInstances) {
  EXPECT_EQ(AlgorithmCache(path_).add("m=8,n=8", "0a1b"), "0a1b");
  AlgorithmCache later(path_);
  EXPECT_EQ(later.find("m=8,n=8"), "0a1b");
  EXPECT_EQ(later.find("m=8,n=16"), std::nullopt);
}

TEST_F(AlgorithmCacheTest, FirstChoiceStaysAlsoWhenAnotherProcessMadeIt) {
  AlgorithmCache mine(path_);
  AlgorithmCache other(path_);
  EXPECT_EQ(other.add("key", "first"), "first");
  EXPECT_EQ(mine.find("key"), std::nullopt);
  EXPECT_EQ(mine.add("key", "second"), "first");
  EXPECT_EQ(mine.add("mine", "third"), "third");
  EXPECT_EQ(AlgorithmCache(path_).find("key"), "first");
  EXPECT_EQ(AlgorithmCache(path_).find("mine"), "third");
}

TEST_F(AlgorithmCacheTest, LeavesNothingBesideTheFile) {
  AlgorithmCache(path_).add("key", "value");
  int num_files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path()))
    ++num_files;
  EXPECT_EQ(num_files, 1);
}

TEST_F(AlgorithmCacheTest, RejectsAnotherKindOfFile) {
  write("{\"tokens\": 3}\n");
  EXPECT_THAT(message_of_loading(), testing::HasSubstr(path_ + ": not a file of GEMM algorithms"));
}

TEST_F(AlgorithmCacheTest, NamesTheLineThatIsNotAPair) {
  write("weft-gemm-algorithms 1\na 1\nb\n");
  EXPECT_THAT(message_of_loading(), testing::HasSubstr(path_ + ":3: not 'key value'"));
}

TEST_F(AlgorithmCacheTest, EmptyPathKeepsNothing) { EXPECT_FALSE(AlgorithmCache("").enabled()); }

}  // namespace
}  // namespace weft::cuda
