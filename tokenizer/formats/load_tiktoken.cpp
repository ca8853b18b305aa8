#include "tokenizer/formats/load_tiktoken.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/formats/end_of_document.h"
#include "tokenizer/formats/known_patterns.h"
#include "tokenizer/formats/rank_families.h"
#include "tokenizer/formats/ranks.h"

namespace weft {
namespace {

constexpr int32_t kMaxRank = (1 << 24) - 1;

struct RankedEntry {
  std::string bytes;
  int32_t rank;
};

std::optional<RankedEntry> parse_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::optional<std::string> bytes = from_base64(line.substr(0, space));
  int32_t rank = -1;
  const char* const end = line.data() + line.size();
  const auto [parsed, error] = std::from_chars(line.data() + space + 1, end, rank);
  if (!bytes || bytes->empty() || error != std::errc() || parsed != end || rank < 0)
    return std::nullopt;
  return RankedEntry{std::move(*bytes), rank};
}

// Sets the entries by rank, and returns the ranks that are there, in order.
std::vector<int32_t> read_ranks(const NamedBytes& file, Vocabulary::Parts& parts) {
  std::vector<int32_t> ranks;
  size_t line_number = 0;
  for (size_t begin = 0; begin < file.bytes.size();) {
    const size_t end = std::min(file.bytes.find('\n', begin), file.bytes.size());
    std::optional<RankedEntry> entry = parse_line(file.bytes.substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    const auto refuse = [&](const std::string& why) {
      throw std::runtime_error(file.name + ":" + std::to_string(line_number) + ": " + why);
    };
    if (!entry) {
      refuse("not a line of a rank file (base64, a space, the rank); is the file whole?");
    } else if (entry->rank > kMaxRank) {
      refuse("rank " + std::to_string(entry->rank) + " is above 2^24");
    }
    const auto id = static_cast<size_t>(entry->rank);
    if (id >= parts.entries.size()) parts.entries.resize(id + 1);
    if (!parts.entries[id].empty())
      refuse("rank " + std::to_string(entry->rank) + " stands there twice");
    parts.entries[id] = std::move(entry->bytes);
    ranks.push_back(entry->rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

const RankFamily& family_of(const NamedBytes& file, const LoadOptions& options) {
  const RankFamily* const family = find_rank_family(options.tiktoken_pattern, options.sha256);
  if (family != nullptr) return *family;
  throw std::runtime_error(
      file.name +
      (options.tiktoken_pattern.empty()
           ? ": a rank file that is none of the published ones, and it does not name its pattern; "
             "say it by --tiktoken-pattern, one of "
           : ": there is no pattern '" + options.tiktoken_pattern +
                 "' for rank files (Megatron-LM's v1 and v2 are for its lists in JSON), only ") +
      names_of_rank_families());
}

// A file of another size is a vocabulary of its own with the family's pattern.
void add_specials(const RankFamily& family, size_t num_entries, Vocabulary::Parts& parts) {
  if (num_entries != family.num_entries) return;
  for (SpecialOfFamily& special : family.specials()) {
    const auto id = static_cast<size_t>(special.id);
    if (id >= parts.entries.size()) parts.entries.resize(id + 1);
    if (!parts.entries[id].empty()) {
      throw std::runtime_error(parts.name + ": rank " + std::to_string(id) + " is the id of " +
                               special.text + "; the file is damaged or has another pattern");
    }
    parts.entries[id] = special.text;
    parts.special_tokens.push_back(special.id);
    parts.added_tokens.push_back({.content = std::move(special.text), .id = special.id});
  }
  parts.prefix_ids = family.prefix_ids;
}

}  // namespace

bool is_rank_file(std::string_view bytes) {
  return parse_line(bytes.substr(0, bytes.find('\n'))).has_value();
}

std::shared_ptr<const Vocabulary> load_tiktoken(const NamedBytes& file,
                                                const LoadOptions& options) {
  const RankFamily& family = family_of(file, options);
  Vocabulary::Parts parts = {.name = file.name,
                             .entries = {},
                             .merges = {},
                             .merge_table = MergeTable(0),
                             .normalizer = family.normalizer,
                             .pattern = make_split_pattern(family.pattern, options.unicode),
                             .pattern_name = std::string(name_of(family.pattern))};
  const std::vector<int32_t> ranks = read_ranks(file, parts);
  set_ranked_entries(ranks, parts);
  add_specials(family, ranks.size(), parts);
  parts.end_of_document = find_end_of_document(parts);
  return std::make_shared<const Vocabulary>(std::move(parts));
}

}  // namespace weft
