#include "trainer/log/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>

namespace weft {

namespace {

// The end of the names of a run's files; only they are ever cut.
std::string suffix_of(const std::string& run_id) { return "." + run_id + ".weft"; }

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    table[byte] = crc;
  }
  return table;
}

uint32_t masked_crc(std::string_view data) { return std::rotr(crc32c(data), 15) + 0xa282ead8U; }

// Appends the little-endian bytes of a number; the hosts that this runs on are little-endian.
template <typename T>
void append_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// --- protobuf's wire format: key = field << 3 | type ---
// The types are 0 varint, 1 64 bits, 2 length-delimited, 5 32 bits.

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void append_key(std::string& out, int field, int type) {
  append_varint(out, static_cast<uint64_t>(field << 3 | type));
}
void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_key(out, field, 2);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double wall_time, std::optional<int64_t> step) {
  std::string event;
  append_key(event, 1, 1);
  append_raw(event, wall_time);
  if (step) {
    append_key(event, 2, 0);
    append_varint(event, static_cast<uint64_t>(*step));
  }
  return event;
}

std::string record_of(const std::string& data) {
  std::string record;
  append_raw(record, static_cast<uint64_t>(data.size()));
  append_raw(record, masked_crc(record));
  record += data;
  append_raw(record, masked_crc(data));
  return record;
}

template <typename T>
T read_raw(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Takes a number off the front of `bytes`.
uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; !bytes.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes[0]);
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

struct Place {
  int64_t step = 0;
  std::string_view tag;  // that of the first value
};

// Reads the place of a whole record, whose step event_at() wrote behind the key and the 8 bytes of
// wall_time. A record of the file version has none.
Place place_of(std::string_view record) {
  constexpr size_t kStepKey = 12 + 9;
  if (record.size() <= kStepKey || record[kStepKey] != (2 << 3)) return {};
  record.remove_prefix(kStepKey + 1);
  Place place{.step = static_cast<int64_t>(take_varint(record)), .tag = {}};
  uint64_t size = 0;
  // The summary, its first value, and the tag of that.
  for (int level = 0; level < 3 && !record.empty(); ++level) {
    record.remove_prefix(1);
    size = take_varint(record);
  }
  place.tag = record.substr(0, size);
  return place;
}

double wall_time_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc_table();
  uint32_t crc = ~0U;
  for (const char c : data) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string version_record(double wall_time) {
  std::string event = event_at(wall_time, std::nullopt);
  append_bytes(event, 3, "brain.Event:2");
  return record_of(event);
}

std::string scalars_record(double wall_time, int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, 1, scalar.tag);
    append_key(value, 2, 5);
    append_raw(value, scalar.value);
    append_bytes(summary, 1, value);
  }
  std::string event = event_at(wall_time, step);
  append_bytes(event, 5, summary);
  return record_of(event);
}

std::string text_record(double wall_time, int64_t step, const std::string& tag,
                        const std::string& text) {
  std::string tensor, plugin, metadata, value, summary;
  append_key(tensor, 1, 0);
  append_varint(tensor, 7);
  append_bytes(tensor, 2, "");
  append_bytes(tensor, 8, text);
  append_bytes(plugin, 1, "text");
  append_bytes(metadata, 1, plugin);
  append_bytes(value, 1, tag);
  append_bytes(value, 8, tensor);
  append_bytes(value, 9, metadata);
  append_bytes(summary, 1, value);
  std::string event = event_at(wall_time, step);
  append_bytes(event, 5, summary);
  return record_of(event);
}

std::vector<std::string_view> whole_records(std::string_view file) {
  constexpr size_t kHeader = sizeof(uint64_t) + sizeof(uint32_t), kFooter = sizeof(uint32_t);
  std::vector<std::string_view> records;
  while (file.size() >= kHeader + kFooter) {
    const auto size = read_raw<uint64_t>(file);
    const std::string_view length = file.substr(0, sizeof(uint64_t));
    if (read_raw<uint32_t>(file.substr(length.size())) != masked_crc(length)) break;
    if (size > file.size() - kHeader - kFooter) break;
    const std::string_view data = file.substr(kHeader, size);
    if (read_raw<uint32_t>(file.substr(kHeader + size)) != masked_crc(data)) break;
    records.push_back(file.substr(0, kHeader + size + kFooter));
    file.remove_prefix(records.back().size());
  }
  return records;
}

int64_t drop_events_after(const std::filesystem::path& folder, const std::string& run_id,
                          int64_t iteration, int64_t consumed_samples) {
  if (!std::filesystem::exists(folder)) return 0;
  int64_t num_dropped = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with(suffix_of(run_id))) continue;
    const std::string text = read_file(entry.path());
    const std::vector<std::string_view> records = whole_records(text);
    // One process has written the file, whose steps only grow.
    const auto dropped = std::find_if(records.begin(), records.end(), [&](std::string_view record) {
      const Place place = place_of(record);
      return place.step > (place.tag.ends_with(" vs samples") ? consumed_samples : iteration);
    });
    size_t kept_bytes = 0;
    for (auto record = records.begin(); record != dropped; ++record) kept_bytes += record->size();
    if (kept_bytes < text.size()) std::filesystem::resize_file(entry.path(), kept_bytes);
    num_dropped += records.end() - dropped;
  }
  return num_dropped;
}

EventFile::EventFile(const std::filesystem::path& folder, const std::string& run_id) {
  std::filesystem::create_directories(folder);
  const double now = wall_time_now();
  // The process id tells a killed run apart from the one that replaces it within the same second.
  file_ = OutputFile(folder / fmt::format("events.out.tfevents.{:010d}.{}.{}{}",
                                          static_cast<int64_t>(now), host_name(), getpid(),
                                          suffix_of(run_id)));
  write(version_record(now));
}

void EventFile::add(int64_t step, const std::vector<Scalar>& scalars) {
  write(scalars_record(wall_time_now(), step, scalars));
}

void EventFile::add_text(int64_t step, const std::string& tag, const std::string& text) {
  write(text_record(wall_time_now(), step, tag, text));
}

void EventFile::write(const std::string& record) { file_.append(record.data(), record.size()); }

}  // namespace weft
