#include "tokenizer/formats/load_tekken.h"

#include <cstdio>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/formats/json_members.h"
#include "tokenizer/formats/json_stream.h"
#include "tokenizer/formats/known_patterns.h"
#include "tokenizer/formats/ranks.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr size_t kMaxTekkenIds = size_t{1} << 24;

// The names of files that do not list them (mistral-common 1.13.1, tokens/tokenizers/tekken.py);
// those behind are <SPECIAL_20>, ...
constexpr std::string_view kSpecials[] = {"<unk>",
                                          "<s>",
                                          "</s>",
                                          "[INST]",
                                          "[/INST]",
                                          "[AVAILABLE_TOOLS]",
                                          "[/AVAILABLE_TOOLS]",
                                          "[TOOL_RESULTS]",
                                          "[/TOOL_RESULTS]",
                                          "[TOOL_CALLS]",
                                          "[IMG]",
                                          "<pad>",
                                          "[IMG_BREAK]",
                                          "[IMG_END]",
                                          "[PREFIX]",
                                          "[MIDDLE]",
                                          "[SUFFIX]",
                                          "[SYSTEM_PROMPT]",
                                          "[/SYSTEM_PROMPT]",
                                          "[TOOL_CONTENT]"};
constexpr int32_t kBeginOfText = 1, kEndOfDocument = 2;
// Those of Megatron-LM (core/tokenizers/text/libraries/tiktoken_tokenizer.py).
constexpr std::string_view kMegatronSpecials[] = {"<unk>", "<s>",   "</s>", "<mask>",
                                                  "<pad>", "<cls>", "<sep>"};

// `vocab`: its entries must stand in order of rank.
class RanksSink final : public JsonSink {
 public:
  explicit RanksSink(const std::string& file) : file_(file) {}

  void on_key(std::string_view key) override { key_ = key; }
  void on_integer(int64_t value) override {
    if (key_ == "rank" && depth_ == 1) rank_ = value;
  }
  void on_string(std::string_view text) override {
    if (key_ != "token_bytes" || depth_ != 1) return;
    bytes_ = from_base64(text);
    if (!bytes_ || bytes_->empty()) fail("has token_bytes that are not base64");
  }
  void on_other() override {}
  void on_open(bool) override { ++depth_; }
  void on_close() override {
    if (--depth_ > 0) return;
    if (rank_ != std::ssize(entries) || !bytes_)
      fail("must have rank " + std::to_string(entries.size()) + " and token_bytes");
    if (entries.size() == kMaxTekkenIds) fail("is one of more than 2^24");
    entries.push_back(std::move(*bytes_));
    rank_ = -1;
    bytes_.reset();
  }

  std::vector<std::string> entries = {};

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(file_ + ": entry number " + std::to_string(entries.size()) +
                             " of vocab " + why);
  }

  std::string file_, key_;
  int depth_ = 0;
  int64_t rank_ = -1;
  std::optional<std::string> bytes_;
};

// The known names, then <SPECIAL_7> and so on.
std::vector<std::string> filled_specials(std::span<const std::string_view> known,
                                         int32_t num_specials) {
  std::vector<std::string> names;
  for (size_t id = 0; id < static_cast<size_t>(num_specials); ++id) {
    names.push_back(id < known.size() ? std::string(known[id])
                                      : "<SPECIAL_" + std::to_string(id) + ">");
  }
  return names;
}

std::vector<std::string> names_of_specials(const json& root, int32_t num_specials) {
  std::vector<std::string> names = filled_specials(kSpecials, num_specials);
  for (const json& special : member(root, "special_tokens")) {
    const int32_t id = id_of(special, "rank");
    const std::string name = text_of(special, "token_str");
    if (id >= 0 && id < num_specials && !name.empty()) names[static_cast<size_t>(id)] = name;
  }
  return names;
}

