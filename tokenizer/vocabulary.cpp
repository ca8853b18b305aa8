#include "tokenizer/vocabulary.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merge/backtrack_table.h"
#include "tokenizer/merge/merge_table.h"
#include "tokenizer/merge/pair_table.h"
#include "tokenizer/merge/word_merger.h"

namespace weft {
namespace {

// No vocabulary in use has so many; numbers of this size leave room for flags beside them.
constexpr size_t kMaxEntries = size_t{1} << 24;

std::string read_file(const std::filesystem::path& path) {
  std::error_code is_missing;
  if (const auto status = std::filesystem::status(path, is_missing);
      std::filesystem::is_other(status) || std::filesystem::is_fifo(status)) {
    throw std::system_error(
        EINVAL, std::generic_category(),
        path.string() + ": cannot read the vocabulary from a pipe or a device, only from a file");
  }
  std::ifstream in(path, std::ios::binary);
  std::string content;
  if (in) content.assign(std::istreambuf_iterator<char>(in), {});
  if (!in || in.bad() || std::filesystem::is_directory(path)) {
    const int error = std::filesystem::is_directory(path) ? EISDIR : errno != 0 ? errno : EIO;
    throw std::system_error(
        error, std::generic_category(),
        path.string() + ": cannot read the vocabulary; give GPT-2's vocab.json and merges.txt");
  }
  return content;
}

[[noreturn]] void fail(const std::string& where, const std::string& why) {
  throw std::runtime_error(where + ": " + why);
}

// True for entries such as <|endoftext|>, <pad> and [MASK], which no merge needs to make.
bool is_special(std::string_view entry) {
  if (entry.size() < 3) return false;
  return (entry.front() == '<' && entry.back() == '>') ||
         (entry.front() == '[' && entry.back() == ']');
}

nlohmann::json parse_object(const std::filesystem::path& path) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(read_file(path));
  } catch (const nlohmann::json::parse_error& error) {
    fail(path.string(), std::string("not JSON: ") + error.what());
  }
  if (!json.is_object()) {
    fail(
        path.string(),
        "not a vocabulary: a JSON object of entries and ids is expected, as GPT-2's vocab.json is");
  }
  return json;
}

}  // namespace

struct Vocabulary::Index {
  explicit Index(size_t num_merges) : merges(num_merges) {}
  std::unordered_map<std::string_view, int32_t> ids;  // keys are views of bytes_; no special token
  MergeTable merges;
  std::once_flag backtrack_table_made;
  std::optional<BacktrackTable> backtrack_table;
  template <typename Token>
  struct LazyPairs {
    std::once_flag made;
    std::optional<PairTable<Token>> table;
  };
  std::tuple<LazyPairs<uint16_t>, LazyPairs<uint32_t>> pairs;
};

std::shared_ptr<const Vocabulary> Vocabulary::load(const std::filesystem::path& vocab_file,
                                                   const std::filesystem::path& merge_file) {
  std::shared_ptr<Vocabulary> vocabulary(new Vocabulary);
  vocabulary->vocab_file_ = vocab_file;
  vocabulary->merge_file_ = merge_file;
  vocabulary->read_entries();
  vocabulary->read_merges();
  vocabulary->check_that_merges_make_every_entry();
  vocabulary->entries_encode_to_themselves_ = vocabulary->every_entry_encodes_to_itself();
  return vocabulary;
}

// Reads vocab.json, an object of "printable form of the entry": id.
void Vocabulary::read_entries() {
  const std::string file = vocab_file_.string();
  const nlohmann::json json = parse_object(vocab_file_);
  if (json.size() > kMaxEntries) fail(file, "more than 2^24 entries");
  bytes_.resize(json.size());
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
    bytes_[id] = std::move(*bytes);
    if (bytes_[id] == kEndOfText) end_of_document_ = static_cast<int32_t>(id);
  }
}

// Reads merges.txt: an optional line "#version: ...", then "left right" in order of rank.
void Vocabulary::read_merges() {
  const std::string file = merge_file_.string();
  const std::string content = read_file(merge_file_);
  index_ = std::make_shared<Index>(
      static_cast<size_t>(std::count(content.begin(), content.end(), '\n')) + 1);
  index_->ids.reserve(bytes_.size());
  for (int32_t id = 0; id < size(); ++id) {
    if (id == end_of_document_) continue;
    index_->ids.emplace(bytes_[id], id);
    index_->merges.add_entry(bytes_[id]);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::optional<int32_t> id = find(std::string(1, static_cast<char>(byte)));
    if (!id) {
      fail(vocab_file_.string(), "no entry for byte " + std::to_string(byte) + " ('" +
                                     to_printable(std::string(1, static_cast<char>(byte))) +
                                     "'); a byte-level vocabulary has all 256");
    }
    index_->merges.set_byte(static_cast<uint8_t>(byte), *id);
  }
  size_t line_number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view line(content.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    ++line_number;
    if (line_number == 1 && line.starts_with("#version")) continue;
    if (line.empty() && begin >= content.size()) break;
    add_merge(line, file + ":" + std::to_string(line_number));
  }
}

