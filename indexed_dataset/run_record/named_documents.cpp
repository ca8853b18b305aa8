#include "indexed_dataset/run_record/named_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace weft {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

}  // namespace

int64_t NamedDocuments::dataset_named(const std::string& name) {
  const auto [known, is_new] = by_name_.try_emplace(name);
  if (is_new) known->second = names_.named(name);
  const std::vector<int64_t>& named = known->second;
  if (named.size() == 1) return named.front();
  if (named.empty())
    refuse(fmt::format("the run has no dataset {}; it has {}", name,
                       fmt::join(names_.prefixes(), ", ")));
  refuse(fmt::format("{} may mean {} or {}: give more of it", name, names_.prefix(named[0]),
                     names_.prefix(named[1])));
}

// Lines of a run with one dataset do not name it.
int64_t NamedDocuments::only_dataset() const {
  if (names_.count() == 1) return 0;
  refuse(
      fmt::format("it does not name the dataset, of which the run has several; give PREFIX "
                  "NUMBER, with one of {}",
                  fmt::join(names_.prefixes(), ", ")));
}

OpenDataset& NamedDocuments::open(int64_t dataset_idx) {
  std::unique_ptr<OpenDataset>& dataset = open_[dataset_idx];
  if (!dataset) dataset = std::make_unique<OpenDataset>(names_.prefix(dataset_idx));
  return *dataset;
}

NamedDocument NamedDocuments::add(int64_t dataset_idx, int64_t document_idx) {
  const Documents& documents = open(dataset_idx).documents;
  if (document_idx < 0 || document_idx >= documents.count()) {
    refuse(fmt::format("{} has no document {}, there are {} (from 0)", names_.prefix(dataset_idx),
                       document_idx, documents.count()));
  }
  documents_[dataset_idx].push_back(document_idx);
  return {dataset_idx, document_idx};
}

std::map<int64_t, std::vector<int64_t>> NamedDocuments::documents() const {
  std::map<int64_t, std::vector<int64_t>> documents = documents_;
  for (auto& [dataset_idx, of_dataset] : documents) {
    std::sort(of_dataset.begin(), of_dataset.end());
    of_dataset.erase(std::unique(of_dataset.begin(), of_dataset.end()), of_dataset.end());
  }
  return documents;
}

void NamedDocuments::add_line(const SourceLine& line) {
  std::string nearest, without;
  bool is_input = false, is_found = false;
  std::set<std::string> files;
  for (int64_t i = 0; i < names_.count(); ++i) {
    const OpenDataset& dataset = open(i);
    if (!dataset.sources) {
      without += (without.empty() ? "; no source map beside " : ", ") + names_.prefix(i);
      continue;
    }
    const std::vector<uint32_t> inputs = inputs_named(*dataset.sources, line.file);
    if (inputs.empty()) continue;
    is_input = true;
    for (const int64_t document :
         documents_at(*dataset.sources, inputs, line.offset_bytes, nearest)) {
      add(i, document);
      is_found = true;
      const std::string& input = dataset.sources->inputs()[inputs.front()];
      files.insert(std::filesystem::path(input).is_absolute() ? input
                                                              : names_.prefix(i) + ": " + input);
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

}  // namespace weft
