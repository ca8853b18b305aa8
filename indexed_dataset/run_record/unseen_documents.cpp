#include "indexed_dataset/run_record/unseen_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "indexed_dataset/run_record/document_lines.h"

namespace weft {

UnseenSequences::UnseenSequences(std::vector<SequenceRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const SequenceRange& a, const SequenceRange& b) { return a.begin < b.begin; });
  for (const SequenceRange& range : ranges) {
    if (range.begin >= range.end) continue;  // an empty document
    if (!ranges_.empty() && range.begin <= ranges_.back().end) {
      ranges_.back().end = std::max(ranges_.back().end, range.end);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool UnseenSequences::contains(int64_t sequence_idx) const {
  const auto next = std::upper_bound(
      ranges_.begin(), ranges_.end(), sequence_idx,
      [](int64_t sequence, const SequenceRange& range) { return sequence < range.begin; });
  return next != ranges_.begin() && sequence_idx < std::prev(next)->end;
}

UnseenDocuments::UnseenDocuments(const std::filesystem::path& file,
                                 const std::vector<std::string>& prefixes,
                                 const std::filesystem::path& directory)
    : text_(read_text_file(file)), sha256_(sha256_of(text_)) {
  NamedDocuments named(prefixes, directory);
  int64_t line_number = 0;
  for (size_t begin = 0; begin < text_.size();) {
    const size_t end = std::min(text_.find('\n', begin), text_.size());
    const std::string_view line = std::string_view(text_).substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    try {
      add_documents_of_line(line, named);
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("{}, line {}: {}: {}", file.string(), line_number,
                                           line.substr(0, 200), error.what()));
    }
  }
  for (const auto& [dataset_idx, documents] : named.documents()) {
    std::vector<SequenceRange> ranges;
    for (const int64_t document : documents) {
      const auto [first, last] = named.open(dataset_idx).documents.sequences(document);
      ranges.push_back({first, last});
    }
    for (const std::string& spelling : named.names().spellings(dataset_idx))
      by_prefix_.emplace(spelling, UnseenSequences(ranges));
    num_documents_ += std::ssize(documents);
  }
  if (num_documents_ == 0)
    throw std::invalid_argument(fmt::format("--unsee {}: it names no document", file.string()));
}

const UnseenSequences* UnseenDocuments::find(const std::string& prefix) const {
  const auto found = by_prefix_.find(prefix);
  return found == by_prefix_.end() ? nullptr : &found->second;
}

std::string unsee_copy_name(const std::string& sha256) {
  return "unsee-" + sha256.substr(0, 16) + ".txt";
}

}  // namespace weft
