// A save in the background writes what a save in the step writes, whatever the steps after it do.
#include "trainer/checkpoint/background_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "kernels/forwarding_backend.h"
#include "tests/trainer/model_fixture.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/manifest.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// A device whose copy stream is slow: copies there happen when something waits for them, and read
// what the memory holds then.
class LateCopies final : public ForwardingBackend {
 public:
  LateCopies() : ForwardingBackend(create_cpu_backend(1)) {}
  using ForwardingBackend::synchronize;
  void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) override {
    if (stream != Stream::kCopy) return ForwardingBackend::copy(dst, src, num_bytes, stream);
    late_.push_back([=, this] { ForwardingBackend::copy(dst, src, num_bytes, Stream::kCopy); });
  }
  void record(EventId event, Stream stream) override {
    if (stream == Stream::kCopy) last_ = event;
    ForwardingBackend::record(event, stream);
  }
  bool has_happened(EventId event) override { return event != last_ || late_.empty(); }
  void wait(Stream stream, EventId event) override {
    if (stream != Stream::kCopy && event == last_) make_copies();
    ForwardingBackend::wait(stream, event);
  }
  void synchronize(EventId event) override {
    if (event == last_) make_copies();
    ForwardingBackend::synchronize(event);
  }

 private:
  void make_copies() {
    for (const auto& copy : late_) copy();
    late_.clear();
  }
  std::deque<std::function<void()>> late_;
  EventId last_ = -1;
};

class Background : public testing::Test {
 protected:
  void TearDown() override {
    set_io_fault(0, 0);
    fs::remove_all(dir_);
  }
  static CheckpointInfo info_at(int64_t iteration) {
    CheckpointInfo info;
    info.scalars = {iteration, 8 * iteration, iteration};
    info.lr_decay_style = "cosine";
    return info;
  }
  static std::string file(const fs::path& dir, const char* name) {
    return read_file(checkpoint_folder(dir, 1) / name);
  }
  fs::path dir_ = fs::temp_directory_path() / ("weft-background-" + std::to_string(::getpid()));
};

// Memory of a snapshot, without a plan.
struct Snapshot {
  explicit Snapshot(const std::vector<StateTensor>& tensors)
      : bytes(static_cast<size_t>(snapshot_bytes(tensors))) {}
  Tensor tensor() {
    return Tensor(bytes.data(), DType::kUInt8, {static_cast<int64_t>(bytes.size())});
  }
  std::vector<char> bytes;
};

TEST_F(Background, FilesAreThoseOfASaveInTheStepThoughTrainingGoesOn) {
  struct Run {
    DType dtype;
    int64_t logits_chunk = 0;
    bool offloads_state = false, has_bf16_moments = false;
  };
  // Logits in chunks give the head's weights a gradient in forward already. State that is offloaded
  // lies in memory of the host, as its snapshot does.
  for (const Run& run : {Run{DType::kFloat32},
                         {DType::kFloat32, 16},
                         {DType::kBFloat16},
                         {DType::kBFloat16, 16},
                         {.dtype = DType::kBFloat16, .offloads_state = true},
                         {DType::kBFloat16, 16, true, true},
                         {.dtype = DType::kFloat16, .offloads_state = true}}) {
    SCOPED_TRACE(testing::Message() << name_of(run.dtype) << ", logits in chunks of "
                                    << run.logits_chunk << ", offloads " << run.offloads_state
                                    << ", bf16 moments " << run.has_bf16_moments);
    fs::remove_all(dir_);
    LateCopies backend;
    TrainerOptions options = small_options();
    options.shape.dtype = run.dtype;
    options.logits_chunk = run.logits_chunk;
    options.optimizer.offloads_state = run.offloads_state;
    options.optimizer.has_bf16_moments = run.has_bf16_moments;
    if (run.dtype == DType::kFloat16) options.loss_scale = LossScaleOptions{.initial = 1024};
    Trainer trainer(backend, options);
    trainer.allocate();
    trainer.initialize_parameters();
    const HostBatch batch(options.shape, 2);
    const auto step = [&] {
      trainer.step(batch.view(), {.learning_rate = 1e-2});
      trainer.result();
    };
    step();
    std::vector<StateTensor> tensors = trainer.state_tensors(/*optimizer=*/true);
    save_checkpoint(dir_ / "in_step", info_at(1), tensors, backend);

    Snapshot snapshot(tensors);
    const auto alone = create_lone_host_group();
    BackgroundSave save(backend, *alone, {dir_ / "background", {}}, snapshot.tensor());
    trainer.hold_gradients_for(save.begin(info_at(1), tensors));
    EXPECT_TRUE(save.is_busy()) << "the copies have not happened";
    EXPECT_FALSE(fs::exists(checkpoint_folder(dir_ / "background", 1)));
    step();
    step();
    save.finish();
    EXPECT_FALSE(save.is_running());
    for (const char* name : {"state_00000.safetensors", "manifest.json"})
      EXPECT_EQ(file(dir_ / "background", name), file(dir_ / "in_step", name)) << name;
    EXPECT_EQ(latest_iteration(dir_ / "background"), 1);

    tensors = trainer.state_tensors(/*optimizer=*/true);
    trainer.hold_gradients_for(save.begin(info_at(3), tensors));
    save.finish();
    save_checkpoint(dir_ / "in_step", info_at(3), tensors, backend);
    EXPECT_EQ(read_file(checkpoint_folder(dir_ / "background", 3) / "manifest.json"),
              read_file(checkpoint_folder(dir_ / "in_step", 3) / "manifest.json"))
        << "the next save has the next state";
  }
}

