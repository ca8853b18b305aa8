// A model's Hugging Face folder as transformers writes it (tests/golden/trainer/make_hf_models.py),
// and what becomes of it here.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/trainer/model_fixture.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/model_tool/hf_folder.h"
#include "trainer/resume/architecture.h"

namespace weft {

class HfFolder : public ::testing::Test {
 protected:
  // `name` is that of the folder among the golden ones.
  explicit HfFolder(const std::string& name) {
    const char* source_dir = std::getenv("WEFT_SOURCE_DIR");
    golden_ = std::filesystem::path(source_dir ? source_dir : ".") / "tests/golden/trainer" / name;
    dir_ = std::filesystem::temp_directory_path() / ("weft-" + name + std::to_string(getpid()));
  }
  void SetUp() override { import_hf({golden_, dir_ / "ckpt", 128}); }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  ModelShape imported_shape() const {
    return shape_from(read_checkpoint_info(dir_ / "ckpt", 0).architecture);
  }

  // Two samples of 12 tokens, over 60 words that are padded to 128.
  void expect_logits_of_transformers() {
    TrainerOptions options;
    options.shape = imported_shape();
    options.shape.seq_length = 12;
    options.shape.micro_batch_size = 2;
    TrainerOnDevice model(options, create_cpu_backend(1));
    load_checkpoint(dir_ / "ckpt", 0, model->state_tensors(false), *model.backend);
    model->parameters_loaded();
    HostBatch batch(options.shape, 2);
    for (int32_t i = 0; i < 24; ++i)
      batch.tokens()[static_cast<size_t>(i)] = (7 * i * i + 3 * i) % 60;
    model->evaluate(batch.view());
    model->result();
    const std::vector<float> logits = to_host(*model.backend, model->model().logits());
    const std::string golden = read_file(golden_ / "logits.f32");
    ASSERT_EQ(golden.size(), 24 * 60 * sizeof(float));
    for (size_t row = 0; row < 24; ++row) {
      for (size_t word = 0; word < 60; ++word) {
        float expected = 0;
        std::memcpy(&expected, golden.data() + (row * 60 + word) * sizeof expected,
                    sizeof expected);
        ASSERT_NEAR(logits[row * 128 + word], expected, 1e-4) << "row " << row << " word " << word;
      }
    }
  }

  // Exports what was imported; all tensors and these fields of config.json are as they were.
  // Returns config.json.
  nlohmann::json expect_round_trip(std::initializer_list<const char*> fields) {
    export_hf({.load = dir_ / "ckpt", .output = dir_ / "out"});
    const SafetensorsFile before(golden_ / "model.safetensors");
    const SafetensorsFile after(dir_ / "out/model.safetensors");
    EXPECT_EQ(before.entries().size(), after.entries().size());
    for (const SafetensorsEntry& entry : before.entries()) {
      const SafetensorsEntry* same = after.find(entry.name);
      if (same == nullptr) {
        ADD_FAILURE() << entry.name << " is missing";
        continue;
      }
      EXPECT_EQ(same->shape, entry.shape) << entry.name;
      const auto a = before.bytes(entry), b = after.bytes(*same);
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << entry.name;
    }
    const auto config = nlohmann::json::parse(read_file(dir_ / "out/config.json"));
    const auto theirs = nlohmann::json::parse(read_file(golden_ / "config.json"));
    for (const char* name : fields) EXPECT_EQ(config.at(name), theirs.at(name)) << name;
    return config;
  }

  // Trains nothing: the architecture of the imported checkpoint, changed, is exported.
  std::string export_error(const std::function<void(ModelShape&)>& change) {
    ModelShape shape = imported_shape();
    change(shape);
    CheckpointInfo info;
    info.architecture = architecture_of(shape);
    info.lr_decay_style = "none";
    std::filesystem::remove_all(dir_ / "other");
    save_checkpoint(dir_ / "other", info, {}, *create_cpu_backend(1));
    try {
      export_hf({.load = dir_ / "other", .output = dir_ / "out"});
    } catch (const std::runtime_error& error) {
      EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
      return error.what();
    }
    return "";
  }
  std::string import_error(const nlohmann::json& overrides) {
    std::filesystem::remove_all(dir_ / "hf");
    std::filesystem::create_directories(dir_ / "hf");
    auto config = nlohmann::json::parse(read_file(golden_ / "config.json"));
    config.update(overrides);
    std::ofstream(dir_ / "hf/config.json") << config;
    std::filesystem::copy(golden_ / "model.safetensors", dir_ / "hf");
    try {
      import_hf({dir_ / "hf", dir_ / "ckpt2", 128});
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path golden_, dir_;
};

}  // namespace weft
