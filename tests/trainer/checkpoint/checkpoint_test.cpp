#include "trainer/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "kernels/numbers/elements.h"
#include "tests/indexed_dataset/nested_json.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/model_tool/compare_checkpoints.h"
#include "trainer/resume/choose_checkpoint.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Checkpoint : public ::testing::Test {
 protected:
  void TearDown() override {
    set_io_fault(0, 0);
    fs::remove_all(dir_);
  }

  // Three tensors as a bf16 run has them, with values that depend on `salt`.
  struct State {
    explicit State(float salt) : model(kRows * 3), master(kRows * 3), moment(kRows * 3) {
      for (size_t i = 0; i < model.size(); ++i) {
        master[i] = salt + 0.001F * static_cast<float>(i);
        model[i] = BFloat16(master[i]);
        moment[i] = salt * static_cast<float>(i);
      }
    }
    std::vector<StateTensor> tensors() {
      const std::vector<int64_t> shape = {kRows, 3};
      const auto n = static_cast<int64_t>(kRows * 3);
      return {
          {"model/w", shape, -1, 0, 0, Tensor(model.data(), DType::kBFloat16, {n})},
          {"optimizer/master/w", shape, -1, 0, 0, Tensor(master.data(), DType::kFloat32, {n})},
          {"optimizer/exp_avg/w", shape, -1, 0, 0, Tensor(moment.data(), DType::kFloat32, {n})}};
    }
    static constexpr int64_t kRows = 1000;
    std::vector<BFloat16> model;
    std::vector<float> master, moment;
  };

  static CheckpointInfo info_at(int64_t iteration) {
    CheckpointInfo info;
    info.scalars = {iteration, 8 * iteration, iteration - 1};
    info.consumed_valid_samples = 16;
    info.max_lr = 6e-4;
    info.min_lr = 6e-5;
    info.lr_warmup_samples = 100;
    info.lr_decay_samples = 1000;
    info.lr_decay_style = "cosine";
    info.architecture = {{"num_layers", "2"}, {"hidden_size", "64"}};
    info.arguments_json = R"({"lr": 0.0006})";
    return info;
  }
  void save(int64_t iteration, float salt) {
    State state(salt);
    save_checkpoint(dir_, info_at(iteration), state.tensors(), *backend_);
  }
  // The salt of the checkpoint that the tracker names; every element must belong to it.
  float loaded_salt() {
    State state(-1);
    load_checkpoint(dir_, latest_iteration(dir_).value(), state.tensors(), *backend_);
    const State expected(state.master[0]);
    EXPECT_EQ(state.master, expected.master);
    EXPECT_EQ(state.moment, expected.moment);
    return state.master[0];
  }

  fs::path dir_ = fs::temp_directory_path() / ("weft-checkpoint-" + std::to_string(::getpid()));
  std::unique_ptr<Backend> backend_ = create_cpu_backend(1);
};

TEST_F(Checkpoint, LoadsWhatWasSaved) {
  EXPECT_EQ(latest_iteration(dir_), std::nullopt);
  save(300, 1.5F);
  EXPECT_EQ(latest_iteration(dir_), 300);
  EXPECT_TRUE(fs::exists(dir_ / "iter_0000300/manifest.json"));
  EXPECT_EQ(loaded_salt(), 1.5F);
  const CheckpointInfo info = read_checkpoint_info(dir_, 300);
  EXPECT_EQ(info.scalars.iteration, 300);
  EXPECT_EQ(info.scalars.consumed_samples, 2400);
  EXPECT_EQ(info.scalars.adam_step, 299);
  EXPECT_EQ(info.max_lr, 6e-4);
  EXPECT_EQ(info.lr_decay_style, "cosine");
  EXPECT_EQ(info.architecture.at("hidden_size"), "64");
  EXPECT_TRUE(info.has_optimizer);
  EXPECT_THAT(info.arguments_json, HasSubstr("0.0006"));
}

TEST_F(Checkpoint, AnOlderIterationStaysLoadable) {
  save(100, 1.0F);
  save(200, 2.0F);
  State state(-1);
  load_checkpoint(dir_, 100, state.tensors(), *backend_);
  EXPECT_EQ(state.master[0], 1.0F);
  EXPECT_EQ(loaded_salt(), 2.0F);
}