// Special tokens, then as many entries as there are ids left.
Vocabulary::Parts parts_of_ranks(const NamedBytes& file, const LoadOptions& options,
                                 std::vector<std::string> specials, std::vector<std::string> ranked,
                                 int32_t num_ids, SplitKind pattern) {
  const auto num_specials = static_cast<int32_t>(specials.size());
  Vocabulary::Parts parts = {
      .name = file.name,
      .entries = std::move(specials),
      .merges = {},
      .merge_table = MergeTable(0),
      .special_tokens = std::vector<int32_t>(static_cast<size_t>(num_specials)),
      .end_of_document = kEndOfDocument,
      .pattern = make_split_pattern(pattern, options.unicode),
      .pattern_name = std::string(name_of(pattern))};
  std::iota(parts.special_tokens.begin(), parts.special_tokens.end(), 0);
  std::vector<int32_t> by_rank(static_cast<size_t>(num_ids - num_specials));
  std::iota(by_rank.begin(), by_rank.end(), num_specials);
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    parts.entries.push_back(std::move(ranked[rank]));
  set_ranked_entries(by_rank, parts);
  return parts;
}

// "v1" or "v2", or one of them with two numbers.
struct MegatronPattern {
  SplitKind kind = SplitKind::kTekken;
  int32_t num_specials = 1000, num_ids = 131072;
};
MegatronPattern megatron_pattern(const std::string& given, const std::string& file) {
  MegatronPattern pattern;
  char version = 0, rest = 0;
  const int num_read = std::sscanf(given.c_str(), "v%c,%d,%d%c", &version, &pattern.num_specials,
                                   &pattern.num_ids, &rest);
  if ((given.size() == 2 && num_read == 1) || num_read == 3) {
    pattern.kind = version == '1' ? SplitKind::kMegatronV1 : SplitKind::kTekken;
    if (version == '1' || version == '2') return pattern;
  }
  throw std::runtime_error(file + ": a list of ranks as Megatron-LM's TikTokenizer has it: " +
                           (given.empty() ? "" : "'" + given + "' is no pattern of it; ") +
                           "name its pattern by --tiktoken-pattern v1 or v2");
}

}  // namespace

std::shared_ptr<const Vocabulary> load_tekken(const NamedBytes& file, const LoadOptions& options) {
  RanksSink ranks(file.name);
  const json root = parse_json_stream(file, {{"vocab", true, &ranks}});
  const json& config = member(root, "config");
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error(file.name + ": " + why);
  };
  const std::string regex = text_of(config, "pattern");
  if (!is_tekken_pattern(regex)) refuse("its pattern is not Tekken's. It is: " + regex);
  const int32_t num_ids = id_of(config, "default_vocab_size");
  const int32_t num_specials = id_of(config, "default_num_special_tokens");
  if (num_specials <= kEndOfDocument || num_ids <= num_specials ||
      num_ids - num_specials > std::ssize(ranks.entries)) {
    refuse("its config has default_vocab_size " + std::to_string(num_ids) +
           " and default_num_special_tokens " + std::to_string(num_specials) + ", but vocab has " +
           std::to_string(ranks.entries.size()) + " entries; is the file whole?");
  }
  Vocabulary::Parts parts = parts_of_ranks(file, options, names_of_specials(root, num_specials),
                                           std::move(ranks.entries), num_ids, SplitKind::kTekken);
  parts.prefix_ids = {kBeginOfText};
  return std::make_shared<const Vocabulary>(std::move(parts));
}

std::shared_ptr<const Vocabulary> load_megatron_ranks(const NamedBytes& file,
                                                      const LoadOptions& options) {
  const MegatronPattern pattern = megatron_pattern(options.tiktoken_pattern, file.name);
  RanksSink ranks(file.name);
  parse_json_stream(file, {{"", true, &ranks}});
  const auto num_entries = static_cast<int64_t>(ranks.entries.size());
  const int32_t num_specials = pattern.num_specials, num_ids = pattern.num_ids;
  if (num_specials < std::ssize(kMegatronSpecials) || num_ids <= num_specials ||
      num_ids - num_specials > num_entries) {
    throw std::runtime_error(
        file.name + ": it has " + std::to_string(num_entries) + " entries, which with " +
        std::to_string(num_specials) + " special tokens do not make a vocabulary of " +
        std::to_string(num_ids) +
        "; say by --tiktoken-num-special-tokens (at least 7) and --vocab-size what Megatron-LM was "
        "told");
  }
  Vocabulary::Parts parts =
      parts_of_ranks(file, options, filled_specials(kMegatronSpecials, num_specials),
                     std::move(ranks.entries), num_ids, pattern.kind);
  for (const int32_t id : parts.special_tokens) {
    parts.added_tokens.push_back({.content = parts.entries[static_cast<size_t>(id)], .id = id});
  }
  return std::make_shared<const Vocabulary>(std::move(parts));
}

}  // namespace weft
