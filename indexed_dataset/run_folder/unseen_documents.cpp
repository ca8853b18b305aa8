#include "indexed_dataset/run_folder/unseen_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/beside/documents.h"
#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/run_folder/source_line.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/sha256.h"
#include "indexed_dataset/terminal/option_set.h"

namespace weft {
namespace {

// A dataset of the run, opened when a line needs it.
struct OpenDataset {
  explicit OpenDataset(const std::string& prefix)
      : reader(prefix), documents(reader), sources(open_source_map_of(reader)) {}

  DatasetReader reader;
  Documents documents;
  std::optional<SourceMap> sources;
};

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool drop_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Reads the lines of a file for a run's datasets.
class LineReader {
 public:
  LineReader(const std::vector<std::string>& prefixes, const std::filesystem::path& directory)
      : directory_(directory), prefixes_(prefixes) {
    for (const std::string& prefix : prefixes) absolute_.push_back(absolute(prefix));
  }

  // Adds the documents that a line names. Throws std::invalid_argument.
  void add(std::string_view line) {
    if (line.starts_with('{')) return add_json(std::string(line));
    if (add_printed(line)) return;
    if (const auto source = find_source(line)) return add_line(*source);
    if (const size_t space = line.find_last_of(" \t"); space != std::string_view::npos) {
      if (const auto number = parse_int64(std::string(line.substr(space + 1))))
        return add_document(dataset_named(std::string(trimmed(line.substr(0, space)))), *number);
    }
    refuse(
        "it names no document; give PREFIX NUMBER, FILE:OFFSET, or a line that weft-data inspect prints");
  }

  std::map<std::string, std::vector<SequenceRange>> ranges;
  int64_t num_documents = 0;

 private:
  // "web.jsonl, byte 11450 (from ORIGIN)" or "web.jsonl:11450".
  static std::optional<SourceLine> find_source(std::string_view line) {
    drop_prefix(line, "from ");
    constexpr std::string_view kByte = ", byte ";
    if (const size_t at = line.rfind(kByte); at != std::string_view::npos && at > 0) {
      std::string_view number = line.substr(at + kByte.size());
      number = number.substr(0, number.find(" (from "));
      if (const auto offset = parse_int64(std::string(number)); offset && *offset >= 0)
        return SourceLine{std::string(line.substr(0, at)), *offset};
    }
    const size_t colon = line.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    const auto offset = parse_int64(std::string(line.substr(colon + 1)));
    if (!offset || *offset < 0) return std::nullopt;
    return SourceLine{std::string(line.substr(0, colon)), *offset};
  }

  // "document 31 of PREFIX: ...", "score 93.8 by rarity: document 31 of PREFIX, ...", "document 31 (sequence
  // 31), ...", "text that stands out: document 31, of PREFIX, FILE, byte N; document 40, of ...". Returns
  // false for other lines.
  bool add_printed(std::string_view line) {
    constexpr std::string_view kDocument = "document ", kNext = "; document ";
    if (line.starts_with("score ")) line.remove_prefix(std::min(line.find(": ") + 2, line.size()));
    drop_prefix(line, "text that stands out: ");
    if (!line.starts_with(kDocument)) return false;
    while (drop_prefix(line, kDocument)) {
      const size_t next = line.find(kNext);
      std::string_view rest = line.substr(0, next);
      const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
      const auto number = parse_int64(std::string(rest.substr(0, digits)));
      if (!number) return false;
      rest.remove_prefix(digits);
      drop_prefix(rest, ",");
      add_document(drop_prefix(rest, " of ") ? dataset_before(rest) : only_dataset(), *number);
      line = next == std::string_view::npos ? "" : line.substr(next + 2);
    }
    return true;
  }

  void add_json(const std::string& line) {
    try {
      const auto json = parse_json<nlohmann::json>(line);
      add_document(dataset_named(json.at("dataset").get<std::string>()),
                   json.at("document").get<int64_t>());
    } catch (const nlohmann::json::exception& error) {
      refuse(fmt::format("not an object with \"dataset\" and \"document\": {}", error.what()));
    }
  }

  std::string absolute(const std::string& name) const {
    return std::filesystem::weakly_canonical(directory_ / name).string();
  }
  // Returns the dataset whose name stands before the first ':' or ',' that may end it.
  size_t dataset_before(std::string_view text) {
    for (size_t end = text.find_first_of(":,"); end != std::string_view::npos;
         end = text.find_first_of(":,", end + 1)) {
      const std::vector<size_t>& named = datasets_with(std::string(text.substr(0, end)));
      if (!named.empty()) return dataset_named(std::string(text.substr(0, end)));
    }
    return dataset_named(std::string(text));
  }
  // Returns the datasets that a name may mean, one that has it as its whole name alone. A blend may hold
  // one dataset in several spellings: the first one stands for all.
  const std::vector<size_t>& datasets_with(const std::string& name) {
    const auto [found, is_new] = by_name_.try_emplace(name);
    if (!is_new) return found->second;
    const std::string whole = absolute(name);
    std::vector<size_t>& named = found->second;
    for (size_t i = 0; i < absolute_.size(); ++i) {
      if (absolute_[i] == whole) return named = {i};
      const auto is_same = [&](size_t other) { return absolute_[other] == absolute_[i]; };
      if (absolute_[i].ends_with("/" + name) && std::none_of(named.begin(), named.end(), is_same))
        named.push_back(i);
    }
    return named;
  }
  size_t dataset_named(const std::string& name) {
    const std::vector<size_t>& named = datasets_with(name);
    if (named.size() == 1) return named.front();
    if (named.empty())
      refuse(fmt::format("the run has no dataset {}; it has {}", name, fmt::join(prefixes_, ", ")));
    refuse(fmt::format("{} may mean {} or {}: give more of it", name, prefixes_[named[0]],
                       prefixes_[named[1]]));
  }

