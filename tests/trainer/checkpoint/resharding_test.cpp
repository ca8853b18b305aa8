// A checkpoint that one topology has written is read by any other one to the bit, each element
// once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/run_record/manifest_checksum.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/model_tool/compare_checkpoints.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTied = "embedding.word_embeddings.weight";
constexpr int kLast = -1;

// The tensors of a small model: split by rows, by columns, or held whole by all tensor ranks. The
// tied one lies on the first pipeline stage and on the last, any other one on one of them.
struct Shape {
  const char* name;
  std::vector<int64_t> global_shape;
  int split_dim;
  int stage;
};
const Shape kShapes[] = {{"w", {8, 6}, 0, 0},
                         {"v", {6, 8}, 1, kLast},
                         {"bias", {5}, -1, kLast},
                         {"big", {40, 4}, 0, 0},
                         {kTied, {16, 2}, 0, 0}};

bool is_on(const Shape& shape, const ParallelLayout& layout) {
  const bool is_last = layout.pp_rank + 1 == layout.pp_size;
  if (shape.name == std::string(kTied) && is_last) return true;
  return shape.stage == kLast ? is_last : layout.pp_rank == shape.stage;
}

// The tensors of one rank, with values that name their global element.
class RankState {
 public:
  RankState(const ParallelLayout& layout, bool shards_optimizer, bool has_values) {
    for (const char* prefix : {"model/", "optimizer/exp_avg/"}) {
      for (const Shape& shape : kShapes) {
        if (!is_on(shape, layout)) continue;
        const bool is_sharded = shards_optimizer && std::string(prefix) != "model/";
        add(prefix, shape, layout, is_sharded, has_values);
      }
    }
  }
  std::vector<StateTensor> tensors() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].tensor =
          Tensor(values_[i].data(), DType::kFloat32, {static_cast<int64_t>(values_[i].size())});
    }
    return tensors_;
  }
  const std::vector<std::vector<float>>& values() const { return values_; }

 private:
  void add(const std::string& prefix, const Shape& shape, const ParallelLayout& layout,
           bool is_sharded, bool has_values) {
    StateTensor tensor{
        .name = prefix + shape.name, .global_shape = shape.global_shape, .tensor = {}};
    if (layout.tp_size > 1) tensor.split_dim = shape.split_dim;
    if (tensor.split_dim >= 0) {
      const int64_t size = shape.global_shape[static_cast<size_t>(shape.split_dim)];
      tensor.begin = size / layout.tp_size * layout.tp_rank;
      tensor.end = tensor.begin + size / layout.tp_size;
    }
    const int64_t in_slice = slice_elements({.name = "",
                                             .global_shape = shape.global_shape,
                                             .split_dim = tensor.split_dim,
                                             .begin = tensor.begin,
                                             .end = tensor.end});
    // Two buckets, of which each data-parallel rank has a part, as with a sharded optimizer.
    std::vector<std::pair<int64_t, int64_t>> ranges = {{0, in_slice}};
    if (is_sharded) {
      const int64_t half = in_slice / 2;
      ranges = {part_of(0, half, layout), part_of(half, in_slice, layout)};
    }
    for (const auto& [first, end] : ranges) {
      tensor.first = first;
      tensors_.push_back(tensor);
      values_.emplace_back(static_cast<size_t>(end - first), -1.0F);
      if (!has_values) continue;
      std::vector<float> global(1000);
      std::iota(global.begin(), global.end(), prefix == "model/" ? 0.0F : 5000.0F);
      const TensorPiece whole{
          .name = "",
          .global_shape = shape.global_shape,
          .count = std::accumulate(shape.global_shape.begin(), shape.global_shape.end(), int64_t{1},
                                   std::multiplies())};
      const TensorPiece mine{.name = "",
                             .global_shape = shape.global_shape,
                             .split_dim = tensor.split_dim,
                             .begin = tensor.begin,
                             .end = tensor.end,
                             .first = first,
                             .count = end - first};
      for_each_common_run(whole, mine, [&](int64_t from, int64_t to, int64_t count) {
        std::copy_n(global.begin() + from, count, values_.back().begin() + to);
      });
    }
  }
  static std::pair<int64_t, int64_t> part_of(int64_t begin, int64_t end,
                                             const ParallelLayout& layout) {
    const int64_t size = end - begin;
    return {begin + size * layout.dp_rank / layout.dp_size,
            begin + size * (layout.dp_rank + 1) / layout.dp_size};
  }

  std::vector<StateTensor> tensors_;
  std::vector<std::vector<float>> values_;
};

