#include "tokenizer/formats/tokenizer_json_model.h"

#include <stdexcept>

namespace weft {
namespace {

// No vocabulary in use has so many; numbers of this size leave room for flags beside them.
constexpr size_t kMaxVocabEntries = size_t{1} << 24;
// Lists of all pairs for 200,000 entries have 446,189.
constexpr size_t kMaxMerges = size_t{1} << 22;

}  // namespace

void VocabSink::fail_entry(const std::string& why) const {
  const std::string_view text =
      std::string_view(text_).substr(entries_.empty() ? 0 : entries_.back().end);
  throw std::runtime_error(file_ + ": entry '" + std::string(text) + "' of model.vocab: " + why);
}

void VocabSink::on_key(std::string_view key) {
  if (entries_.size() == kMaxVocabEntries) fail_entry("there are more than 2^24 entries");
  text_ += key;
}

void VocabSink::on_integer(int64_t value) {
  if (value < 0 || value >= static_cast<int64_t>(kMaxVocabEntries))
    fail_entry("its id is " + std::to_string(value) + ", but ids are 0 to 2^24 - 1");
  entries_.push_back({static_cast<uint32_t>(text_.size()), static_cast<int32_t>(value)});
}

std::string_view VocabSink::text_of(size_t i) const {
  const uint32_t begin = i == 0 ? 0 : entries_[i - 1].end;
  return std::string_view(text_).substr(begin, entries_[i].end - begin);
}

std::vector<std::string_view> VocabSink::texts_by_id() const {
  std::vector<std::string_view> texts(size());
  for (size_t i = 0; i < size(); ++i) {
    const auto id = static_cast<size_t>(entries_[i].id);
    const auto refuse = [&](const std::string& why) {
      throw std::runtime_error(file_ + ": entry '" + std::string(text_of(i)) +
                               "' of model.vocab: " + why);
    };
    if (id >= size()) {
      refuse("it has id " + std::to_string(id) + ", but the ids of " + std::to_string(size()) +
             " entries must be 0 to " + std::to_string(size() - 1));
    }
    if (texts[id].data() != nullptr) refuse("its id " + std::to_string(id) + " is used twice");
    texts[id] = text_of(i);
  }
  return texts;
}

EntryIndex index_entries(const std::vector<std::string_view>& texts, const std::string& file) {
  EntryIndex ids(texts.size());
  for (size_t id = 0; id < texts.size(); ++id) {
    if (ids.add(texts[id], static_cast<int32_t>(id))) continue;
    throw std::runtime_error(file + ": entry '" + std::string(texts[id]) +
                             "' stands in model.vocab twice");
  }
  return ids;
}

void MergesSink::fail(const std::string& why) const {
  const size_t number = is_in_pair_ ? pair_begin_ / 2 : size();
  throw std::runtime_error(file_ + ": merge number " + std::to_string(number) +
                           " of model.merges " + why);
}

void MergesSink::add_half(std::string_view half) {
  if (size() == kMaxMerges) {
    throw std::runtime_error(file_ + ": more than " + std::to_string(kMaxMerges) +
                             " merges; no tokenizer has so many");
  }
  text_ += half;
  ends_.push_back(static_cast<uint32_t>(text_.size()));
}

void MergesSink::on_string(std::string_view text) {
  if (is_in_pair_) return add_half(text);
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
    fail("('" + std::string(text) + "') is not two entries with one space between them");
  add_half(text.substr(0, space));
  add_half(text.substr(space + 1));
}

void MergesSink::on_open(bool is_list) {
  if (!is_list || is_in_pair_) fail("is not a pair of entries");
  is_in_pair_ = true;
  pair_begin_ = ends_.size();
}

void MergesSink::on_close() {
  if (ends_.size() != pair_begin_ + 2) fail("is not a pair of entries");
  is_in_pair_ = false;
}

void MergesSink::add_to(Vocabulary::Parts& parts, const EntryIndex& ids) const {
  parts.merges.reserve(size());
  for (size_t i = 0; i < size(); ++i) {
    const uint32_t begin = i == 0 ? 0 : ends_[2 * i - 1], middle = ends_[2 * i],
                   end = ends_[2 * i + 1];
    const std::string_view both = std::string_view(text_).substr(begin, end - begin);
    const std::string_view left = both.substr(0, middle - begin),
                           right = both.substr(middle - begin);
    const Vocabulary::Merge merge = {ids.find(left), ids.find(right), ids.find(both)};
    const auto refuse = [&](const std::string& why) {
      throw std::runtime_error(file_ + ": merge number " + std::to_string(i) +
                               " of model.merges ('" + std::string(left) + "' '" +
                               std::string(right) + "'): " + why);
    };
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
      const std::string_view missing = merge.left < 0 ? left : merge.right < 0 ? right : both;
      refuse(std::string(missing) + " is no entry of model.vocab");
    }
    if (!parts.merge_table.add(merge.left, merge.right, {static_cast<uint32_t>(i), merge.result}))
      refuse("it stands there twice");
    parts.merges.push_back(merge);
  }
}

}  // namespace weft