TEST_F(Checkpoint, SavingAnIterationAgainReplacesIt) {
  save(100, 1.0F);
  save(100, 2.0F);
  EXPECT_EQ(loaded_salt(), 2.0F);
  EXPECT_FALSE(fs::exists(dir_ / "iter_0000100.part"));
}

TEST_F(Checkpoint, WhatAKilledSaveLeftBehindGoesWithTheNextOne) {
  save(100, 1.0F);
  fs::create_directories(dir_ / "iter_0000150.part/deep");
  fs::create_directories(dir_ / "iter_0000100.replaced");
  fs::create_directories(dir_ / "mine.part");
  save(200, 2.0F);
  EXPECT_FALSE(fs::exists(dir_ / "iter_0000150.part"));
  EXPECT_FALSE(fs::exists(dir_ / "iter_0000100.replaced"));
  EXPECT_TRUE(fs::exists(dir_ / "mine.part"));
  EXPECT_TRUE(fs::exists(dir_ / "iter_0000100"));
}

TEST_F(Checkpoint, WeightsLoadIntoRunsOfTheOtherPrecision) {
  save(1, 0.1F);
  State expected(0.1F);
  std::vector<float> weights(expected.master.size());
  const StateTensor fp32{"model/w", {State::kRows, 3},
                         -1,        0,
                         0,         Tensor(weights.data(), DType::kFloat32, {State::kRows * 3})};
  load_checkpoint(dir_, 1, {fp32}, *backend_);
  EXPECT_EQ(weights, expected.master) << "an fp32 run takes the masters, not the rounded weights";

  fs::remove_all(dir_);
  save_checkpoint(dir_, info_at(1), {fp32}, *backend_);
  State bf16(-1);
  std::vector<StateTensor> wanted = bf16.tensors();
  wanted.pop_back();
  load_checkpoint(dir_, 1, wanted, *backend_);
  EXPECT_EQ(bf16.master, expected.master);
  EXPECT_EQ(bf16.model[7].bits, BFloat16(expected.master[7]).bits);
  EXPECT_FALSE(read_checkpoint_info(dir_, 1).has_optimizer);
}

// A run that goes on in another precision takes the masters, and imported or published weights have
// none: each type comes from each.
TEST_F(Checkpoint, EachTypeOfWeightsComesFromEachOther) {
  constexpr int64_t kCount = 301;
  const auto weights_in = [&](std::vector<char>& bytes, DType dtype) {
    bytes.resize(static_cast<size_t>(kCount * size_bytes(dtype)));
    return std::vector<StateTensor>{
        {"model/w", {kCount}, -1, 0, 0, Tensor(bytes.data(), dtype, {kCount})}};
  };
  const auto all_types = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  for (const DType from : all_types) {
    std::vector<char> saved;
    const std::vector<StateTensor> tensors = weights_in(saved, from);
    for (int64_t i = 0; i < kCount; ++i)
      store_element(saved.data(), from, i, 0.001F * static_cast<float>(i * i - 1000));
    fs::remove_all(dir_);
    save_checkpoint(dir_, info_at(1), tensors, *backend_);
    for (const DType to : all_types) {
      std::vector<char> loaded, expected(static_cast<size_t>(kCount * size_bytes(to)));
      load_checkpoint(dir_, 1, weights_in(loaded, to), *backend_);
      for (int64_t i = 0; i < kCount; ++i)
        store_element(expected.data(), to, i, load_element(saved.data(), from, i));
      EXPECT_EQ(loaded, expected) << safetensors_dtype(from) << " to " << safetensors_dtype(to);
    }
  }
}

