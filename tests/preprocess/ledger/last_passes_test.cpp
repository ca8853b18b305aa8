// The last passes with any ranks: every byte is read once, and whatever was lost is found and
// named. Everything that was written is zeros, whose checksums take no reading.
#include "preprocess/ledger/last_passes.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/format/pair/shared_pair_writer.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "tests/preprocess/ledger/zeros_crc.h"

namespace weft {
namespace {

// A mistake of the program must not look like one of its user.
ExitCode exit_code_of(const std::function<void()>& call) {
  try {
    call();
    return ExitCode::kDone;
  } catch (const std::exception& error) {
    return exit_code_for(error);
  }
}

constexpr int64_t kMiB = 1 << 20;
using Kind = LastPassPart::Kind;

LastPassResult computed_result_of(const LastPassPart& part) {
  LastPassResult result{part.number, {}, {}};
  if (part.kind == Kind::kIndex) {
    DatasetCounts all;
    for (size_t i = 0; i + 1 < part.offsets.size(); ++i) {
      const DatasetCounts &begin = part.offsets[i].before, &end = part.offsets[i + 1].before;
      const int64_t num_documents = end.num_documents - begin.num_documents;
      const int64_t num_sequences = end.num_sequences - begin.num_sequences;
      result.checksums.push_back(crc_of_zeros(4 * num_sequences));
      result.checksums.push_back(crc_of_zeros(4 * num_documents));
      result.checksums.push_back(crc_of_zeros(44 * num_documents));
      all.num_documents += num_documents;
      all.num_sequences += num_sequences;
    }
    result.checksums.push_back(crc_of_zeros(8 * all.num_sequences));
    result.checksums.push_back(crc_of_zeros(8 * all.num_documents));
    result.checksums.push_back(crc_of_zeros(44 * all.num_documents));
    return result;
  }
  int64_t begin = part.begin_bytes;
  for (const int64_t cut : part.cuts) {
    EXPECT_GT(cut, begin);
    EXPECT_LT(cut, part.end_bytes);
    result.checksums.push_back(crc_of_zeros(cut - begin));
    begin = cut;
  }
  result.checksums.push_back(crc_of_zeros(part.end_bytes - begin));
  for (int64_t at = part.begin_bytes; at < part.end_bytes; at += kChecksumBlockBytes) {
    result.block_hashes.push_back(static_cast<uint64_t>(part.dataset) << 60 |
                                  static_cast<uint64_t>(part.kind) << 56 |
                                  static_cast<uint64_t>(at));
  }
  return result;
}

class Passes : public ::testing::Test {
 protected:
  // Tasks of very different sizes, many without a document.
  void begin(int num_tasks) {
    totals_ = {{}, {}};
    tasks_.clear();
    for (int i = 0; i < num_tasks; ++i) {
      Task& task = tasks_.emplace_back();
      for (size_t k = 0; k < 2; ++k) {
        const int64_t scale = chance(3) == 0 ? 0 : chance(5) == 0 ? 10 * kMiB : 1000;
        const DatasetCounts counts = {scale + chance(2 + scale), scale + chance(2 + scale),
                                      4 * scale + chance(2 + scale)};
        task.offsets.push_back({totals_[k], chance(1000)});
        task.written.push_back(
            {crc_of_zeros(4 * counts.num_tokens), crc_of_zeros(4 * counts.num_sequences),
             crc_of_zeros(4 * counts.num_documents), crc_of_zeros(44 * counts.num_documents)});
        totals_[k].add(counts);
      }
    }
    passes_.emplace(WrittenFiles{{"k0", "k1"}, TokenType::kInt32, /*has_origins=*/true});
  }

