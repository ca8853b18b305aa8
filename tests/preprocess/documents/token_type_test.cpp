// The token type of a dataset.
#include <gtest/gtest.h>

#include <stdexcept>

#include "preprocess/documents/tokenize_chunk.h"

namespace weft {
namespace {

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