struct Arrangement {
  int tp_size, dp_size;
  bool shards_optimizer;
  int pp_size = 1;
  Topology topology() const { return {.tp_size = tp_size, .pp_size = pp_size, .dp_size = dp_size}; }
  std::string name() const {
    return std::string("tp") + std::to_string(tp_size) + "dp" + std::to_string(dp_size) +
           (shards_optimizer ? "sharded" : "") +
           (pp_size > 1 ? "pp" + std::to_string(pp_size) : "");
  }
};
const Arrangement kArrangements[] = {
    {1, 1, false}, {1, 2, false}, {1, 4, true},     {2, 1, false},   {2, 2, false},   {2, 2, true},
    {4, 1, false}, {1, 3, true},  {1, 1, false, 2}, {2, 2, true, 2}, {1, 2, false, 3}};

class Resharding : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(dir_); }
  void TearDown() override { fs::remove_all(dir_); }
  void save(const Arrangement& run) const {
    const Topology topology = run.topology();
    run_ranks(topology.world_size(), [&](HostGroup& ranks) {
      const ParallelLayout layout = layout_of(topology, ranks.rank());
      RankState state(layout, run.shards_optimizer, /*has_values=*/true);
      const auto backend = create_cpu_backend(1);
      std::vector<char> memory(static_cast<size_t>(staging_bytes(state.tensors())));
      CheckpointStaging staging{
          *backend, Tensor(memory.data(), DType::kUInt8, {static_cast<int64_t>(memory.size())})};
      CheckpointInfo info;
      info.scalars.iteration = 7;
      info.lr_decay_style = "cosine";
      save_checkpoint(dir_ / run.name(), info,
                      written_by(layout, run.shards_optimizer, state.tensors()), staging, ranks);
    });
  }
  fs::path dir_ = fs::temp_directory_path() / ("weft-resharding-" + std::to_string(::getpid()));
};

TEST_F(Resharding, EveryTopologyReadsEveryOthersCheckpointToTheBit) {
  for (const Arrangement& saved : kArrangements) {
    save(saved);
    for (const Arrangement& loaded : kArrangements) {
      const Topology topology = loaded.topology();
      for (int rank = 0; rank < topology.world_size(); ++rank) {
        const ParallelLayout layout = layout_of(topology, rank);
        RankState state(layout, loaded.shards_optimizer, /*has_values=*/false);
        load_checkpoint(dir_ / saved.name(), 7, state.tensors(), *create_cpu_backend(1));
        EXPECT_EQ(state.values(), RankState(layout, loaded.shards_optimizer, true).values())
            << saved.name() << " read by rank " << rank << " of " << loaded.name();
      }
    }
  }
}

TEST_F(Resharding, EachElementIsWrittenOnce) {
  int64_t expected = 0;
  for (const Shape& shape : kShapes) {
    expected += 2 * std::accumulate(shape.global_shape.begin(), shape.global_shape.end(),
                                    int64_t{1}, std::multiplies());
  }
  for (const Arrangement& run : kArrangements) {
    save(run);
    int64_t stored = 0;
    std::map<std::string, int64_t> of_file;
    for (const StoredPiece& piece : manifest_of(dir_ / run.name(), 7).pieces) {
      stored += piece.piece.count;
      of_file[piece.file] += piece.piece.count;
    }
    EXPECT_EQ(stored, expected) << run.name();
    if (run.pp_size > 1) continue;  // a small stage has nothing to write for some ranks
    EXPECT_EQ(of_file.size(), static_cast<size_t>(run.topology().world_size())) << run.name();
  }
}

