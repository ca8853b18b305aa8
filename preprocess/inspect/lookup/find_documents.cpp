#include "preprocess/inspect/lookup/find_documents.h"

#include <algorithm>
#include <optional>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/format/sidecars/documents.h"
#include "preprocess/inspect/text/dataset_text.h"

namespace weft {

std::vector<int64_t> documents_with(const DatasetReader& reader, const Vocabulary& vocabulary,
                                    const TextPattern& pattern, int num_threads) {
  constexpr int64_t kBlock = 64;
  const Documents documents(reader);
  const std::optional<size_t> fixed_size = pattern.fixed_size();
  const int64_t count = documents.count(), num_blocks = (count + kBlock - 1) / kBlock;
  std::vector<std::vector<int64_t>> found(static_cast<size_t>(num_blocks));
  parallel_for(num_blocks, num_threads, [&](int64_t block) {
    std::vector<int32_t> ids;
    std::string piece_text;
    for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      bool has_text = false;
      piece_text.clear();
      documents.for_each_piece(i, ids, INT64_MAX, [&](std::span<const int32_t> piece) {
        if (has_text) return;
        if (!fixed_size) {
          append_decoded(piece_text, piece, vocabulary);
          return;
        }
        // The end of a piece may be the beginning of the text that is looked for.
        piece_text.erase(0, piece_text.size() - std::min(piece_text.size(), *fixed_size - 1));
        append_decoded(piece_text, piece, vocabulary);
        has_text = pattern.is_in(piece_text);
      });
      if (!fixed_size) has_text = pattern.is_in(piece_text);
      if (has_text) found[static_cast<size_t>(block)].push_back(i);
    }
  });
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& of_block : found)
    all.insert(all.end(), of_block.begin(), of_block.end());
  return all;
}

}  // namespace weft
