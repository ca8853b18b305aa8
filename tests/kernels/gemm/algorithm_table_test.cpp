// The table of GEMM algorithms, on which a restart relies for equal bits.
#include "kernels/cuda/gemm/algorithm_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace weft::cuda {
namespace {

TEST(AlgorithmTable, OnlyWhatIsSettledIsFoundWhileARunGoesOn) {
  AlgorithmTable table;
  table.offer({{"in_file", "1"}, {"used", "2"}});
  table.use({{"taken", "3"}});
  EXPECT_EQ(table.find("used"), "2");
  table.add("timed", "4");
  EXPECT_EQ(table.find_settled("in_file"), std::nullopt);
  EXPECT_EQ(table.find_settled("used"), "2");
  EXPECT_EQ(table.find_settled("taken"), "3");
  EXPECT_EQ(table.find_settled("timed"), "4");
  EXPECT_FALSE(table.in_use().contains("in_file"));
}

// A checkpoint, or another rank, passes on what is in use, and it wins over an earlier run's file.
TEST(AlgorithmTable, ChoicesOfAnotherTableWin) {
  AlgorithmTable table;
  table.use({{"a", "1"}, {"b", "2"}});
  table.offer({{"a", "9"}, {"c", "3"}});
  EXPECT_EQ(text_of(table.in_use()), "") << "nothing was asked for yet";
  EXPECT_EQ(table.find("a"), "1");
  EXPECT_EQ(table.find("c"), "3");
  EXPECT_EQ(text_of(table.in_use()), "weft-gemm-algorithms 1\na 1\nc 3\n");
  EXPECT_TRUE(table.take_timed().empty()) << "nothing was timed here";
  table.add("d", "4");
  EXPECT_EQ(table.take_timed(), (AlgorithmChoices{{"d", "4"}}));
  EXPECT_TRUE(table.take_timed().empty());
}

// The library no longer takes a choice: the file's is timed anew, and a checkpoint's is an error.
TEST(AlgorithmTable, OnlyWhatAFileOffersCanBeForgotten) {
  AlgorithmTable table;
  table.use({{"taken", "1"}});
  table.offer({{"in_file", "2"}});
  EXPECT_EQ(table.find("in_file"), "2");
  EXPECT_TRUE(table.try_forget("in_file"));
  EXPECT_EQ(table.find("in_file"), std::nullopt);
  EXPECT_TRUE(table.in_use().empty());
  EXPECT_FALSE(table.try_forget("taken"));
  EXPECT_EQ(table.find("taken"), "1");
}

std::string message_of(const std::string& text) {
  try {
    parse_algorithms(text, "FILE");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(AlgorithmChoices, AreReadFromTheirTextAndNoOther) {
  const AlgorithmChoices choices = {{"b", "2"}, {"a", "1"}};
  EXPECT_EQ(parse_algorithms(text_of(choices), "FILE"), choices);
  EXPECT_TRUE(parse_algorithms("", "FILE").empty());
  EXPECT_THAT(message_of("{\"tokens\": 3}\n"),
              testing::StartsWith("FILE: not a table of GEMM algorithms"));
  EXPECT_THAT(message_of("weft-gemm-algorithms 1\na 1\nb\n"),
              testing::StartsWith("FILE:3: not 'key value'"));
  EXPECT_THAT(message_of("weft-gemm-algorithms 1\na 1 2\n"), testing::StartsWith("FILE:2: "));
}

}  // namespace
}  // namespace weft::cuda