TEST_F(Resharding, AMissingPieceIsNamed) {
  save({2, 2, true});
  const fs::path path = manifest_path(checkpoint_folder(dir_ / "tp2dp2sharded", 7));
  Manifest manifest = read_manifest(path);
  const auto lost = std::find_if(
      manifest.pieces.begin(), manifest.pieces.end(),
      [](const StoredPiece& stored) { return stored.piece.name == "optimizer/exp_avg/big"; });
  manifest.pieces.erase(lost);
  write_file_atomically(path, to_json(manifest));
  RankState state(layout_of({}, 0), false, false);
  try {
    load_checkpoint(dir_ / "tp2dp2sharded", 7, state.tensors(), *create_cpu_backend(1));
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a piece of tensor optimizer/exp_avg/big is "));
  }
}

// As many elements as are needed, but one piece of them twice and another not at all.
TEST_F(Resharding, APieceInPlaceOfAnotherIsFound) {
  save({2, 2, true});
  const fs::path path = manifest_path(checkpoint_folder(dir_ / "tp2dp2sharded", 7));
  Manifest manifest = read_manifest(path);
  std::vector<StoredPiece*> same_size;
  for (StoredPiece& stored : manifest.pieces) {
    if (stored.piece.name == "optimizer/exp_avg/big") same_size.push_back(&stored);
  }
  ASSERT_GE(same_size.size(), 2U);
  ASSERT_EQ(same_size[0]->piece.count, same_size[1]->piece.count);
  *same_size[1] = *same_size[0];
  write_file_atomically(path, to_json(manifest));
  RankState state(layout_of({}, 0), false, false);
  EXPECT_THROW(load_checkpoint(dir_ / "tp2dp2sharded", 7, state.tensors(), *create_cpu_backend(1)),
               std::runtime_error);
}

// The embedding is the largest tensor three times over; it must not be one rank's each time.
TEST_F(Resharding, ReplicasAreDealtOutBySize) {
  std::vector<StateTensor> tensors;
  for (int64_t i = 0; i < 8; ++i) {  // of a run of 4 ranks, each fourth tensor is large
    const int64_t count = i % 4 == 0 ? 1000 : 10;
    tensors.push_back({.name = "model/" + std::to_string(i),
                       .global_shape = {count},
                       .tensor = Tensor(nullptr, DType::kFloat32, {count})});
  }
  for (int rank = 0; rank < 4; ++rank) {
    int64_t num_large = 0;
    for (const StateTensor& tensor :
         written_by(layout_of({.dp_size = 4}, rank), /*shards_optimizer=*/false, tensors)) {
      if (tensor.tensor.num_elements() == 1000) ++num_large;
    }
    EXPECT_LE(num_large, 1) << rank;
  }
}

TEST_F(Resharding, CheckpointsOfTwoTopologiesCompareEqualAndDifferencesAreNamed) {
  save({1, 1, false});
  save({2, 2, true});
  CheckpointReader first(dir_ / "tp1dp1", 7), second(dir_ / "tp2dp2sharded", 7);
  EXPECT_EQ(compare_checkpoints(first, second).num_equal, 10);
  EXPECT_THAT(compare_checkpoints(first, second).lines, testing::IsEmpty());

  RankState state(layout_of({}, 0), false, true);
  std::vector<StateTensor> tensors = state.tensors();
  tensors[0].tensor.as<float>()[3] += 2.0F;
  tensors.pop_back();
  CheckpointInfo info;
  info.scalars.iteration = 8;
  info.lr_decay_style = "cosine";
  save_checkpoint(dir_ / "tp1dp1", info, tensors, *create_cpu_backend(1));
  CheckpointReader changed(dir_ / "tp1dp1", 8);
  EXPECT_THAT(compare_checkpoints(first, changed).lines,
              testing::ElementsAre(
                  testing::HasSubstr("model/w: 1 elements differ, by 2.000e+00 at most"),
                  "optimizer/exp_avg/embedding.word_embeddings.weight: only in the first one"));
}

