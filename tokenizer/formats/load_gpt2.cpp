#include "tokenizer/formats/load_gpt2.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/split/split_patterns.h"

namespace weft {
namespace {

// No vocabulary in use has so many; numbers of this size leave room for flags beside them.
constexpr size_t kMaxEntries = size_t{1} << 24;

constexpr int32_t kNoId = -1;

[[noreturn]] void fail(const std::string& where, const std::string& why) {
  throw std::runtime_error(where + ": " + why);
}

// True for entries such as <|endoftext|>, <pad> and [MASK]: vocab.json does not say which ones are
// special.
bool is_written_as_special(std::string_view entry) {
  if (entry.size() < 3) return false;
  return (entry.front() == '<' && entry.back() == '>') ||
         (entry.front() == '[' && entry.back() == ']');
}

nlohmann::json parse_object(const NamedBytes& file) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(file.bytes);
  } catch (const nlohmann::json::parse_error& error) {
    fail(file.name, std::string("not JSON: ") + error.what());
  }
  if (!json.is_object()) {
    fail(
        file.name,
        "not a vocabulary: a JSON object of entries and ids is expected, as GPT-2's vocab.json is");
  }
  return json;
}

// Reads vocab.json, an object of "printable form of the entry": id.
std::vector<std::string> read_entries(const NamedBytes& vocab_json) {
  const std::string& file = vocab_json.name;
  const nlohmann::json json = parse_object(vocab_json);
  if (json.size() > kMaxEntries) fail(file, "more than 2^24 entries");
  std::vector<std::string> entries(json.size());
  std::vector<bool> seen(json.size());
  for (const auto& [key, value] : json.items()) {
    if (!value.is_number_integer()) fail(file, "entry '" + key + "': its id is not an integer");
    const int64_t id =
        value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX ? -1 : value.get<int64_t>();
    if (id < 0 || id >= static_cast<int64_t>(json.size())) {
      fail(file, "entry '" + key + "' has id " + value.dump() + ", but the ids of " +
                     std::to_string(json.size()) + " entries must be 0 to " +
                     std::to_string(json.size() - 1));
    }
    if (seen[id]) fail(file, "entry '" + key + "': id " + std::to_string(id) + " is used twice");
    seen[id] = true;
    std::optional<std::string> bytes = from_printable(key);
    if (!bytes || bytes->empty()) {
      fail(file, "entry '" + key + "' (id " + std::to_string(id) +
                     ") is not written in GPT-2's printable alphabet of 256 characters");
    }
    entries[id] = std::move(*bytes);
  }
  return entries;
}

class Gpt2Loader {
 public:
  Gpt2Loader(const NamedBytes& vocab_json, const NamedBytes& merges_txt)
      : vocab_file_(vocab_json.name),
        merge_file_(merges_txt.name),
        parts_{
            .name = vocab_json.name,
            .entries = read_entries(vocab_json),
            .merges = {},
            .merge_table = MergeTable(static_cast<size_t>(std::count(
                                          merges_txt.bytes.begin(), merges_txt.bytes.end(), '\n')) +
                                      1),
            .pattern = make_split_pattern(SplitKind::kGpt2),
            .pattern_name = "gpt2"} {
    find_ids();
    take_bytes();
    read_merges(merges_txt.bytes);
    find_special_tokens();
  }
  Vocabulary::Parts& parts() { return parts_; }

 private:
  void find_ids();
  void take_bytes();
  void read_merges(std::string_view content);
  void add_merge(std::string_view line, const std::string& where);
  void find_special_tokens();
  int32_t find(std::string_view bytes) const {
    const auto found = ids_.find(bytes);
    return found == ids_.end() ? kNoId : found->second;
  }

  std::string vocab_file_, merge_file_;
  Vocabulary::Parts parts_;
  // Of all entries but <|endoftext|>, which no merge makes; the keys are views of them.
  std::unordered_map<std::string_view, int32_t> ids_;
};

