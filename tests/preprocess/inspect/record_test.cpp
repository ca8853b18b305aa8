// Records as text, JSON and HTML.
#include "preprocess/inspect/commands/record.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Record, IsPrintedByALayout) {
  const Record record = {
      {"name", "a\x1b<b>\\"}, {"lines", "one\n<two>"}, {"count", 1234567}, {"share", 0.2934},
      {"loss", 2.0 / 3},      {"ids", {1, 22}},        {"none", nullptr},  {"no", false}};
  const auto text = [&](const char* layout) { return filled(layout, record); };
  EXPECT_EQ(text("{name} of [{count}], {count,}"), "a\\x1B<b>\\\\ of [1234567], 1,234,567");
  EXPECT_EQ(text("{share%}, {loss:.4g}, {count#token}, {ids}"),
            "29.3 %, 0.6667, 1234567 tokens, 1 22");
  EXPECT_EQ(text("{lines\"}"), "\"one\\n<two>\"");
  EXPECT_EQ(text("a[[ {none}]][[ {absent} {name}]][[, {no!}b[[{absent}c]][[d]]]]"), "a, bd");
  EXPECT_EQ(filled("<p>{name}</p>{lines|}", record, /*is_html=*/true),
            "<p>a\\x1B&lt;b&gt;\\\\</p>one\n&lt;two&gt;");
}

// Names in a list mean the entry's members, and those of the record that the entry does not have.
TEST(Record, ListsItsEntries) {
  const Record record = {
      {"split", "train"},
      {"parts",
       {{{"document", 3}, {"texts", {"a", "b\""}}}, {{"document", 4}, {"split", "test"}}}}};
  EXPECT_EQ(filled("[[@parts:{document} {split}[[@texts: {\"}]];]][[@absent:x]]", record),
            R"(3 train "a" "b\"";4 test;)");
}

}  // namespace
}  // namespace weft
