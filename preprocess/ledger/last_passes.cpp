#include "preprocess/ledger/last_passes.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "indexed_dataset/format/pair/shared_pair_writer.h"
#include "indexed_dataset/format/sidecars/source_map.h"

namespace weft {
namespace {

// 20 MB of index for documents of one sequence: a fraction of a second of one thread's work.
constexpr int64_t kIndexPartEntries = int64_t{1} << 20;
// Offsets in one message.
constexpr int64_t kIndexPartTasks = 4096;
// 64 MiB: 5 ms of what the network of one machine takes, and 80,000 parts for 5 TB of tokens.
constexpr int64_t kBlockPartBytes = 4 * kChecksumBlockBytes;

using Kind = LastPassPart::Kind;

// A hand-out to one rank is its share of half of what is left: ranks that are fast ask more often.
int64_t share_of(int64_t num_left, int64_t num_ranks) {
  return std::max<int64_t>(1, num_left / (2 * std::max<int64_t>(1, num_ranks)));
}

void check_fits(const LastPassPart& part, const LastPassResult& result) {
  bool fits = false;
  if (part.kind == Kind::kIndex) {
    // Three for each task, and three of all together: there is one offset more than tasks.
    fits = result.checksums.size() == 3 * part.offsets.size() && result.block_hashes.empty();
  } else {
    const int64_t num_bytes = part.end_bytes - part.begin_bytes;
    fits = result.checksums.size() == part.cuts.size() + 1 &&
           std::ssize(result.block_hashes) ==
               (num_bytes + kChecksumBlockBytes - 1) / kChecksumBlockBytes;
    int64_t at = part.begin_bytes;
    for (size_t i = 0; fits && i <= part.cuts.size(); ++i) {
      at += result.checksums[i].num_bytes();
      fits = at == (i == part.cuts.size() ? part.end_bytes : part.cuts[i]);
    }
  }
  if (fits) return;
  throw std::logic_error("last passes: a result does not fit part " + std::to_string(part.number));
}

}  // namespace

const char* file_suffix(Kind kind) {
  if (kind == Kind::kBin) return ".bin";
  return kind == Kind::kSources ? ".sources" : ".idx";
}

LastPasses::LastPasses(WrittenFiles files)
    : files_(std::move(files)), datasets_(files_.paths.size()) {}

void LastPasses::File::add(const Crc32& expected, int64_t first_task, int64_t end_task) {
  if (expected.num_bytes() == 0) return;
  extents.push_back({size_bytes() + expected.num_bytes(), expected, first_task, end_task});
}

void LastPasses::add_task(size_t dataset, const DatasetOffset& offset,
                          const WrittenChecksums& checksums) {
  Dataset& of = datasets_.at(dataset);
  const int64_t number = std::ssize(of.tasks);
  of.offsets.push_back(offset);
  of.tasks.push_back(checksums);
  file(dataset, Kind::kBin).add(checksums.tokens, number, number + 1);
  add_bin_parts(dataset, /*is_all=*/false);
}

void LastPasses::add_bin_parts(size_t k, bool is_all) {
  const File& bin = file(k, Kind::kBin);
  const int64_t size_bytes = bin.size_bytes();
  for (int64_t begin = std::ssize(bin.parts) * kBlockPartBytes; begin < size_bytes;
       begin += kBlockPartBytes) {
    const int64_t end = begin + kBlockPartBytes;
    if (end > size_bytes && !is_all) return;
    add_part(Kind::kBin, k, begin, std::min(end, size_bytes));
  }
}

void LastPasses::add_part(Kind kind, size_t dataset, int64_t begin, int64_t end, bool is_next) {
  const int64_t number = std::ssize(parts_);
  parts_.push_back({kind, dataset, begin, end});
  if (kind != Kind::kIndex) file(dataset, kind).parts.push_back(number);
  is_next ? waiting_.push_front(number) : waiting_.push_back(number);
}

void LastPasses::complete(const std::vector<DatasetCounts>& totals,
                          const std::vector<DatasetFrame>& frames) {
  for (size_t k = 0; k < datasets_.size(); ++k) {
    Dataset& dataset = datasets_[k];
    dataset.total = totals.at(k);
    dataset.frame = frames.at(k);
    dataset.offsets.push_back({dataset.total, 0});
    add_bin_parts(k, /*is_all=*/true);
    add_index_parts(k);
    bytes_read_.all += file_bytes(k);
    if (file(k, Kind::kBin).size_bytes() != dataset.total.num_tokens * size_bytes(files_.type)) {
      throw std::logic_error("last passes: checksums are not of as many tokens as were counted");
    }
  }
  if (num_index_parts_left_ == 0) index_is_complete();
}

// The bytes of a dataset's files: .sources and .idx are as long as their entries and their frame.
int64_t LastPasses::file_bytes(size_t k) const {
  const auto& [index_header, sources_header, sources_footer] = datasets_[k].frame;
  const DatasetCounts& total = datasets_[k].total;
  const int64_t index_bytes =
      index_header.num_bytes() + 12 * total.num_sequences + 8 * (total.num_documents + 1);
  const int64_t sources_bytes = sources_header.num_bytes() + sources_footer.num_bytes() +
                                source_entry_bytes(files_.has_origins) * total.num_documents;
  return file(k, Kind::kBin).size_bytes() + index_bytes + sources_bytes;
}

void LastPasses::add_index_parts(size_t k) {
  const std::vector<DatasetOffset>& offsets = datasets_[k].offsets;
  const auto num_entries = [&](int64_t begin, int64_t end) {
    const DatasetCounts &from = offsets[static_cast<size_t>(begin)].before,
                        &to = offsets[static_cast<size_t>(end)].before;
    return to.num_sequences - from.num_sequences + to.num_documents - from.num_documents;
  };
  const int64_t num_tasks = std::ssize(datasets_[k].tasks);
  for (int64_t begin = 0, end = 0; begin < num_tasks; begin = end) {
    for (++end; end < num_tasks && end - begin < kIndexPartTasks; ++end) {
      if (num_entries(begin, end + 1) > kIndexPartEntries) break;
    }
    add_part(Kind::kIndex, k, begin, end, /*is_next=*/true);
    ++num_index_parts_left_;
  }
}

// From here on .sources and .idx can be read: what is expected of them is known.
void LastPasses::index_is_complete() {
  has_index_ = true;
  for (size_t k = 0; k < datasets_.size(); ++k) {
    const Dataset& dataset = datasets_[k];
    const DatasetFrame& frame = dataset.frame;
    File &sources = file(k, Kind::kSources), &idx = file(k, Kind::kIdx);
    // The checksums of what completing the index wrote or read: `which` counts from the last.
    const auto add_ranges = [&](File& to, size_t which) {
      for (const Part& part : parts_) {
        if (part.kind != Kind::kIndex || part.dataset != k) continue;
        to.add(part.result.checksums.rbegin()[static_cast<std::ptrdiff_t>(which)], 0, 0);
      }
    };
    sources.add(frame.sources_header, 0, 0);
    add_ranges(sources, 0);
    sources.add(frame.sources_footer, 0, 0);
    idx.add(frame.index_header, 0, 0);
    Crc32 lengths;
    for (const WrittenChecksums& task : dataset.tasks) lengths.append(task.lengths);
    idx.add(lengths, 0, 0);
    add_ranges(idx, 2);
    idx.add(Crc32::of(std::array<std::byte, 8>{}), 0, 0);  // the first of the document bounds
    add_ranges(idx, 1);
  }
  for (const Kind kind : {Kind::kSources, Kind::kIdx}) {
    for (size_t k = 0; k < datasets_.size(); ++k) {
      const int64_t size_bytes = file(k, kind).size_bytes();
      for (int64_t begin = 0; begin < size_bytes; begin += kBlockPartBytes) {
        add_part(kind, k, begin, std::min(begin + kBlockPartBytes, size_bytes));
      }
    }
  }
}

LastPassPart LastPasses::message_of(int64_t number) const {
  const Part& part = parts_[static_cast<size_t>(number)];
  const Dataset& dataset = datasets_[part.dataset];
  LastPassPart message;
  message.number = number;
  message.dataset = static_cast<int64_t>(part.dataset);
  message.kind = part.kind;
  if (part.kind == Kind::kIndex) {
    message.total = dataset.total;
    message.offsets.assign(dataset.offsets.begin() + part.begin,
                           dataset.offsets.begin() + part.end + 1);
    return message;
  }
  message.begin_bytes = part.begin;
  message.end_bytes = part.end;
  const std::vector<Extent>& extents = file(part.dataset, part.kind).extents;
  auto extent =
      std::upper_bound(extents.begin(), extents.end(), part.begin,
                       [](int64_t bytes, const Extent& each) { return bytes < each.end_bytes; });
  for (; extent != extents.end() && extent->end_bytes < part.end; ++extent) {
    message.cuts.push_back(extent->end_bytes);
  }
  return message;
}

std::vector<LastPassPart> LastPasses::give(int rank, int64_t num_wanted, int64_t num_ranks) {
  std::vector<LastPassPart> given;
  num_wanted = std::min(num_wanted, share_of(std::ssize(waiting_), num_ranks));
  for (; num_wanted > 0 && !waiting_.empty(); --num_wanted) {
    const int64_t number = waiting_.front();
    waiting_.pop_front();
    parts_[static_cast<size_t>(number)].rank = rank;
    given.push_back(message_of(number));
  }
  return given;
}

void LastPasses::take(int rank, LastPassResult result) {
  if (result.number < 0 || result.number >= std::ssize(parts_)) {
    throw std::logic_error("last passes: there is no part " + std::to_string(result.number));
  }
  Part& part = parts_[static_cast<size_t>(result.number)];
  if (part.rank != rank || part.is_done) return;
  check_fits(message_of(result.number), result);
  part.result = std::move(result);
  part.is_done = true;
  ++num_done_;
  if (part.kind != Kind::kIndex) {
    bytes_read_.done += part.end - part.begin;
    return compare_blocks(part.dataset, part.kind);
  }
  compare_index(part);
  if (--num_index_parts_left_ == 0) index_is_complete();
}

// Compares the lengths and bounds that the index was made from, and the sources, whose offsets were
// made to count from the task's begin.
void LastPasses::compare_index(const Part& part) {
  const Dataset& dataset = datasets_[part.dataset];
  const std::string& path = files_.paths[part.dataset];
  const int64_t entry_bytes = source_entry_bytes(files_.has_origins);
  for (int64_t task = part.begin; task < part.end; ++task) {
    const auto i = static_cast<size_t>(task);
    const WrittenChecksums& written = dataset.tasks[i];
    const DatasetCounts &from = dataset.offsets[i].before, &to = dataset.offsets[i + 1].before;
    const Crc32* read = &part.result.checksums[3 * static_cast<size_t>(task - part.begin)];
    const auto add_lost = [&](const char* suffix, int64_t header_bytes, int64_t first, int64_t end,
                              int64_t size_bytes) {
      lost_.push_back({path + suffix, header_bytes + size_bytes * first,
                       header_bytes + size_bytes * end, task, task + 1});
    };
    if (read[0] != written.lengths) {
      add_lost(".idx", kIndexHeaderBytes, from.num_sequences, to.num_sequences, 4);
    }
    if (read[1] != written.documents) {
      add_lost(".bounds", 8, from.num_documents, to.num_documents, 8);
    }
    if (read[2] != written.sources) {
      add_lost(".sources", kSourceHeaderBytes, from.num_documents, to.num_documents, entry_bytes);
    }
  }
}

// Compares the parts that are done, in the order of the file, up to the first one that is not.
void LastPasses::compare_blocks(size_t k, Kind kind) {
  File& of = file(k, kind);
  for (; of.num_compared_parts < of.parts.size(); ++of.num_compared_parts) {
    Part& part = parts_[static_cast<size_t>(of.parts[of.num_compared_parts])];
    if (!part.is_done) return;
    for (const Crc32& crc : part.result.checksums) {
      of.read.append(crc);
      const Extent& extent = of.extents[of.num_compared_extents];
      const int64_t begin_bytes =
          of.num_compared_extents == 0 ? 0 : of.extents[of.num_compared_extents - 1].end_bytes;
      if (begin_bytes + of.read.num_bytes() < extent.end_bytes) continue;
      if (of.read != extent.expected) {
        lost_.push_back({files_.paths[k] + file_suffix(kind), begin_bytes, extent.end_bytes,
                         extent.first_task, extent.end_task});
      }
      of.read = {};
      ++of.num_compared_extents;
    }
    part.result.checksums = {};
  }
}

std::vector<LostBytes> LastPasses::lost_bytes() const {
  std::vector<LostBytes> lost = lost_;
  const auto order_of = [](const LostBytes& each) { return std::tie(each.path, each.begin_bytes); };
  std::stable_sort(lost.begin(), lost.end(), [&](const LostBytes& one, const LostBytes& other) {
    return order_of(one) < order_of(other);
  });
  return lost;
}

std::vector<FileChecksums> LastPasses::checksums(size_t dataset) const {
  std::vector<FileChecksums> list;
  for (const Kind kind : {Kind::kBin, Kind::kIdx, Kind::kSources}) {
    const File& of = file(dataset, kind);
    FileChecksums& checksums = list.emplace_back();
    checksums.suffix = file_suffix(kind);
    checksums.size_bytes = of.size_bytes();
    for (const int64_t number : of.parts) {
      const auto& hashes = parts_[static_cast<size_t>(number)].result.block_hashes;
      checksums.blocks.insert(checksums.blocks.end(), hashes.begin(), hashes.end());
    }
  }
  return list;
}

}  // namespace weft
