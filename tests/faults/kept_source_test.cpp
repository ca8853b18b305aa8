// What was fetched, kept for the next run.
#include "preprocess/web/kept_source.h"

#include <gtest/gtest.h>

#include "tests/preprocess/byte_sources.h"
#include "tests/preprocess/temporary_folder.h"

namespace weft {
namespace {

// A rank of an earlier run may write to the file of the next one, whose address gives other bytes.
TEST(KeptSource, BelievesNoBlocksOfAnotherStream) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "fetched.0";
  int64_t fetched_from = -1;
  const auto read = [&](const std::string& stream, const std::string& text) {
    const auto source = open_kept_source(file, stream, [&](int64_t offset) {
      fetched_from = offset;
      return std::make_unique<StringSource>(text.substr(static_cast<size_t>(offset)));
    });
    return read_all(*source);
  };
  const std::string before(3 << 20, 'b'), after(3 << 20, 'a');
  EXPECT_TRUE(read("url 1", before) == before);
  EXPECT_EQ(fetched_from, 0);
  EXPECT_TRUE(read("url 1", before) == before);
  EXPECT_EQ(fetched_from, 3 << 20) << "kept";
  EXPECT_TRUE(read("url 2", after) == after);
  EXPECT_EQ(fetched_from, 0);
}

}  // namespace
}  // namespace weft
