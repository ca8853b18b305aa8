#include "trainer/log/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/trainer/tiny_dataset.h"

namespace weft {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<uint8_t>(c) >> 4];
    text += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return text;
}

// Check value of CRC-32C [RFC 3720, and the catalogue of parametrised CRCs].
TEST(TensorBoard, Crc32cOfTheCheckString) { EXPECT_EQ(crc32c("123456789"), 0xe3069283U); }

// Bytes that TensorBoard 2's event accumulator reads as step 25, "lm loss" 10.86953926.
TEST(TensorBoard, RecordsEqualBytesThatTensorBoardReads) {
  EXPECT_EQ(hex(version_record(1700000000)),
            "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
  EXPECT_EQ(
      hex(scalars_record(1700000001, 25, {{"lm loss", 10.869539F}})),
      "1d00000000000000602fdf230900004040fc54d94110192a100a0e0a076c6d206c6f737315a2e92d4155a4656f");
}

// --- a reader of protobuf's wire format, independent of the writer ---

struct Reader {
  std::string_view bytes;
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.at(0));
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  template <typename T>
  T raw() {
    T value;
    std::memcpy(&value, bytes.substr(0, sizeof(T)).data(), sizeof(T));
    bytes.remove_prefix(sizeof(T));
    return value;
  }
  std::string_view block() {
    const size_t size = varint();
    const std::string_view block = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return block;
  }
};

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  std::vector<Scalar> scalars;
};

// Reads the field `number` of a message, which is the only one or the last of its kind.
std::string_view field_of(std::string_view bytes, uint64_t number) {
  std::string_view found;
  for (Reader in{bytes}; !in.bytes.empty();) {
    const uint64_t key = in.varint();
    if ((key & 7) == 0) {
      in.varint();
      continue;
    }
    EXPECT_EQ(key & 7, 2U);
    const std::string_view block = in.block();
    if (key >> 3 == number) found = block;
  }
  return found;
}

Scalar decode_value(std::string_view bytes) {
  Scalar scalar;
  for (Reader in{bytes}; !in.bytes.empty();) {
    const uint64_t key = in.varint();
    if (key == (1 << 3 | 2))
      scalar.tag = in.block();
    else if (key == (2 << 3 | 5))
      scalar.value = in.raw<float>();
    else
      ADD_FAILURE() << "key " << key;
  }
  return scalar;
}

Event decode(std::string_view record) {
  Event event;
  for (Reader in{record.substr(12, record.size() - 16)}; !in.bytes.empty();) {
    const uint64_t key = in.varint();
    if (key == (1 << 3 | 1))
      event.wall_time = in.raw<double>();
    else if (key == (2 << 3 | 0))
      event.step = static_cast<int64_t>(in.varint());
    else if (key == (3 << 3 | 2))
      event.version = in.block();
    else if (key == (5 << 3 | 2)) {
      for (Reader summary{in.block()}; !summary.bytes.empty();) {
        EXPECT_EQ(summary.varint(), 1U << 3 | 2U);
        event.scalars.push_back(decode_value(summary.block()));
      }
    } else {
      ADD_FAILURE() << "key " << key;
      break;
    }
  }
  return event;
}

std::vector<Event> read_events(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::vector<Event> events;
  for (const std::string_view record : whole_records(bytes)) events.push_back(decode(record));
  return events;
}

TEST(TensorBoard, AFileDecodesToWhatWasAdded) {
  const TemporaryFolder folder;
  EventFile file(folder / "tb", "0a");
  file.add(1, {{"lm loss", 4.5F}, {"grad-norm", 0.25F}});
  file.add(300'000'000'000, {{"lm loss vs samples", 3.5F}});
  EXPECT_THAT(file.path().filename().string(), testing::HasSubstr("tfevents"));
  const std::vector<Event> events = read_events(file.path());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.7e9);
  EXPECT_EQ(events[1].step, 1);
  ASSERT_EQ(events[1].scalars.size(), 2U);
  EXPECT_EQ(events[1].scalars[1].tag, "grad-norm");
  EXPECT_EQ(events[1].scalars[1].value, 0.25F);
  EXPECT_EQ(events[2].step, 300'000'000'000);
  EXPECT_EQ(events[2].scalars.at(0).value, 3.5F);
}

TEST(TensorBoard, ARollbackDropsLaterPointsAndTornRecords) {
  const TemporaryFolder folder;
  std::filesystem::path path, of_another_run;
  for (const char* run_id : {"b0a", "0a"}) {
    EventFile file(folder / "tb", run_id);
    of_another_run = path;
    path = file.path();
    for (int64_t i = 1; i <= 4; ++i) {
      file.add(i, {{"lm loss", 1.0F}});
      file.add(8 * i, {{"lm loss vs samples", 1.0F}});
    }
  }
  const std::string foreign = "not ours";
  write_file_atomically(folder / "tb/events.out.tfevents.1.other", foreign);
  write_file_atomically(path, read_file(path) + "torn");
  EXPECT_EQ(drop_events_after(folder / "tb", "0a", 2, 16), 4);
  EXPECT_EQ(read_events(of_another_run).size(), 9U);
  const std::vector<Event> events = read_events(path);
  ASSERT_EQ(events.size(), 5U);  // version, steps 1 and 2, samples 8 and 16
  EXPECT_EQ(events[4].step, 16);
  EXPECT_EQ(read_file(folder / "tb/events.out.tfevents.1.other"), foreign);
  EXPECT_EQ(whole_records(read_file(path)).size(), 5U);
}

// Bytes that TensorBoard's event accumulator reads as a text of step 7. Its words are no tag.
TEST(TensorBoard, TextsAreStringTensorsOfTheTextPlugin) {
  const std::string record = text_record(1700000001, 7, "sample/1", "a text vs samples\n");
  const std::string_view event =
      std::string_view(record).substr(12 + 9, record.size() - 12 - 9 - 4);
  const std::string_view value = field_of(field_of(event, 5), 1);
  EXPECT_EQ(field_of(value, 1), "sample/1");
  EXPECT_EQ(field_of(value, 8).substr(0, 2), "\x08\x07");  // dtype: DT_STRING
  EXPECT_EQ(field_of(field_of(value, 8), 8), "a text vs samples\n");
  EXPECT_EQ(field_of(field_of(field_of(value, 9), 1), 1), "text");

  const TemporaryFolder folder;
  EventFile file(folder / "tb", "0a");
  file.add_text(7, "sample/1", "a text vs samples\n");
  EXPECT_EQ(drop_events_after(folder / "tb", "0a", 7, 1), 0);
  EXPECT_EQ(drop_events_after(folder / "tb", "0a", 6, 100), 1);
}

TEST(TensorBoard, ReadingStopsAtTheFirstDamagedRecord) {
  std::string bytes = scalars_record(1, 1, {{"a", 1}}) + scalars_record(1, 2, {{"a", 2}}) +
                      scalars_record(1, 3, {{"a", 3}});
  EXPECT_EQ(whole_records(bytes).size(), 3U);
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_EQ(whole_records(bytes).size(), 1U);
}

}  // namespace
}  // namespace weft
