#include "indexed_dataset/format/repair/index_draft.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "indexed_dataset/format/pair/index_view.h"

namespace weft {
namespace {

// Far above what a call costs, and little memory.
constexpr int64_t kEntriesAtATime = int64_t{1} << 17;

}  // namespace

void IndexDraft::restart(TokenType type) {
  file_.truncate(0);
  type_ = type;
  num_sequences_ = 0;
  lengths_.clear();
}

void IndexDraft::add_length(int32_t num_tokens) {
  lengths_.push_back(num_tokens);
  ++num_sequences_;
  if (std::ssize(lengths_) == kEntriesAtATime) write_lengths();
}

void IndexDraft::write_lengths() {
  if (lengths_.empty()) return;
  const int64_t before = num_sequences_ - std::ssize(lengths_);
  file_.write_at(lengths_.data(), 4 * lengths_.size(), kIndexHeaderBytes + 4 * before);
  lengths_.clear();
}

void IndexDraft::write_offsets() {
  const InputFile written(path());
  std::vector<int32_t> lengths;
  std::vector<int64_t> offsets;
  int64_t offset_bytes = 0;
  for (int64_t i = 0; i < num_sequences_; i += std::ssize(lengths)) {
    lengths.resize(static_cast<size_t>(std::min(kEntriesAtATime, num_sequences_ - i)));
    written.read_at(lengths.data(), 4 * lengths.size(), kIndexHeaderBytes + 4 * i);
    offsets.clear();
    for (const int32_t length : lengths) {
      offsets.push_back(offset_bytes);
      offset_bytes += length * size_bytes(type_);
    }
    file_.write_at(offsets.data(), 8 * offsets.size(),
                   kIndexHeaderBytes + 4 * num_sequences_ + 8 * i);
  }
}

void IndexDraft::finish() {
  write_lengths();
  write_offsets();
  const int64_t num_bounds = num_sequences_ + 1,
                bounds_at = kIndexHeaderBytes + 12 * num_sequences_;
  std::vector<int64_t> bounds;
  for (int64_t k = 0; k < num_bounds; k += std::ssize(bounds)) {
    bounds.resize(static_cast<size_t>(std::min(kEntriesAtATime, num_bounds - k)));
    std::iota(bounds.begin(), bounds.end(), k);
    file_.write_at(bounds.data(), 8 * bounds.size(), bounds_at + 8 * k);
  }
  std::string header(kIndexMagic);
  const auto add = [&header](const auto& value) {
    header.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  add(kIndexVersion);
  add(type_);
  add(num_sequences_);
  add(num_bounds);
  file_.write_at(header.data(), header.size(), 0);
  file_.sync();
}

}  // namespace weft
