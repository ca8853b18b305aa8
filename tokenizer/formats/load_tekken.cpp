#include "tokenizer/formats/load_tekken.h"

#include <numeric>
#include <optional>
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

std::vector<std::string> names_of_specials(const json& root, size_t num_specials) {
  std::vector<std::string> names(num_specials);
  for (size_t id = 0; id < num_specials; ++id) {
    names[id] = id < std::size(kSpecials) ? std::string(kSpecials[id])
                                          : "<SPECIAL_" + std::to_string(id) + ">";
  }
  for (const json& special : member(root, "special_tokens")) {
    const int32_t id = id_of(special, "rank");
    const std::string name = text_of(special, "token_str");
    if (id >= 0 && static_cast<size_t>(id) < num_specials && !name.empty())
      names[static_cast<size_t>(id)] = name;
  }
  return names;
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
  Vocabulary::Parts parts = {
      .name = file.name,
      .entries = names_of_specials(root, static_cast<size_t>(num_specials)),
      .merges = {},
      .merge_table = MergeTable(0),
      .special_tokens = std::vector<int32_t>(static_cast<size_t>(num_specials)),
      .end_of_document = kEndOfDocument,
      .prefix_ids = {kBeginOfText},
      .pattern = make_split_pattern(SplitKind::kTekken, options.unicode),
      .pattern_name = std::string(name_of(SplitKind::kTekken))};
  std::iota(parts.special_tokens.begin(), parts.special_tokens.end(), 0);
  std::vector<int32_t> by_rank(static_cast<size_t>(num_ids - num_specials));
  std::iota(by_rank.begin(), by_rank.end(), num_specials);
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    parts.entries.push_back(std::move(ranks.entries[rank]));
  set_ranked_entries(by_rank, parts);
  return std::make_shared<const Vocabulary>(std::move(parts));
}

}  // namespace weft