TEST_F(Checkpoint, NamesWhatDoesNotFit) {
  save(1, 0.1F);
  State state(0);
  const auto message = [&](StateTensor tensor, int64_t iteration = 1) {
    try {
      load_checkpoint(dir_, iteration, {tensor}, *backend_);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  StateTensor absent = state.tensors()[2];
  absent.name = "optimizer/exp_avg_sq/w";
  EXPECT_THAT(
      message(absent),
      HasSubstr("no tensor optimizer/exp_avg_sq/w; load its weights alone with --finetune"));
  StateTensor shaped = state.tensors()[0];
  shaped.global_shape = {500, 6};
  EXPECT_THAT(message(shaped), HasSubstr("shape (1000, 3), this run needs (500, 6)"));
  EXPECT_THAT(message(state.tensors()[0], 7), HasSubstr("no checkpoint of iteration 7"));
}

TEST_F(Checkpoint, EveryFlippedBitOfAStateFileIsFound) {
  save(5, 3.0F);
  const fs::path path = dir_ / "iter_0000005/state_00000.safetensors";
  const std::string good = read_file(path);
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string bad = good;
    const size_t bit = random() % (8 * bad.size());
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(path, std::ios::binary) << bad;
    State state(-1);
    try {
      load_checkpoint(dir_, 5, state.tensors(), *backend_);
      // Padding and metadata of the header are not loaded: the values must be right then.
      EXPECT_EQ(state.master, State(3.0F).master) << "bit " << bit;
      EXPECT_LT(bit / 8, 1024U) << "a flipped bit of the data was not found";
    } catch (const std::runtime_error&) {
    }
  }
}

TEST_F(Checkpoint, ADamagedManifestIsFound) {
  save(5, 3.0F);
  const fs::path path = dir_ / "iter_0000005/manifest.json";
  std::string text = read_file(path);
  const size_t at = text.find("\"adam_step\": 4");
  ASSERT_NE(at, std::string::npos);
  text[at + 13] = '6';
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_THROW(read_checkpoint_info(dir_, 5), ChecksumMismatch);
  std::ofstream(path, std::ios::binary) << text.substr(0, text.size() / 2);
  EXPECT_THROW(read_checkpoint_info(dir_, 5), std::runtime_error);
  const std::string deep = nested_json(200'000);
  for (const std::string& nested : {deep, "{\"info\":" + deep + "}"}) {
    std::ofstream(path, std::ios::binary) << nested;
    EXPECT_THROW(read_checkpoint_info(dir_, 5), std::runtime_error);
  }
}

TEST_F(Checkpoint, TheFolderAndTheManifestAreOfOneIteration) {
  save(5, 3.0F);
  fs::rename(dir_ / "iter_0000005", dir_ / "iter_0000010");
  EXPECT_THROW(read_checkpoint_info(dir_, 10), std::runtime_error);
}

// Replaces a text in the manifest and gives it a checksum that fits, as a forger would.
void forge(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  auto json = nlohmann::ordered_json::parse(text.replace(at, from.size(), to));
  json.erase("checksum");
  const std::string body = json.dump();
  json["checksum"] = fmt::format("{:016x}", XXH3_64bits(body.data(), body.size()));
  std::ofstream(path, std::ios::binary) << json.dump(1);
}

TEST_F(Checkpoint, KeepsTheLossScaleAndWhatWasSkipped) {
  CheckpointInfo info = info_at(9);
  info.scalars.skipped_steps = 4;
  info.scalars.bad_steps_in_row = 2;
  info.scalars.loss_scale = {.scale = 0x1p-20, .growth_tracker = 7, .hysteresis_tracker = -3};
  info.lr_samples = 40;
  State state(1);
  save_checkpoint(dir_, info, state.tensors(), *backend_);
  const CheckpointInfo read = read_checkpoint_info(dir_, 9);
  EXPECT_EQ(read.scalars.skipped_steps, 4);
  EXPECT_EQ(read.scalars.bad_steps_in_row, 2);
  EXPECT_EQ(read.scalars.loss_scale, info.scalars.loss_scale);
  EXPECT_EQ(read.lr_samples, 40);
  const fs::path path = dir_ / "iter_0000009/manifest.json";
  const std::string sound = read_file(path);
  for (const auto& [from, to] : {std::pair{"\"scale\": 9.5367431640625e-07", "\"scale\": 0.0"},
                                 {"\"growth_tracker\": 7", "\"growth_tracker\": -1"},
                                 {"\"skipped_iterations\": 4", "\"skipped_iterations\": 10"}}) {
    forge(path, from, to);
    EXPECT_THROW(read_checkpoint_info(dir_, 9), std::runtime_error) << to;
    std::ofstream(path, std::ios::binary) << sound;
  }
}

TEST_F(Checkpoint, AForgedManifestIsNotBelieved) {
  const fs::path path = dir_ / "iter_0000005/manifest.json";
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("file": "state_00000.safetensors")", R"("file": "/etc/passwd")"},
           {R"("file": "state_00000.safetensors")", R"("file": "../state_00000.safetensors")"},
           {R"("file": "state_00000.safetensors")", R"("file": "..")"},
           {R"("iteration": 5)", R"("iteration": 9223372036854775807)"},
           {R"("consumed_train_samples": 40)", R"("consumed_train_samples": -1)"},
           {R"("consumed_train_tokens": 0)", R"("consumed_train_tokens": -1)"},
           {R"("warmup_end_tokens": 0)", R"("warmup_end_tokens": 9223372036854775807)"},
           {R"("adam_step": 4)", R"("adam_step": 6)"},
           {R"("max_lr": 0.0006)", R"("max_lr": -1)"},
           {R"("decay_samples": 1000)", R"("decay_samples": -1)"},
           {R"("split_dim": -1)", R"("split_dim": 7)"},
           {R"("split_dim": -1)", R"("split_dim": 4294967295)"},
           {R"("count": 3000)", R"("count": 3000.5)"},
           {R"("count": 3000)", R"("count": 1e300)"},
           {R"("first": 0)", R"("first": 18446744073709551615)"},
           {R"("adam_step": 4)", R"("adam_step": 4.5)"}}) {
    save(5, 3.0F);
    forge(path, from, to);
    EXPECT_THROW(read_checkpoint_info(dir_, 5), std::runtime_error) << to;
    EXPECT_THROW(choose_checkpoint(dir_), std::runtime_error) << to;
  }
}

