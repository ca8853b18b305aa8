#include "preprocess/report/duplicates.h"

namespace weft {
namespace {

bool saves_more(const DuplicateGroup& a, const DuplicateGroup& b) {
  const int64_t a_saves = (a.num_documents - 1) * a.num_tokens;
  const int64_t b_saves = (b.num_documents - 1) * b.num_tokens;
  return a_saves != b_saves ? a_saves > b_saves : a.first_document < b.first_document;
}

}  // namespace

Duplicates find_duplicates(DocumentGroups& groups, int num_threads, size_t num_largest,
                           const std::function<int64_t(int64_t)>& num_tokens_of) {
  groups.sort(num_threads);
  Duplicates found;
  BestFew<DuplicateGroup, decltype(&saves_more)> largest(num_largest, &saves_more);
  groups.for_each([&](const DocumentGroups::Group& documents) {
    if (documents.size() == 1) return;
    const int64_t first = documents.front().document_idx();
    const DuplicateGroup group{first, std::ssize(documents), num_tokens_of(first)};
    ++found.num_groups;
    found.num_documents += group.num_documents - 1;
    found.num_tokens += (group.num_documents - 1) * group.num_tokens;
    largest.add(group);
  });
  found.largest = largest.take();
  return found;
}

}  // namespace weft