void Gpt2Loader::find_ids() {
  ids_.reserve(parts_.entries.size());
  for (int32_t id = 0; id < std::ssize(parts_.entries); ++id) {
    const std::string& entry = parts_.entries[id];
    if (entry == kEndOfText) {
      parts_.end_of_document = id;
      parts_.added_tokens.push_back({.content = entry, .id = id});
      continue;
    }
    ids_.emplace(entry, id);
    parts_.merge_table.add_entry(entry);
  }
}

void Gpt2Loader::take_bytes() {
  for (int value = 0; value < 256; ++value) {
    const std::string byte(1, static_cast<char>(value));
    const int32_t id = find(byte);
    if (id < 0) {
      fail(vocab_file_, "no entry for byte " + std::to_string(value) + " ('" + to_printable(byte) +
                            "'); a byte-level vocabulary has all 256");
    }
    parts_.merge_table.set_byte(static_cast<uint8_t>(value), id);
  }
}

// Reads merges.txt: an optional line "#version: ...", then "left right" in order of rank. Editors
// and version control leave carriage returns, or no line feed at the end.
void Gpt2Loader::read_merges(std::string_view content) {
  size_t line_number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line = content.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    ++line_number;
    if (line_number == 1 && line.starts_with("#version")) continue;
    if (line.empty() && begin >= content.size()) break;
    add_merge(line, merge_file_ + ":" + std::to_string(line_number));
  }
}

void Gpt2Loader::add_merge(std::string_view line, const std::string& where) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    fail(where, "'" + std::string(line) +
                    "' is not a merge: two entries with one space between them are expected");
  }
  const std::optional<std::string> left = from_printable(line.substr(0, space));
  const std::optional<std::string> right = from_printable(line.substr(space + 1));
  const int32_t left_id = left ? find(*left) : kNoId;
  const int32_t right_id = right ? find(*right) : kNoId;
  const int32_t result = left_id >= 0 && right_id >= 0 ? find(*left + *right) : kNoId;
  if (result < 0) {
    const std::string_view missing = left_id < 0    ? line.substr(0, space)
                                     : right_id < 0 ? line.substr(space + 1)
                                                    : std::string_view("the two joined");
    fail(where, "merge '" + std::string(line) + "': " + std::string(missing) + " is no entry of " +
                    vocab_file_ + "; do both files belong to the same vocabulary?");
  }
  const auto rank = static_cast<uint32_t>(parts_.merges.size());
  if (!parts_.merge_table.add(left_id, right_id, {rank, result})) {
    fail(where, "merge '" + std::string(line) + "' stands in the file twice");
  }
  parts_.merges.push_back({left_id, right_id, result});
}

// Entries that are neither a byte nor made by a merge must be special tokens.
void Gpt2Loader::find_special_tokens() {
  std::vector<bool> is_made(parts_.entries.size());
  for (const Vocabulary::Merge& merge : parts_.merges) is_made[merge.result] = true;
  int32_t first_missing = -1;
  int64_t num_missing = 0;
  for (int32_t id = 0; id < std::ssize(parts_.entries); ++id) {
    const std::string& entry = parts_.entries[id];
    if (is_made[id] || entry.size() == 1) continue;
    if (is_written_as_special(entry)) {
      parts_.special_tokens.push_back(id);
    } else if (num_missing++ == 0) {
      first_missing = id;
    }
  }
  if (num_missing == 0) return;
  fail(merge_file_,
       "has " + std::to_string(parts_.merges.size()) + " merges, and none makes the entry '" +
           to_printable(parts_.entries[first_missing]) + "' (id " + std::to_string(first_missing) +
           ")" + (num_missing > 1 ? " or " + std::to_string(num_missing - 1) + " others" : "") +
           " of " + vocab_file_ +
           ": the file is cut off, or the two belong to different vocabularies; fetch both again");
}

}  // namespace

std::shared_ptr<const Vocabulary> load_gpt2(const NamedBytes& vocab_json,
                                            const NamedBytes& merges_txt) {
  Gpt2Loader loader(vocab_json, merges_txt);
  return std::make_shared<const Vocabulary>(std::move(loader.parts()));
}

}  // namespace weft
