#include "indexed_dataset/order/curriculum/integer_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<int64_t> all_values(const IntegerRows& rows) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows.num_values(); ++i) values.push_back(rows.value(i));
  return values;
}

struct Golden {
  std::string name, idx, bin;
  std::vector<int64_t> values, row_ends;
};

// Made by MMapIndexedDatasetBuilder of DeepSpeed 0.19.8 with NumPy: add_item_numpy() for each row,
// end_document(), finalize().
const Golden kGolden[] = {
    {"u8",
     "4d4d4944494458000001000000000000000103000000000000000200000000000000020000000000000001000000"
     "00000000000000000200000000000000020000000000000000000000000000000300000000000000",
     "0301ff",
     {3, 1, 255},
     {2, 2, 3}},
    {"u16",
     "4d4d4944494458000001000000000000000601000000000000000200000000000000020000000000000000000000"
     "00000000000000000100000000000000",
     "ffff0700",
     {65535, 7},
     {2}},
    {"u32",
     "4d4d4944494458000001000000000000000702000000000000000200000000000000010000000200000000000000"
     "0000000004000000000000000000000000000000"
     "0200000000000000",
     "ffffffff0100000002000000",
     {4294967295, 1, 2},
     {1, 3}},
    {"i8",
     "4d4d4944494458000001000000000000000201000000000000000200000000000000020000000000000000000000"
     "00000000000000000100000000000000",
     "fd04",
     {-3, 4},
     {2}},
    {"i64",
     "4d4d4944494458000001000000000000000502000000000000000200000000000000010000000100000000000000"
     "0000000008000000000000000000000000000000"
     "0200000000000000",
     "000efad5feffffff0100000000000000",
     {-5000000000, 1},
     {1, 2}},
};

TEST(IntegerRows, ReadsAndWritesDeepSpeedsBytes) {
  const TemporaryFolder folder;
  for (const Golden& golden : kGolden) {
    SCOPED_TRACE(golden.name);
    const auto prefix = folder / golden.name;
    write_file_atomically(prefix.string() + ".idx", from_hex(golden.idx));
    write_file_atomically(prefix.string() + ".bin", from_hex(golden.bin));
    const IntegerRows rows(prefix);
    EXPECT_EQ(all_values(rows), golden.values);
    ASSERT_EQ(rows.num_rows(), std::ssize(golden.row_ends));
    for (size_t row = 0; row < golden.row_ends.size(); ++row)
      EXPECT_EQ(rows.row_begin(static_cast<int64_t>(row) + 1), golden.row_ends[row]);

    const auto ours = folder / (golden.name + "-ours");
    write_integer_rows(ours, golden.values, golden.row_ends);
    EXPECT_EQ(to_hex(read_file(ours.string() + ".idx")), golden.idx);
    EXPECT_EQ(to_hex(read_file(ours.string() + ".bin")), golden.bin);
  }
}

// DeepSpeed 0.8 and 0.9 wrote the codes 8, 9 and 10 for unsigned integers of 2, 4 and 8 bytes.
TEST(IntegerRows, TellsOlderCodesBySize) {
  const TemporaryFolder folder;
  const auto rewrite = [&](const std::vector<int64_t>& values, char code) {
    write_integer_rows(folder / "old", values);
    std::string idx = read_file(folder / "old.idx");
    idx[17] = code;
    write_file_atomically(folder / "old.idx", idx);
    return all_values(IntegerRows(folder / "old"));
  };
  EXPECT_THAT(rewrite({300, 65535}, 8), ElementsAre(300, 65535));
  EXPECT_THAT(rewrite({300, 4294967295}, 9), ElementsAre(300, 4294967295));
  EXPECT_THAT(rewrite({300, 1LL << 40}, 10), ElementsAre(300, 1LL << 40));
}

TEST(IntegerRows, RefusesDamagedAndOtherFiles) {
  const TemporaryFolder folder;
  const auto damage = [&](size_t at, char byte, const std::string& what) {
    const std::vector<int64_t> values = {1000, 2000, 70}, ends = {2, 3};
    write_integer_rows(folder / "x", values, ends);
    std::string idx = read_file(folder / "x.idx");
    idx[at] = byte;
    write_file_atomically(folder / "x.idx", idx);
    EXPECT_THAT([&] { IntegerRows rows(folder / "x"); },
                ThrowsMessage<std::runtime_error>(HasSubstr(what)));
  };
  damage(0, 'X', "give the prefix of an index of DeepSpeed's data analyzer");
  damage(9, 2, "has version 2 at byte 9");
  damage(17, 5, "damaged, or holds floating-point numbers");
  damage(18, 3, "are too few for 3 sequences");
  damage(26, 1, "has 8 bytes more than");
  damage(34, 5, "damaged, or holds floating-point numbers");
  damage(37, static_cast<char>(0x80), "negative length");
  damage(50, 2, "does not begin where the one before it ends");
  // Doubles, as the codes 6 and 7 meant in DeepSpeed 0.8.
  const std::vector<int64_t> large = {-(1LL << 40), 1LL << 40};
  write_integer_rows(folder / "f", large);
  std::string idx = read_file(folder / "f.idx");
  idx[17] = 6;
  write_file_atomically(folder / "f.idx", idx);
  EXPECT_THAT([&] { IntegerRows rows(folder / "f"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("floating-point")));
}

}  // namespace
}  // namespace weft