TEST_F(Resharding, OldCheckpointsGoButTheNewestAndTheMultiples) {
  RankState state(layout_of({}, 0), false, true);
  for (int64_t iteration = 1; iteration <= 9; ++iteration) {
    CheckpointInfo info;
    info.scalars.iteration = iteration;
    info.lr_decay_style = "cosine";
    save_checkpoint(dir_, info, state.tensors(), *create_cpu_backend(1));
  }
  fs::create_directories(dir_ / "iter_0000002.mine");
  fs::remove(manifest_path(checkpoint_folder(dir_, 1)));  // another program's folder
  std::set<int64_t> complete;
  remove_old_checkpoints(dir_, 8, 2, 3, complete);
  EXPECT_THAT(complete, testing::ElementsAre(7, 8));
  EXPECT_THAT(stored_iterations(dir_), testing::ElementsAre(9, 8, 7, 6, 3, 1));
  const int64_t calls_before = num_io_calls();
  remove_old_checkpoints(dir_, 8, 2, 3, complete);
  EXPECT_EQ(num_io_calls(), calls_before) << "files of complete checkpoints were opened again";
  fs::resize_file(dir_ / "iter_0000008/state_00000.safetensors", 100);
  complete.clear();  // as the next process
  remove_old_checkpoints(dir_, 9, 2, std::nullopt, complete);
  EXPECT_THAT(stored_iterations(dir_), testing::ElementsAre(9, 7, 1))
      << "a torn one does not count";
  remove_old_checkpoints(dir_, 9, 1, std::nullopt, complete);
  EXPECT_THAT(complete, testing::ElementsAre(9));
  EXPECT_THAT(stored_iterations(dir_), testing::ElementsAre(9, 1));
  EXPECT_TRUE(fs::exists(dir_ / "iter_0000002.mine"));
}

// Replaces a piece of a manifest, and its checksum so that it fits.
void rewrite_manifest(const fs::path& path,
                      const std::function<void(nlohmann::ordered_json&)>& edit) {
  auto json = nlohmann::ordered_json::parse(read_file(path));
  json.erase("checksum");
  edit(json);
  add_checksum(json);
  write_file_atomically(path, json.dump());
}

TEST_F(Resharding, CheckpointsOfOtherVersionsAreNeitherCountedNorRemoved) {
  RankState state(layout_of({}, 0), false, true);
  for (int64_t iteration = 1; iteration <= 7; ++iteration) {
    CheckpointInfo info;
    info.scalars.iteration = iteration;
    info.lr_decay_style = "cosine";
    save_checkpoint(dir_, info, state.tensors(), *create_cpu_backend(1));
  }
  const auto manifest = [&](int64_t iteration) {
    return manifest_path(checkpoint_folder(dir_, iteration));
  };
  for (const int64_t iteration : {1, 6}) {
    rewrite_manifest(manifest(iteration), [](auto& json) { json["format"] = "weft-checkpoint-1"; });
  }
  rewrite_manifest(manifest(2), [](auto& json) { json["info"].erase("data"); });
  std::string changed = read_file(manifest(3));
  changed.replace(changed.find("cosine"), 6, "linear");
  write_file_atomically(manifest(3), changed);
  std::set<int64_t> complete;
  remove_old_checkpoints(dir_, 7, 2, std::nullopt, complete);
  EXPECT_THAT(complete, testing::ElementsAre(5, 7));
  EXPECT_THAT(stored_iterations(dir_), testing::ElementsAre(7, 6, 5, 2, 1));
}

}  // namespace
}  // namespace weft