TEST_F(Background, RanksGoFromStageToStageTogether) {
  fs::create_directories(dir_);
  run_ranks(3, [&](HostGroup& ranks) {
    const auto backend = create_cpu_backend(1);
    std::vector<float> values(1000, static_cast<float>(ranks.rank()));
    const std::vector<StateTensor> tensors = {
        {.name = "model/" + std::to_string(ranks.rank()),
         .global_shape = {1000},
         .tensor = Tensor(values.data(), DType::kFloat32, {1000})}};
    Snapshot snapshot(tensors);
    BackgroundSave save(*backend, ranks,
                        {dir_, Retention{.keep_last = 1, .keep_every = {}, .retain_interval = {}}},
                        snapshot.tensor());
    for (int64_t iteration = 1; iteration <= 3; ++iteration) {
      save.begin(info_at(iteration), tensors);
      std::fill(values.begin(), values.end(), -1.0F);
      while (save.is_running()) {  // the loop's control message
        int64_t busy[] = {save.is_busy() ? 1 : 0};
        ranks.max(busy);
        if (busy[0] == 0) save.advance();
      }
      std::fill(values.begin(), values.end(), static_cast<float>(ranks.rank()));
    }
  });
  EXPECT_THAT(stored_iterations(dir_), testing::ElementsAre(3));
  EXPECT_EQ(latest_iteration(dir_), 3);
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<float> loaded(1000);
    load_checkpoint(dir_, 3,
                    {{.name = "model/" + std::to_string(rank),
                      .global_shape = {1000},
                      .tensor = Tensor(loaded.data(), DType::kFloat32, {1000})}},
                    *create_cpu_backend(1));
    EXPECT_THAT(loaded, testing::Each(static_cast<float>(rank)));
  }
}

class OneTensor : public Background {
 protected:
  const std::unique_ptr<Backend> backend_ = create_cpu_backend(1);
  const std::unique_ptr<HostGroup> alone_ = create_lone_host_group();
  std::vector<float> values_ = std::vector<float>(1000, 1.0F);
  const std::vector<StateTensor> tensors_ = {
      {.name = "model/w",
       .global_shape = {1000},
       .tensor = Tensor(values_.data(), DType::kFloat32, {1000})}};
};

// Each I/O call fails in turn, in the writer's thread or in that of the commit.
TEST_F(OneTensor, AFailureIsThrownAndLeavesAWholeCheckpoint) {
  save_checkpoint(dir_, info_at(1), tensors_, *backend_);
  Snapshot snapshot(tensors_);
  bool finished = false;
  for (int64_t n = 1; !finished && n < 200; ++n) {
    BackgroundSave save(*backend_, *alone_, {dir_, {}}, snapshot.tensor());
    save.begin(info_at(2), tensors_);
    set_io_fault(n, ENOSPC);
    try {
      save.finish();
      finished = true;
    } catch (const std::system_error& error) {
      EXPECT_EQ(exit_code_for(error), ExitCode::kNoSpace) << error.what();
    }
    set_io_fault(0, 0);
    EXPECT_FALSE(fs::exists(dir_ / "iter_0000002.part")) << "after failing call " << n;
    EXPECT_EQ(problem_of_checkpoint(dir_, latest_iteration(dir_).value()), "") << n;
    for (const int64_t iteration : stored_iterations(dir_))
      EXPECT_EQ(problem_of_checkpoint(dir_, iteration), "") << "after failing call " << n;
  }
  EXPECT_TRUE(finished);
  EXPECT_EQ(latest_iteration(dir_), 2);
}

// In every build: the memory behind the snapshot belongs to others.
TEST_F(OneTensor, ASnapshotThatIsTooSmallIsRefusedBeforeItIsPassed) {
  std::vector<float> memory(1001, 7.0F);
  BackgroundSave save(*backend_, *alone_, {dir_, {}},
                      Tensor(memory.data(), DType::kUInt8, {999 * 4}));
  EXPECT_THROW(save.begin(info_at(1), tensors_), std::logic_error);
  EXPECT_THAT(memory, testing::Each(7.0F));
}

TEST_F(OneTensor, ASaveThatIsAbandonedLeavesNoCheckpoint) {
  Snapshot snapshot(tensors_);
  {
    BackgroundSave save(*backend_, *alone_, {dir_, {}}, snapshot.tensor());
    save.begin(info_at(2), tensors_);
    (void)save.is_busy();  // the writer starts
  }
  EXPECT_THAT(stored_iterations(dir_), testing::IsEmpty());
  EXPECT_EQ(latest_iteration(dir_), std::nullopt);
}

}  // namespace
}  // namespace weft
