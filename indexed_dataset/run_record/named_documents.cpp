#include "indexed_dataset/run_record/named_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/option_set.h"

namespace weft {
namespace {

using Place = std::pair<uint32_t, int64_t>;  // input, byte

Place place_of(const SourceMap& sources, int64_t document_idx) {
  const SourceEntry entry = sources.entry(document_idx);
  return {entry.input_idx, entry.offset_bytes};
}

// Maps that weft-data wrote ascend: inputs in their order, and the lines of each.
std::vector<int64_t> find_ascending(const SourceMap& sources, const Place& place) {
  int64_t low = 0, high = sources.num_documents();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (place_of(sources, middle) < place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::vector<int64_t> documents;
  for (; low < sources.num_documents() && place_of(sources, low) == place; ++low)
    documents.push_back(low);
  return documents;
}

[[noreturn]] void refuse(const std::string& why) { throw UsageError(why); }

}  // namespace

SourceLine parse_source_line(const std::string& text) {
  const size_t colon = text.rfind(':');
  const auto offset_bytes =
      colon == std::string::npos ? std::nullopt : parse_int64(text.substr(colon + 1));
  if (!offset_bytes || *offset_bytes < 0 || colon == 0) {
    throw UsageError("--source " + text +
                     ": give FILE:OFFSET, a file of the corpus and the byte where a line "
                     "begins in it (decompressed)");
  }
  return {text.substr(0, colon), *offset_bytes};
}

std::vector<uint32_t> inputs_named(const SourceMap& sources, const std::string& file) {
  const std::vector<std::string>& inputs = sources.inputs();
  const auto matching = [&](const std::function<bool(const std::string&)>& matches) {
    std::vector<uint32_t> found;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (matches(inputs[i])) found.push_back(static_cast<uint32_t>(i));
    }
    return found;
  };
  auto found = matching([&](const std::string& input) { return input == file; });
  if (!found.empty()) return found;
  found = matching([&](const std::string& input) { return input.ends_with("/" + file); });
  std::set<std::string> names;
  for (const uint32_t i : found) names.insert(inputs[i]);
  if (names.size() > 1) {
    throw UsageError(file + " may mean " + *names.begin() + " or " + *names.rbegin() +
                     ": give more of its path");
  }
  return found;
}

std::vector<int64_t> documents_at(const SourceMap& sources, const std::vector<uint32_t>& inputs,
                                  int64_t offset_bytes, std::string& nearest) {
  std::vector<int64_t> documents;
  for (const uint32_t input : inputs) {
    for (const int64_t document : find_ascending(sources, {input, offset_bytes}))
      documents.push_back(document);
  }
  if (!documents.empty()) return documents;
  // A map that another program wrote may be in any order, so every entry is looked at.
  int64_t before = -1, after = -1;
  for (int64_t i = 0; i < sources.num_documents(); ++i) {
    const auto [input, offset] = place_of(sources, i);
    if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) continue;
    if (offset == offset_bytes) documents.push_back(i);
    if (offset < offset_bytes && (before < 0 || offset > place_of(sources, before).second))
      before = i;
    if (offset > offset_bytes && (after < 0 || offset < place_of(sources, after).second)) after = i;
  }
  const auto add = [&](int64_t document, const char* where) {
    if (document < 0) return;
    nearest += (nearest.empty() ? "" : ", ") + std::string("document ") + std::to_string(document) +
               " begins " + where + " it, at byte " +
               std::to_string(place_of(sources, document).second);
  };
  add(before, "before");
  add(after, "behind");
  return documents;
}

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
