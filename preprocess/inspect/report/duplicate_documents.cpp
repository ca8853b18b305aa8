#include "preprocess/inspect/report/duplicate_documents.h"

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>

#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/documents.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "preprocess/inspect/report/document_groups.h"

namespace weft {
namespace {

// The documents of all datasets, numbered from 0 in their order.
class AllDocuments {
 public:
  explicit AllDocuments(const std::vector<std::filesystem::path>& prefixes) {
    for (const std::filesystem::path& prefix : prefixes) {
      readers_.push_back(std::make_unique<DatasetReader>(prefix));
      documents_.emplace_back(*readers_.back());
      begins_.push_back(count_);
      count_ += documents_.back().count();
      add_vocabulary(prefix);
    }
  }

  int64_t count() const { return count_; }
  const std::vector<std::unique_ptr<DatasetReader>>& readers() const { return readers_; }
  DropList::Place place_of(int64_t number) const {
    const auto behind = std::upper_bound(begins_.begin(), begins_.end(), number);
    const int64_t dataset_idx = behind - begins_.begin() - 1;
    return {dataset_idx, number - begins_[static_cast<size_t>(dataset_idx)]};
  }
  int64_t num_tokens(const DropList::Place& place) const {
    return of(place).num_tokens(place.document_idx);
  }
  // Tokens without the one that ends the document.
  int64_t num_own_tokens(const DropList::Place& place) const {
    const int64_t all = num_tokens(place);
    const bool has_end = all > 0 && end_of_document_ >= 0 &&
                         of(place).last_token(place.document_idx) == end_of_document_;
    return all - (has_end ? 1 : 0);
  }
  template <typename Use>
  void for_each_piece(const DropList::Place& place, std::vector<int32_t>& buffer,
                      const Use& use) const {
    of(place).for_each_piece(place.document_idx, buffer, num_own_tokens(place), use);
  }

 private:
  const Documents& of(const DropList::Place& place) const {
    return documents_[static_cast<size_t>(place.dataset_idx)];
  }
  void add_vocabulary(const std::filesystem::path& prefix) {
    const DatasetVocabulary vocabulary = read_dataset_vocabulary(prefix);
    if (are_different(vocabulary_.tokenizer, vocabulary.tokenizer)) {
      throw std::runtime_error(dataset_manifest_path(prefix).string() +
                               ": names another vocabulary than the datasets before it: the same "
                               "ids are different text");
    }
    if (vocabulary_.tokenizer.empty()) vocabulary_ = vocabulary;
    if (end_of_document_ < 0) end_of_document_ = vocabulary.end_of_document;
  }

  std::vector<std::unique_ptr<DatasetReader>> readers_;
  std::vector<Documents> documents_;  // by dataset
  std::vector<int64_t> begins_;
  int64_t count_ = 0;
  DatasetVocabulary vocabulary_;  // of the first dataset that names one
  int64_t end_of_document_ = -1;
};

void hash_all(const AllDocuments& documents, DocumentGroups& groups, int num_threads) {
  for_each_range(documents.count(), num_threads, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> buffer;
    for (int64_t i = begin; i < end; ++i) {
      const DropList::Place place = documents.place_of(i);
      if (documents.num_own_tokens(place) == 0) continue;
      XXH3_state_t hash;
      XXH3_128bits_reset(&hash);
      documents.for_each_piece(place, buffer, [&](std::span<const int32_t> ids) {
        XXH3_128bits_update(&hash, ids.data(), ids.size_bytes());
      });
      const XXH128_hash_t digest = XXH3_128bits_digest(&hash);
      groups.set(i, digest.high64, digest.low64);
    }
  });
}

}  // namespace

DuplicateDocuments find_duplicate_documents(
    const std::vector<std::filesystem::path>& prefixes, int num_threads,
    const std::function<void(int64_t num_documents)>& begin) {
  const AllDocuments documents(prefixes);
  begin(documents.count());
  DuplicateDocuments found;
  for (const auto& reader : documents.readers())
    found.list.datasets.push_back(describe_for_drop_list(*reader));
  DocumentGroups groups(documents.count());
  hash_all(documents, groups, num_threads);
  groups.sort(num_threads);

  std::vector<int32_t> buffer, first_ids;
  const auto is_like_first = [&](const DropList::Place& place) {
    if (documents.num_own_tokens(place) != std::ssize(first_ids)) return false;
    bool is_equal = true;
    auto at = first_ids.begin();
    documents.for_each_piece(place, buffer, [&](std::span<const int32_t> ids) {
      is_equal = is_equal && std::equal(ids.begin(), ids.end(), at);
      at += std::ssize(ids);
    });
    return is_equal;
  };
  groups.for_each([&](const DocumentGroups::Group& group) {
    if (group.size() == 1) return;
    const DropList::Place first = documents.place_of(group.front().document_idx());
    first_ids.clear();
    documents.for_each_piece(first, buffer, [&](std::span<const int32_t> ids) {
      first_ids.insert(first_ids.end(), ids.begin(), ids.end());
    });
    for (const DocumentGroups::Entry& entry : group.subspan(1)) {
      const DropList::Place place = documents.place_of(entry.document_idx());
      if (!is_like_first(place)) continue;
      found.list.duplicates.push_back({place, first});
      found.num_tokens += documents.num_tokens(place);
    }
  });
  std::sort(found.list.duplicates.begin(), found.list.duplicates.end(),
            [](const auto& a, const auto& b) { return a.document < b.document; });
  return found;
}

}  // namespace weft