void Vocabulary::add_merge(std::string_view line, const std::string& where) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    fail(where, "'" + std::string(line) +
                    "' is not a merge: two entries with one space between them are expected");
  }
  const std::optional<std::string> left = from_printable(line.substr(0, space));
  const std::optional<std::string> right = from_printable(line.substr(space + 1));
  const int32_t left_id = left ? find(*left).value_or(-1) : -1;
  const int32_t right_id = right ? find(*right).value_or(-1) : -1;
  const int32_t result = left_id >= 0 && right_id >= 0 ? find(*left + *right).value_or(-1) : -1;
  if (result < 0) {
    const std::string_view missing = left_id < 0    ? line.substr(0, space)
                                     : right_id < 0 ? line.substr(space + 1)
                                                    : std::string_view("the two joined");
    fail(where, "merge '" + std::string(line) + "': " + std::string(missing) + " is no entry of " +
                    vocab_file_.string() + "; do both files belong to the same vocabulary?");
  }
  const auto rank = static_cast<uint32_t>(merges_.size());
  if (!index_->merges.add(left_id, right_id, {rank, result})) {
    fail(where, "merge '" + std::string(line) + "' stands in the file twice");
  }
  merges_.push_back({left_id, right_id, result});
}

void Vocabulary::check_that_merges_make_every_entry() const {
  std::vector<bool> is_made(bytes_.size());
  for (const Merge& merge : merges_) is_made[merge.result] = true;
  int32_t first_missing = -1;
  int64_t num_missing = 0;
  for (int32_t id = 0; id < size(); ++id) {
    if (is_made[id] || bytes_[id].size() == 1 || is_special(bytes_[id])) continue;
    if (num_missing++ == 0) first_missing = id;
  }
  if (num_missing == 0) return;
  fail(merge_file_.string(),
       "has " + std::to_string(merges_.size()) + " merges, and none makes the entry '" +
           to_printable(bytes_[first_missing]) + "' (id " + std::to_string(first_missing) + ")" +
           (num_missing > 1 ? " or " + std::to_string(num_missing - 1) + " others" : "") + " of " +
           vocab_file_.string() +
           ": the file is cut off, or the two belong to different vocabularies; fetch both again");
}

bool Vocabulary::every_entry_encodes_to_itself() const {
  WordMerger merger(index_->merges);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < size(); ++id) {
    if (id == end_of_document_) continue;
    ids.clear();
    merger.merge(bytes_[id], ids);
    if (ids.size() != 1 || ids[0] != id) return false;
  }
  return true;
}

int32_t Vocabulary::end_of_document() const {
  if (end_of_document_ < 0) {
    throw std::runtime_error(vocab_file_.string() +
                             ": the vocabulary has no entry <|endoftext|> to end documents with");
  }
  return end_of_document_;
}

const std::string& Vocabulary::bytes(int32_t id) const {
  if (id < 0 || id >= size()) {
    throw std::out_of_range("token id " + std::to_string(id) + " is not in the vocabulary of " +
                            std::to_string(size()) + " ids");
  }
  return bytes_[id];
}

std::optional<int32_t> Vocabulary::find(std::string_view bytes) const {
  const auto it = index_->ids.find(bytes);
  if (it == index_->ids.end()) return std::nullopt;
  return it->second;
}

const MergeTable& Vocabulary::merge_table() const { return index_->merges; }

MergeRules Vocabulary::rules() const { return {bytes_, merges_, index_->merges}; }

const BacktrackTable* Vocabulary::backtrack_table() const {
  std::call_once(index_->backtrack_table_made, [this] {
    if (entries_encode_to_themselves_) index_->backtrack_table = BacktrackTable::make(rules());
  });
  return index_->backtrack_table ? &*index_->backtrack_table : nullptr;
}

template <typename Token>
const PairTable<Token>* Vocabulary::pair_table() const {
  auto& pairs = std::get<Index::LazyPairs<Token>>(index_->pairs);
  std::call_once(pairs.made, [&] {
    if (entries_encode_to_themselves_) pairs.table = PairTable<Token>::make(rules());
  });
  return pairs.table ? &*pairs.table : nullptr;
}

template const PairTable<uint16_t>* Vocabulary::pair_table() const;
template const PairTable<uint32_t>* Vocabulary::pair_table() const;

std::optional<VocabularyFiles> find_vocabulary_files(const std::filesystem::path& vocab_file,
                                                     const std::filesystem::path& merge_file) {
  if (vocab_file.empty() != merge_file.empty()) {
    throw std::invalid_argument(
        "give both files of a vocabulary or none (--vocab-file and --merge-file)");
  }
  if (!vocab_file.empty()) return VocabularyFiles{vocab_file, merge_file};
  const auto files_in = [](const std::filesystem::path& folder) -> std::optional<VocabularyFiles> {
    const VocabularyFiles files = {folder / "vocab.json", folder / "merges.txt"};
    std::error_code ignored;
    const bool both = std::filesystem::exists(files.vocab_file, ignored) &&
                      std::filesystem::exists(files.merge_file, ignored);
    return both ? std::optional(files) : std::nullopt;
  };
  if (const char* folder = std::getenv("WEFT_GPT2_DIR"); folder && *folder) {
    // A mistyped folder must not mean another vocabulary, and so other tokens.
    if (const auto files = files_in(folder)) return files;
    throw std::invalid_argument(
        std::string("WEFT_GPT2_DIR is ") + folder +
        ", which holds no vocab.json and merges.txt; correct it or unset it");
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return std::nullopt;
  return files_in(std::filesystem::path(home) / ".cache/weft/gpt2");
}

}  // namespace weft
