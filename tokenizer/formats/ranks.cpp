#include "tokenizer/formats/ranks.h"

#include <array>
#include <stdexcept>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/formats/entry_index.h"

namespace weft {
namespace {

// Finding the merges takes time quadratic in an entry's length. The longest of o200k has 128 bytes,
// all of them have 1.5 MB.
constexpr size_t kMaxRankedBytes = 256;
constexpr size_t kMaxRankedBytesOfAll = size_t{16} << 20;

constexpr std::array<int8_t, 256> kBase64Values = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  int8_t value = 0;
  for (const char c :
       std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
    values[static_cast<uint8_t>(c)] = value++;
  return values;
}();

}  // namespace

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const int value = kBase64Values[static_cast<uint8_t>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(bits >> num_bits);
  }
  return bytes;
}

void set_ranked_entries(const std::vector<int32_t>& by_rank, Vocabulary::Parts& parts) {
  EntryIndex ids(by_rank.size());
  size_t num_bytes = 0;
  for (const int32_t id : by_rank) {
    const std::string& entry = parts.entries[static_cast<size_t>(id)];
    num_bytes += entry.size();
    const auto refuse = [&](const std::string& why) {
      throw std::runtime_error(parts.name + ": the entry of id " + std::to_string(id) + why);
    };
    if (entry.empty()) refuse(" is empty");
    if (entry.size() > kMaxRankedBytes || num_bytes > kMaxRankedBytesOfAll)
      refuse(": entries of more than 256 bytes, or 16 MiB in all, are not supported");
    if (!ids.add(entry, id)) refuse(" ('" + to_printable(entry) + "') has another id, too");
  }
  std::vector<MergeTable::Rule> rules;
  for (uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    const int32_t id = by_rank[rank];
    const std::string_view entry = parts.entries[static_cast<size_t>(id)];
    for (size_t cut = 1; cut < entry.size(); ++cut) {
      const int32_t left = ids.find(entry.substr(0, cut));
      if (left < 0) continue;
      const int32_t right = ids.find(entry.substr(cut));
      if (right < 0) continue;
      parts.merges.push_back({left, right, id});
      rules.push_back({rank, id});
    }
  }
  parts.merge_table = MergeTable(rules.size());
  for (size_t i = 0; i < rules.size(); ++i)
    parts.merge_table.add(parts.merges[i].left, parts.merges[i].right, rules[i]);
  for (const int32_t id : by_rank) {
    const std::string& entry = parts.entries[static_cast<size_t>(id)];
    if (entry.size() == 1) parts.merge_table.set_byte(static_cast<uint8_t>(entry[0]), id);
    parts.merge_table.add_entry(entry);
  }
  parts.whole_pieces = by_rank;
}

}  // namespace weft