TEST_F(Checkpoint, AReplacedCheckpointComesBackIfItsSuccessorNeverCame) {
  save(100, 1.0F);
  fs::rename(dir_ / "iter_0000100", dir_ / "iter_0000100.replaced");
  remove_leftovers(dir_);
  EXPECT_EQ(loaded_salt(), 1.0F);
}

// NFS and Lustre have no exchange of two names: there is an instant without the name.
TEST_F(Checkpoint, WithoutAnExchangeOfNamesAFailedReplacementLeavesTheNameToAWholeCheckpoint) {
  setenv("WEFT_NO_EXCHANGE", "1", 1);
  save(1, 1.0F);
  bool finished = false;
  for (int64_t n = 1; !finished && n < 200; ++n) {
    set_io_fault(n, EIO);
    try {
      save(1, 2.0F);
      finished = true;
    } catch (const std::system_error&) {
    }
    set_io_fault(0, 0);
    const float salt = loaded_salt();
    EXPECT_TRUE(salt == 1.0F || salt == 2.0F) << "after failing call " << n;
  }
  unsetenv("WEFT_NO_EXCHANGE");
  EXPECT_TRUE(finished);
  EXPECT_EQ(loaded_salt(), 2.0F);
  EXPECT_FALSE(fs::exists(dir_ / "iter_0000001.replaced"));
}

TEST_F(Checkpoint, AnotherFormatIsRefusedWithTheWay) {
  save(5, 3.0F);
  forge(dir_ / "iter_0000005/manifest.json", "weft-checkpoint-2", "weft-checkpoint-1");
  EXPECT_THAT(
      [&] { read_checkpoint_info(dir_, 5); },
      ::testing::ThrowsMessage<std::runtime_error>(::testing::AllOf(
          HasSubstr("its format is \"weft-checkpoint-1\""), HasSubstr("weft-model export"))));
}

TEST_F(Checkpoint, AKeyThatAnotherVersionDidNotWriteIsRefusedWithTheWay) {
  save(5, 3.0F);
  forge(dir_ / "iter_0000005/manifest.json", "unsee_sha256", "unseen_sha256");
  EXPECT_THAT([&] { read_checkpoint_info(dir_, 5); },
              ::testing::ThrowsMessage<std::runtime_error>(::testing::AllOf(
                  HasSubstr("key 'unsee_sha256' not found"), HasSubstr("weft-model export"))));
}

