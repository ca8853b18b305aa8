#include "indexed_dataset/format/merge/merge_sources.h"

#include <algorithm>
#include <stdexcept>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

std::optional<int64_t> MergedInput::add(const std::optional<InputPart>& part) {
  is_whole_ |= !part;
  if (!part) return 0;
  if (!sum_ || sum_->is_empty()) {
    if (is_whole_ && !part->counts_from_input) return std::nullopt;
    sum_ = part;
    return 0;
  }
  if (part->is_empty()) return 0;
  const bool follows = sum_->file_end == part->file_begin;
  if (part->counts_from_input ? !sum_->counts_from_input : !follows) return std::nullopt;
  // If the text before a part of a compressed input is known, entries count from the input's
  // begin.
  const int64_t text_begin = sum_->counts_from_input ? sum_->file_begin : 0;
  const int64_t shift = part->counts_from_input ? 0 : text_begin + sum_->num_bytes;
  if (!follows) {
    sum_ = part;
  } else {
    sum_->file_end = part->file_end;
    if (__builtin_add_overflow(sum_->num_bytes, part->num_bytes, &sum_->num_bytes))
      return std::nullopt;
  }
  return shift;
}

std::optional<InputPart> MergedInput::part() const {
  return is_whole_ || !sum_ || sum_->is_whole() ? std::nullopt : sum_;
}

std::optional<SourcesMerge> SourcesMerge::open(const PairMerge& pairs,
                                               std::vector<std::string>& notes) {
  const char* what = "the result has no source map: ";
  if (!pairs.has_bounds()) {
    notes.push_back(std::string(what) + "no part has document bounds");
    return std::nullopt;
  }
  SourcesMerge merge;
  for (const PairMerge::Part& part : pairs.parts()) {
    const std::string path = sources_path(part.reader.prefix()).string();
    auto map = open_source_map_of(part.reader);
    if (!map) {
      notes.push_back(what + path + " is not there");
      return std::nullopt;
    }
    const std::string lost =
        merge.add({std::move(*map), part.documents_before, &part.documents, {}});
    if (lost.empty()) continue;
    notes.push_back(what + path + " counts the bytes of " + lost +
                    " from the begin of its part, and the part before it does not come before it");
    return std::nullopt;
  }
  for (const MergedInput& input : merge.merged_inputs_) merge.input_parts_.push_back(input.part());
  return merge;
}

int64_t SourcesMerge::size_bytes() const {
  return source_entry_at(num_documents_, has_origins_) + footer_bytes_;
}

SourceEntry SourcesMerge::OnePart::entry(int64_t document_idx) const {
  SourceEntry entry = map.entry(document_idx);
  const NewInput& input = new_inputs[entry.input_idx];
  entry.input_idx = input.idx;
  if (__builtin_add_overflow(entry.offset_bytes, input.shift_bytes, &entry.offset_bytes)) {
    throw std::runtime_error(map.path().string() +
                             ": a document beyond the end of all files: it is damaged");
  }
  return entry;
}

Crc32 SourcesMerge::write(const std::filesystem::path& path, int num_threads,
                          const std::function<void()>& check) const {
  constexpr int64_t kEntries = int64_t{1} << 18;  // 3 MB a piece, 12 with origins
  struct Piece {
    const OnePart* part;
    int64_t first, count;
    Crc32 crc;
  };
  std::vector<Piece> pieces;
  for (const OnePart& part : parts_) {
    for (int64_t i = 0; i < part.map.num_documents(); i += kEntries)
      pieces.push_back({&part, i, std::min(kEntries, part.map.num_documents() - i), {}});
  }
  OutputFile file(path);
  file.truncate(source_entry_at(num_documents_, has_origins_));
  parallel_for(static_cast<int64_t>(pieces.size()), num_threads, [&](int64_t i) {
    check();
    auto& [part, first, count, crc] = pieces[static_cast<size_t>(i)];
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(source_entry_bytes(has_origins_) * count));
    const auto write_kept = [&, one = part, sum = &crc](int64_t begin, int64_t end,
                                                        int64_t num_dropped) {
      bytes.clear();
      for (int64_t k = begin; k < end; ++k) append_source_entry(bytes, one->entry(k), has_origins_);
      sum->add(bytes);
      file.write_at(bytes.data(), bytes.size(),
                    source_entry_at(one->documents_before + begin - num_dropped, has_origins_));
    };
    part->dropped->for_each_kept(first, first + count, write_kept);
  });
  file.close();
  seal_source_map(path, num_documents_, inputs_, input_parts_, has_origins_, locators_);
  Crc32 entries;
  for (const Piece& piece : pieces) entries.append(piece.crc);
  return entries;
}

std::string SourcesMerge::add(OnePart one) {
  std::map<std::string, int> num_seen;
  for (size_t i = 0; i < one.map.inputs().size(); ++i) {
    const std::string& input = one.map.inputs()[i];
    const Locator locator = one.map.locators()[i];
    const auto [place, is_new] = index_of_input_.emplace(
        std::tuple(input, locator, num_seen[input]++), static_cast<uint32_t>(inputs_.size()));
    if (is_new) {
      inputs_.push_back(input);
      locators_.push_back(locator);
      merged_inputs_.emplace_back();
      footer_bytes_ += static_cast<int64_t>(input.size()) + 180;  // with a part's numbers
    }
    const auto shift_bytes = merged_inputs_[place->second].add(one.map.parts()[i]);
    if (!shift_bytes) return input;
    one.new_inputs.push_back({place->second, *shift_bytes});
  }
  num_documents_ += one.map.num_documents() - one.dropped->count();
  has_origins_ |= one.map.has_origins();
  parts_.push_back(std::move(one));
  return "";
}

}  // namespace weft
