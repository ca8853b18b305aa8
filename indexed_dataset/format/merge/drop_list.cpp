#include "indexed_dataset/format/merge/drop_list.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/sidecars/documents.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

constexpr const char* kFirstLine = "weft-data duplicates 1";

bool is_place_in(const DropList::Place& place, const std::vector<DropList::Dataset>& datasets) {
  return place.dataset_idx >= 0 && place.dataset_idx < std::ssize(datasets) &&
         place.document_idx >= 0 &&
         place.document_idx < datasets[static_cast<size_t>(place.dataset_idx)].num_documents;
}

// Reads the lines behind the first one; false for one that makes no sense, and without an end.
bool read_lines(std::istringstream& text, DropList& list) {
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "dataset") {
      DropList::Dataset& dataset = list.datasets.emplace_back();
      words >> dataset.num_documents >> dataset.num_tokens >> std::hex >> dataset.idx_hash;
      std::getline(words >> std::ws, dataset.prefix);
    } else if (kind == "duplicate") {
      DropList::Duplicate one;
      words >> one.document.dataset_idx >> one.document.document_idx >> one.first.dataset_idx >>
          one.first.document_idx;
      const bool is_in_order =
          list.duplicates.empty() || list.duplicates.back().document < one.document;
      if (!is_in_order || !(one.first < one.document) ||
          !is_place_in(one.document, list.datasets) || !is_place_in(one.first, list.datasets))
        return false;
      list.duplicates.push_back(one);
    } else {
      int64_t count = -1;
      words >> count;
      return kind == "end" && count == std::ssize(list.duplicates);
    }
    if (words.fail()) return false;
  }
  return false;
}

}  // namespace

DropList::Dataset describe_for_drop_list(const DatasetReader& reader) {
  const auto idx = reader.idx_bytes();
  return {Documents(reader).count(), reader.num_tokens(), XXH3_64bits(idx.data(), idx.size()),
          std::filesystem::absolute(reader.prefix()).string()};
}

std::string to_text(const DropList& list) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const DropList::Dataset& dataset : list.datasets) {
    text += fmt::format("dataset {} {} {:016x} {}\n", dataset.num_documents, dataset.num_tokens,
                        dataset.idx_hash, escape_for_terminal(dataset.prefix));
  }
  for (const auto& [document, first] : list.duplicates) {
    text += fmt::format("duplicate {} {} {} {}\n", document.dataset_idx, document.document_idx,
                        first.dataset_idx, first.document_idx);
  }
  return text + fmt::format("end {}\n", list.duplicates.size());
}

bool is_drop_list(const std::filesystem::path& path) {
  std::string line;
  return std::filesystem::is_regular_file(path) &&
         std::getline(std::ifstream(path, std::ios::binary), line) && line == kFirstLine;
}

DropList read_drop_list(const std::filesystem::path& path) {
  std::istringstream text(read_regular_file(path));
  std::string first_line;
  std::getline(text, first_line);
  if (first_line != kFirstLine) {
    throw std::runtime_error(
        path.string() + ": is no list of duplicates; weft-data report --duplicates writes one");
  }
  DropList list;
  if (!read_lines(text, list)) {
    throw std::runtime_error(path.string() +
                             ": is cut off or damaged; make it again with weft-data report "
                             "--duplicates");
  }
  return list;
}

std::vector<std::vector<int64_t>> documents_to_drop(
    const std::filesystem::path& path, const std::vector<std::filesystem::path>& prefixes) {
  const DropList list = read_drop_list(path);
  const auto refuse = [&](const std::string& why) {
    throw UsageError(path.string() + ": " + why +
                     ": the documents that stay might be missing; list the duplicates of these "
                     "datasets in this order (weft-data report --duplicates)");
  };
  if (list.datasets.size() != prefixes.size()) {
    refuse(fmt::format("was made of {}, and {} are merged",
                       counted(std::ssize(list.datasets), "dataset"), prefixes.size()));
  }
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const DropList::Dataset is = describe_for_drop_list(DatasetReader(prefixes[i]));
    const DropList::Dataset& was = list.datasets[i];
    if (is.num_documents != was.num_documents || is.num_tokens != was.num_tokens ||
        is.idx_hash != was.idx_hash) {
      refuse(fmt::format("its dataset {} was {}, of {} documents and {} tokens, which {} is not",
                         i + 1, was.prefix, was.num_documents, was.num_tokens,
                         prefixes[i].string()));
    }
  }
  std::vector<std::vector<int64_t>> documents(prefixes.size());
  for (const auto& [document, first] : list.duplicates)
    documents[static_cast<size_t>(document.dataset_idx)].push_back(document.document_idx);
  return documents;
}

}  // namespace weft
