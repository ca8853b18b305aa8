#include "preprocess/rank/last_pass_work.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/storage/file_io.h"

namespace weft {
namespace {

constexpr int64_t kPieceBytes = int64_t{256} << 10;

// Checksums of one task, or of several, while the index is completed.
struct SeenIndex {
  Crc32 lengths, documents, sources;             // of the task at hand
  Crc32 offset_bytes, bound_bytes, entry_bytes;  // of all tasks
};

void add_documents(SeenIndex& seen, std::span<const int64_t> bounds, int64_t& last_bound) {
  std::vector<int32_t> num_sequences;
  num_sequences.reserve(bounds.size());
  for (const int64_t bound : bounds) {
    num_sequences.push_back(static_cast<int32_t>(bound - last_bound));
    last_bound = bound;
  }
  seen.documents.add(std::as_bytes(std::span(num_sequences)));
}

void read_sources(SeenIndex& seen, const InputFile& file, const DatasetOffset& begin,
                  int64_t end_document, bool has_origins, const std::function<void()>& check) {
  const int64_t entry_bytes = source_entry_bytes(has_origins);
  std::vector<std::byte> entries;
  for (int64_t i = begin.before.num_documents; i < end_document;
       i += std::ssize(entries) / entry_bytes) {
    check();
    const int64_t count = std::min(end_document - i, kPieceBytes / entry_bytes);
    entries.resize(static_cast<size_t>(count * entry_bytes));
    file.read_at(entries.data(), entries.size(), source_entry_at(i, has_origins));
    seen.entry_bytes.add(entries);
    for (int64_t at = 0; at < std::ssize(entries); at += entry_bytes) {
      subtract_from_source_offset(entries.data() + at, begin.num_input_bytes);
    }
    seen.sources.add(entries);
  }
}

LastPassResult complete_index(const LastPassPart& part, RunFiles& files,
                              const std::function<void()>& check) {
  const auto k = static_cast<size_t>(part.dataset);
  const InputFile sources(files.path_of(k, ".sources"), Links::kRefuse);
  LastPassResult result{part.number, {}, {}};
  SeenIndex seen;
  for (size_t i = 0; i + 1 < part.offsets.size(); ++i) {
    const DatasetOffset& begin = part.offsets[i];
    const DatasetCounts& end = part.offsets[i + 1].before;
    int64_t last_bound = begin.before.num_sequences;
    seen.lengths = seen.documents = seen.sources = {};
    SharedPairWriter::SeeIndex see;
    see.lengths = [&](std::span<const int32_t> lengths) {
      seen.lengths.add(std::as_bytes(lengths));
    };
    see.offsets = [&](std::span<const int64_t> offsets) {
      seen.offset_bytes.add(std::as_bytes(offsets));
    };
    see.bounds = [&](std::span<const int64_t> bounds) {
      add_documents(seen, bounds, last_bound);
      seen.bound_bytes.add(std::as_bytes(bounds));
    };
    files.pair(k).write_index(part.total, begin.before, end, see, check);
    read_sources(seen, sources, begin, end.num_documents, files.has_origins(), check);
    for (const Crc32& crc : {seen.lengths, seen.documents, seen.sources}) {
      result.checksums.push_back(crc);
    }
  }
  files.pair(k).sync_index();
  crash_point("index_completed");
  for (const Crc32& crc : {seen.offset_bytes, seen.bound_bytes, seen.entry_bytes}) {
    result.checksums.push_back(crc);
  }
  return result;
}

LastPassResult read_blocks(const LastPassPart& part, const RunFiles& files,
                           const std::function<void()>& check) {
  InputFile file(files.path_of(static_cast<size_t>(part.dataset), file_suffix(part.kind)),
                 Links::kRefuse);
  file.read_zeros_behind_end();
  LastPassResult result{part.number, {}, {}};
  Crc32 crc;
  auto cut = part.cuts.begin();
  const auto see = [&](int64_t at, std::span<const std::byte> bytes) {
    check();
    for (; cut != part.cuts.end() && *cut <= at + std::ssize(bytes); ++cut) {
      const auto before = static_cast<size_t>(*cut - at);
      crc.add(bytes.first(before));
      result.checksums.push_back(std::exchange(crc, {}));
      bytes = bytes.subspan(before);
      at = *cut;
    }
    crc.add(bytes);
  };
  for (int64_t begin = part.begin_bytes; begin < part.end_bytes; begin += kChecksumBlockBytes) {
    const int64_t end = std::min(begin + kChecksumBlockBytes, part.end_bytes);
    result.block_hashes.push_back(compute_block_checksum(file, begin, end, see));
  }
  result.checksums.push_back(crc);
  crash_point("blocks_read");
  return result;
}

}  // namespace

LastPassResult carry_out(const LastPassPart& part, RunFiles& files,
                         const std::function<void()>& check) {
  return part.kind == LastPassPart::Kind::kIndex ? complete_index(part, files, check)
                                                 : read_blocks(part, files, check);
}

void LastPassWork::start(LastPassPart part) {
  struct Cancelled : std::exception {};
  ++num_underway_;
  auto result = std::make_shared<LastPassResult>();
  pool_.run(
      [this, part = std::move(part), result] {
        *result = carry_out(part, files_, [this] {
          crash_point("last_passes");
          if (is_cancelled_) throw Cancelled();
        });
      },
      [this, result] {
        --num_underway_;
        results_.push_back(std::move(*result));
      });
}

}  // namespace weft