  // Lines of a run with one dataset do not name it.
  size_t only_dataset() const {
    for (const std::string& other : absolute_) {
      if (other == absolute_.front()) continue;
      refuse(
          fmt::format("it does not name the dataset, of which the run has several; give PREFIX "
                      "NUMBER, with one of {}",
                      fmt::join(prefixes_, ", ")));
    }
    return 0;
  }

  OpenDataset& open(size_t dataset_idx) {
    std::unique_ptr<OpenDataset>& dataset = open_[absolute_[dataset_idx]];
    if (!dataset) dataset = std::make_unique<OpenDataset>(prefixes_[dataset_idx]);
    return *dataset;
  }

  void add_document(size_t dataset_idx, int64_t document) {
    const Documents& documents = open(dataset_idx).documents;
    if (document < 0 || document >= documents.count()) {
      refuse(fmt::format("{} has no document {}, there are {} (from 0)", prefixes_[dataset_idx],
                         document, documents.count()));
    }
    const auto [first, last] = documents.sequences(document);
    for (size_t i = 0; i < prefixes_.size(); ++i) {
      if (absolute_[i] == absolute_[dataset_idx]) ranges[prefixes_[i]].push_back({first, last});
    }
    ++num_documents;
  }

  // Several datasets may have been made of one file: all of them have the document. Files of one name
  // in several folders are told apart by their whole names only.
  void add_line(const SourceLine& line) {
    std::string nearest, without;
    bool is_input = false, is_found = false;
    std::set<std::string> files;
    for (size_t i = 0; i < prefixes_.size(); ++i) {
      if (std::find(absolute_.begin(), absolute_.begin() + static_cast<std::ptrdiff_t>(i),
                    absolute_[i]) != absolute_.begin() + static_cast<std::ptrdiff_t>(i))
        continue;  // another spelling of one that was looked at
      const OpenDataset& dataset = open(i);
      if (!dataset.sources) {
        without += (without.empty() ? "; no source map beside " : ", ") + prefixes_[i];
        continue;
      }
      const std::vector<uint32_t> inputs = inputs_named(*dataset.sources, line.file);
      if (inputs.empty()) continue;
      is_input = true;
      for (const int64_t document :
           documents_at(*dataset.sources, inputs, line.offset_bytes, nearest)) {
        add_document(i, document);
        is_found = true;
        const std::string& input = dataset.sources->inputs()[inputs.front()];
        files.insert(std::filesystem::path(input).is_absolute() ? input
                                                                : prefixes_[i] + ": " + input);
      }
    }
    if (files.size() > 1) {
      refuse(fmt::format("{} may mean a line of {} or of {}: give PREFIX NUMBER", line.file,
                         *files.begin(), *files.rbegin()));
    }
    if (is_found && without.empty()) return;
    if (is_found) {
      refuse(fmt::format(
          "a document of this line was found{}: whether these hold it, too, is not known; "
          "give PREFIX NUMBER for each dataset that does",
          without));
    }
    refuse(is_input ? fmt::format("no document's line begins at byte {} of {}; {}{}",
                                  line.offset_bytes, line.file, nearest, without)
                    : fmt::format("no dataset of the run was made of {}{}", line.file, without));
  }

  const std::filesystem::path& directory_;
  const std::vector<std::string>& prefixes_;
  std::vector<std::string> absolute_;  // the same with their whole paths
  std::map<std::string, std::vector<size_t>> by_name_;
  std::map<std::string, std::unique_ptr<OpenDataset>> open_;  // by whole path
};

}  // namespace

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
    : text_(read_regular_file(file)), sha256_(sha256_of(text_)) {
  LineReader reader(prefixes, directory);
  int64_t line_number = 0;
  for (size_t begin = 0; begin < text_.size();) {
    const size_t end = std::min(text_.find('\n', begin), text_.size());
    const std::string_view line = trimmed(std::string_view(text_).substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.empty() || line.starts_with('#')) continue;
    try {
      reader.add(line);
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("{}, line {}: {}: {}", file.string(), line_number,
                                           line.substr(0, 200), error.what()));
    }
  }
  for (auto& [prefix, ranges] : reader.ranges)
    by_prefix_.emplace(prefix, UnseenSequences(std::move(ranges)));
  num_documents_ = reader.num_documents;
}

const UnseenSequences* UnseenDocuments::find(const std::string& prefix) const {
  const auto found = by_prefix_.find(prefix);
  return found == by_prefix_.end() ? nullptr : &found->second;
}

std::string unsee_copy_name(const std::string& sha256) {
  return "unsee-" + sha256.substr(0, 16) + ".txt";
}

}  // namespace weft