  // Until all is done: random ranks. Part `lie_at` gets a result in which
  // one checksum, of no empty bytes, is another one; true if there was one.
  bool work(int64_t lie_at = -1) {
    bool has_lied = false;
    std::map<int, std::vector<LastPassPart>> held;
    int64_t num_steps = 0, num_index_left = 0;
    size_t num_added = 0;
    bool is_complete = false;
    while (!passes_->all_done()) {
      if (num_added < tasks_.size() && chance(2) == 0) {
        const Task& task = tasks_[num_added++];
        for (size_t k = 0; k < 2; ++k) passes_->add_task(k, task.offsets[k], task.written[k]);
      } else if (num_added == tasks_.size() && !std::exchange(is_complete, true)) {
        const DatasetFrame frame = {crc_of_zeros(kIndexHeaderBytes),
                                    crc_of_zeros(kSourceHeaderBytes), crc_of_zeros(55)};
        passes_->complete(totals_, {frame, frame});
      }
      EXPECT_LT(++num_steps, 1'000'000);
      if (num_steps >= 1'000'000) return false;
      const int rank = static_cast<int>(chance(5));
      while (!held[rank].empty() && chance(4) > 0) {
        const LastPassPart part = held[rank].back();
        held[rank].pop_back();
        LastPassResult result = computed_result_of(part);
        if (part.number == lie_at) {
          for (Crc32& crc : result.checksums) {
            if (crc.num_bytes() == 0 || has_lied) continue;
            crc = Crc32(crc.value() + 1, crc.num_bytes());
            has_lied = true;
          }
        }
        passes_->take(rank, result);
        passes_->take(rank, result);  // again: nothing happens
        num_index_left -= part.kind == Kind::kIndex;
      }
      for (LastPassPart& part : passes_->give(rank, chance(6), 5)) {
        num_index_left += part.kind == Kind::kIndex;
        EXPECT_TRUE(part.kind != Kind::kIdx || num_index_left == 0) << "it is not complete yet";
        held[rank].push_back(std::move(part));
      }
    }
    EXPECT_EQ(passes_->bytes_read().done, passes_->bytes_read().all);
    return has_lied;
  }

  int64_t chance(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
  std::mt19937 random_{1};
  struct Task {
    std::vector<DatasetOffset> offsets;  // in both datasets
    std::vector<WrittenChecksums> written;
  };
  std::vector<Task> tasks_;
  std::vector<DatasetCounts> totals_;
  std::optional<LastPasses> passes_;
};

TEST_F(Passes, EveryByteIsReadOnce) {
  for (const int num_tasks : {0, 1, 3, 200}) {
    begin(num_tasks);
    work();
    EXPECT_TRUE(passes_->lost_bytes().empty());
    for (size_t k = 0; k < 2; ++k) {
      const auto files = passes_->checksums(k);
      ASSERT_EQ(files.size(), 3U);
      const DatasetCounts& total = totals_[k];
      EXPECT_EQ(files[0].size_bytes, total.num_tokens * 4);
      EXPECT_EQ(files[1].size_bytes, SharedPairWriter::index_bytes(total));
      EXPECT_EQ(files[2].size_bytes, 64 + 44 * total.num_documents + 55);
      constexpr Kind kKinds[] = {Kind::kBin, Kind::kIdx, Kind::kSources};
      for (size_t file = 0; file < 3; ++file) {
        int64_t at = 0;
        for (const uint64_t hash : files[file].blocks) {
          EXPECT_EQ(hash, uint64_t{k} << 60 | static_cast<uint64_t>(kKinds[file]) << 56 |
                              static_cast<uint64_t>(at));
          at += kChecksumBlockBytes;
        }
        EXPECT_GE(at, files[file].size_bytes);
      }
    }
  }
}

TEST_F(Passes, LostBytesAreFoundWhereverTheyAre) {
  begin(60);
  work();
  const int64_t num_parts = passes_->num_parts();
  EXPECT_GT(num_parts, 50);
  for (int64_t part = 0; part < num_parts; ++part) {
    random_.seed(1);
    begin(60);
    if (!work(part)) continue;
    const auto lost = passes_->lost_bytes();
    ASSERT_GE(lost.size(), 1U) << part;
    EXPECT_LT(lost[0].begin_bytes, lost[0].end_bytes);
  }
}

TEST_F(Passes, ResultsThatFitNoPartAreRefused) {
  begin(10);
  for (const Task& task : tasks_) {
    for (size_t k = 0; k < 2; ++k) passes_->add_task(k, task.offsets[k], task.written[k]);
  }
  passes_->complete(totals_, {{}, {}});
  const auto parts = passes_->give(0, 1000, 1);
  ASSERT_FALSE(parts.empty());
  EXPECT_EQ(exit_code_of([&] { passes_->take(0, {-1, {}, {}}); }), ExitCode::kInternalError);
  EXPECT_EQ(exit_code_of([&] {
              passes_->take(0, {passes_->num_parts(), {}, {}});
            }),
            ExitCode::kInternalError);
  for (const LastPassPart& part : parts) {
    LastPassResult result = computed_result_of(part);
    result.checksums.pop_back();
    EXPECT_EQ(exit_code_of([&] { passes_->take(0, result); }), ExitCode::kInternalError);
    result = computed_result_of(part);
    result.block_hashes.push_back(1);
    EXPECT_EQ(exit_code_of([&] { passes_->take(0, result); }), ExitCode::kInternalError);
  }
}

}  // namespace
}  // namespace weft