TEST_F(Checkpoint, TheWeightsThatAreStoredAreCompared) {
  State first(0.5F), second(0.5F);
  second.model[7] = BFloat16(9.0F);  // its master stays as it is
  first.moment[0] = second.moment[0] = INFINITY;
  first.moment[1] = second.moment[1] = NAN;
  second.moment[2] = -INFINITY;
  save_checkpoint(dir_ / "first", info_at(5), first.tensors(), *backend_);
  save_checkpoint(dir_ / "second", info_at(5), second.tensors(), *backend_);
  CheckpointReader a(dir_ / "first", 5), b(dir_ / "second", 5);
  EXPECT_THAT(compare_checkpoints(a, b).lines,
              ::testing::ElementsAre(HasSubstr("model/w: 1 elements differ"),
                                     HasSubstr("optimizer/exp_avg/w: 1 elements differ, by inf")));
}

TEST_F(Checkpoint, AForeignFolderIsNotReplaced) {
  fs::create_directories(dir_ / "iter_0000100/mine");
  EXPECT_THROW(save(100, 1.0F), std::runtime_error);
  EXPECT_TRUE(fs::exists(dir_ / "iter_0000100/mine"));
}

TEST_F(Checkpoint, ATrackerOfAnotherKindIsNotRead) {
  save(5, 3.0F);
  std::ofstream(dir_ / "latest_checkpointed_iteration.txt") << std::string(1 << 20, '0');
  EXPECT_THROW(latest_iteration(dir_), std::runtime_error);
}

TEST_F(Checkpoint, ATrackerWithoutANumberIsAnError) {
  save(5, 3.0F);
  std::ofstream(dir_ / "latest_checkpointed_iteration.txt") << "release\n";
  EXPECT_THROW(latest_iteration(dir_), std::runtime_error);
  for (const char* text : {"", " \n", "3 00\n", "-3\n", "99999999999999999999\n"}) {
    std::ofstream(dir_ / "latest_checkpointed_iteration.txt") << text;
    EXPECT_THROW(latest_iteration(dir_), std::runtime_error) << text;
  }
  std::ofstream(dir_ / "latest_checkpointed_iteration.txt") << " 5\r\n\n";
  EXPECT_EQ(latest_iteration(dir_), 5) << "an editor's spaces and lines";
}

TEST_F(Checkpoint, FoldersOfOtherNamesAreNoCheckpoints) {
  save(5, 3.0F);
  for (const char* name : {"iter_7", "iter_00000008", "iter_0000009.old"}) {
    fs::create_directories(dir_ / name);
  }
  EXPECT_THAT(stored_iterations(dir_), ::testing::ElementsAre(5));
}

// Each I/O call of a save fails in turn: the previous checkpoint or the new one is there, whole.
TEST_F(Checkpoint, AFailedSaveLeavesAWholeCheckpoint) {
  save(1, 1.0F);
  bool finished = false;
  for (int64_t n = 1; !finished && n < 200; ++n) {
    set_io_fault(n, ENOSPC);
    try {
      save(2, 2.0F);
      finished = true;
    } catch (const std::system_error& error) {
      EXPECT_EQ(exit_code_for(error), ExitCode::kNoSpace) << error.what();
    }
    set_io_fault(0, 0);
    const float salt = loaded_salt();
    EXPECT_TRUE(salt == 1.0F || salt == 2.0F) << "after failing call " << n;
  }
  EXPECT_TRUE(finished);
  EXPECT_EQ(loaded_salt(), 2.0F);
}

TEST_F(Checkpoint, AFailedSaveDoesNotKeepAFullDiskFull) {
  save(1, 1.0F);
  set_io_fault(3, ENOSPC);
  EXPECT_THROW(save(2, 2.0F), std::system_error);
  set_io_fault(0, 0);
  EXPECT_FALSE(fs::exists(dir_ / "iter_0000002.part"));
}

TEST_F(Checkpoint, AKilledSaveLeavesAWholeCheckpoint) {
  save(1, 1.0F);
  std::mt19937 random(11);
  for (int round = 0; round < 25; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (float salt = 2;; ++salt) save(2 + static_cast<int64_t>(salt) % 2, salt);
    }
    usleep(1000 * (random() % 20));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    loaded_salt();
  }
}

}  // namespace
}  // namespace weft
