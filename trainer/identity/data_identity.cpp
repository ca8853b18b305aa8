#include "trainer/identity/data_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/order/blends/blend_json.h"

namespace weft {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void add_dataset_differences(const DatasetIdentity& saved, const DatasetIdentity& ours,
                             DataDifferences& differences) {
  if (same_bytes(saved, ours)) return;
  if (saved.prefix == ours.prefix) {
    differences.refused.push_back(fmt::format(
        "the dataset {} was replaced or changed: the checkpoint was trained on {}, and there are "
        "{} now; put the old files back, give the new ones a name of their own, or start from the "
        "weights alone with --finetune",
        ours.prefix, describe(saved), describe(ours)));
    return;
  }
  differences.allowed.push_back(
      fmt::format("the dataset was {} with {} when the checkpoint was saved and is {} with {} now: "
                  "samples from here on are others than without the change",
                  saved.prefix, describe(saved), ours.prefix, describe(ours)));
}

// Returns the datasets that --blend-schedule alone names.
std::unordered_set<std::string> scheduled_datasets(const SplitBlends& blends) {
  std::unordered_set<std::string> scheduled;
  for (const BlendChange& change : blends.changes)
    scheduled.insert(change.blend.prefixes.begin(), change.blend.prefixes.end());
  for (const auto& groups : blends.blends) {
    for (const Blend& blend : groups) {
      for (const std::string& prefix : blend.prefixes) scheduled.erase(prefix);
    }
  }
  return scheduled;
}

// Datasets of one name are compared with each other, the others in their order. A dataset that only
// a schedule names, and only one of the two, begins or ends with a sample that compare_blends()
// tells.
void add_blend_differences(const DataIdentity& saved_data, const DataIdentity& our_data,
                           DataDifferences& differences) {
  const std::vector<DatasetIdentity>&saved = saved_data.datasets, &ours = our_data.datasets;
  const std::unordered_set<std::string> saved_scheduled = scheduled_datasets(saved_data.blends),
                                        our_scheduled = scheduled_datasets(our_data.blends);
  std::unordered_map<std::string, const DatasetIdentity*> ours_by_prefix;
  for (const DatasetIdentity& dataset : ours) ours_by_prefix[dataset.prefix] = &dataset;
  std::vector<const DatasetIdentity*> gone;
  for (const DatasetIdentity& dataset : saved) {
    const auto found = ours_by_prefix.find(dataset.prefix);
    if (found == ours_by_prefix.end()) {
      if (!saved_scheduled.contains(dataset.prefix)) gone.push_back(&dataset);
    } else if (found->second != nullptr) {
      add_dataset_differences(dataset, *found->second, differences);
      found->second = nullptr;  // compared
    }
  }
  std::vector<const DatasetIdentity*> added;
  for (const DatasetIdentity& dataset : ours) {
    if (ours_by_prefix[dataset.prefix] != nullptr && !our_scheduled.contains(dataset.prefix))
      added.push_back(&dataset);
  }
  const size_t num_pairs = std::min(gone.size(), added.size());
  for (size_t i = 0; i < num_pairs; ++i) add_dataset_differences(*gone[i], *added[i], differences);
  for (size_t i = num_pairs; i < gone.size(); ++i) {
    differences.allowed.push_back(
        fmt::format("the dataset {} of the checkpoint is not read any more: samples from here on "
                    "are others than without the change",
                    gone[i]->prefix));
  }
  for (size_t i = num_pairs; i < added.size(); ++i) {
    differences.allowed.push_back(
        fmt::format("the dataset {} was not read before the checkpoint: samples from here on are "
                    "others than without the change",
                    added[i]->prefix));
  }
}

void add_vocabulary_differences(const RunVocabulary& saved, const RunVocabulary& ours,
                                DataDifferences& differences) {
  const auto &theirs = saved.tokenizer.files, &files = ours.tokenizer.files;
  for (size_t i = 0; i < std::min(theirs.size(), files.size()); ++i) {
    if (theirs[i].sha256.empty() || files[i].sha256.empty() || theirs[i].sha256 == files[i].sha256)
      continue;
    differences.refused.push_back(fmt::format(
        "the vocabulary is another one: the checkpoint's data was made with {} (SHA-256 {}), this "
        "run's with {} (SHA-256 {}), so the same token ids stand for other text",
        theirs[i].path, theirs[i].sha256, files[i].path, files[i].sha256));
  }
}

// Masks and positions follow from the token that ends documents.
void add_end_of_document_difference(const RunVocabulary& saved, const RunVocabulary& ours,
                                    bool is_given, DataDifferences& differences) {
  if (saved.end_of_document < 0 || saved.end_of_document == ours.end_of_document) return;
  const std::string change = fmt::format(
      "documents ended with token {}, {}, when the checkpoint was saved and end with token {}, {}, now",
      saved.end_of_document, saved.end_of_document_source, ours.end_of_document,
      ours.end_of_document_source);
  if (is_given) {
    differences.allowed.push_back(change + ": the run goes on with the new value");
    return;
  }
  differences.refused.push_back(fmt::format(
      "{}: losses or positions would be masked elsewhere; give --eod-token-id {} to go on as before, "
      "or --eod-token-id {} to change it",
      change, saved.end_of_document, ours.end_of_document));
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

bool is_unwritten(const struct stat& now, const struct stat& before) {
  return now.st_size == before.st_size && now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
}

}  // namespace

Json to_json(const DataIdentity& data) {
  Json datasets = Json::array();
  for (const DatasetIdentity& dataset : data.datasets) datasets.push_back(to_json(dataset));
  const RunVocabulary& vocabulary = data.vocabulary;
  Json json = {{"datasets", datasets},
               {"unsee_sha256", data.unsee_sha256},
               {"vocabulary",
                {{"size", vocabulary.num_tokens},
                 {"source", vocabulary.source},
                 {"tokenizer", to_json(vocabulary.tokenizer)},
                 {"end_of_document", vocabulary.end_of_document},
                 {"end_of_document_source", vocabulary.end_of_document_source}}}};
  if (data.has_blends()) json["blends"] = to_json(data.blends);
  return json;
}

DataIdentity data_identity_from_json(const Json& json) {
  DataIdentity data;
  for (const Json& dataset : json.at("datasets"))
    data.datasets.push_back(dataset_identity_from_json(dataset));
  json.at("unsee_sha256").get_to(data.unsee_sha256);
  if (json.contains("blends")) data.blends = split_blends_from_json(json["blends"]);
  const Json& vocabulary = json.at("vocabulary");
  data.vocabulary.num_tokens = json_integer_at(vocabulary, "size");
  vocabulary.at("source").get_to(data.vocabulary.source);
  data.vocabulary.tokenizer = tokenizer_files_from(vocabulary.at("tokenizer"));
  data.vocabulary.end_of_document = json_integer_at(vocabulary, "end_of_document");
  vocabulary.at("end_of_document_source").get_to(data.vocabulary.end_of_document_source);
  return data;
}

DataDifferences compare_data(const DataIdentity& saved, const DataIdentity& ours,
                             const Config& config) {
  DataDifferences differences;
  // Imported weights have no dataset.
  if (!saved.datasets.empty()) add_blend_differences(saved, ours, differences);
  add_vocabulary_differences(saved.vocabulary, ours.vocabulary, differences);
  if (config.looks_for_document_ends()) {
    add_end_of_document_difference(saved.vocabulary, ours.vocabulary,
                                   config.eod_token_id.has_value(), differences);
  }
  if (saved.unsee_sha256 != ours.unsee_sha256) {
    const auto text = [](const std::string& sha256) {
      return sha256.empty() ? std::string("none") : "a file with SHA-256 " + sha256;
    };
    differences.allowed.push_back(fmt::format(
        "--unsee was {} when the checkpoint was saved and is {} now: from here on other "
        "documents have no loss",
        text(saved.unsee_sha256), text(ours.unsee_sha256)));
  }
  return differences;
}

// The files are looked at before their bytes are, so that a change in between is noticed later.
DatasetWatch::DatasetWatch(const fs::path& prefix)
    : files_{{prefix.string() + ".idx"}, {prefix.string() + ".bin"}} {
  for (File& file : files_) {
    // A file that is not there gets the better message of DatasetReader.
    file.is_lost = ::stat(file.path.c_str(), &file.status) != 0;
  }
  identity_ = identify_dataset(prefix);
}

void DatasetWatch::check_untouched() const {
  for (const File& file : files_) {
    struct stat now {};
    if (::stat(file.path.c_str(), &now) == 0 && is_same_file(now, file.status) &&
        is_unwritten(now, file.status))
      continue;
    throw std::runtime_error(file.path.string() +
                             " was replaced, removed or written to while this run started; when "
                             "the dataset is complete, run the same command again");
  }
}

std::string DatasetWatch::check() {
  std::string warning;
  for (File& file : files_) {
    if (file.is_lost) continue;
    const struct stat before = file.status;
    struct stat now {};
    const bool is_there = ::stat(file.path.c_str(), &now) == 0;
    file.is_lost = !is_there || !is_same_file(now, before);
    if (file.is_lost) {
      warning += fmt::format(
          "{} was {} while this run reads it; the run goes on with the old file, and can only be "
          "resumed with that file in its place",
          file.path.string(), is_there ? "replaced by another file" : "removed");
      continue;
    }
    file.status = now;
    if (is_unwritten(now, before)) continue;
    if (now.st_size < before.st_size) {
      // A read behind the new end would say the same (bus_error.h): which of the two comes first is
      // chance.
      throw std::system_error(
          EIO, std::generic_category(),
          fmt::format("'{}' was made shorter while it was read; restore it, then run the same "
                      "command again",
                      file.path.string()));
    }
    const DatasetIdentity found = identify_dataset(identity_.prefix);
    if (same_bytes(found, identity_)) {
      const int64_t unknown_bytes = bin_bytes_not_compared(found);
      if (unknown_bytes > 0 && &file == &files_.back()) {
        warning += fmt::format(
            "{} was written to while this run reads it; the {} bytes that the run has checksums of are "
            "what they were, and whether the other {} bytes are, nothing tells",
            file.path.string(), found.bin_bytes - unknown_bytes, unknown_bytes);
      }
      continue;
    }
    throw std::runtime_error(
        fmt::format("{} was changed while this run read it: it began with {}, and there are {} now",
                    file.path.string(), describe(identity_), describe(found)));
  }
  return warning;
}

DataWatch::DataWatch(const std::vector<std::string>& prefixes) : watches_(prefixes.size()) {
  const auto num_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  parallel_for(std::ssize(prefixes), num_threads, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    watches_[at] = std::make_unique<DatasetWatch>(prefixes[at]);
  });
}

std::vector<DatasetIdentity> DataWatch::identities() const {
  std::vector<DatasetIdentity> identities;
  for (const auto& watch : watches_) identities.push_back(watch->identity());
  return identities;
}

void DataWatch::check_untouched() const {
  for (const auto& watch : watches_) watch->check_untouched();
}

std::vector<std::string> DataWatch::check() {
  std::vector<std::string> warnings;
  for (const auto& watch : watches_) {
    if (std::string warning = watch->check(); !warning.empty())
      warnings.push_back(std::move(warning));
  }
  return warnings;
}

}  // namespace weft
