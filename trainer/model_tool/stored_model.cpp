#include "trainer/model_tool/stored_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/terminal/messages.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/model_tool/hf_model_folder.h"
#include "trainer/resume/architecture.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

// Returns the shape of a checkpoint's model, with what its run did at the ends of documents.
ModelShape shape_of_run(const CheckpointInfo& info) {
  ModelShape shape = shape_from(info.architecture);
  const auto arguments =
      nlohmann::json::parse(info.arguments_json, nullptr, /*allow_exceptions=*/false);
  const auto is_given = [&](const char* name) {
    return arguments.contains(name) && arguments.at(name) == true;
  };
  const bool both = is_given("dataloader_inter_document_masking");
  shape.restarts_positions = both || is_given("reset_position_ids");
  shape.masks_other_documents = both || is_given("reset_attention_mask");
  return shape;
}

class StoredCheckpoint final : public StoredModel {
 public:
  StoredCheckpoint(const fs::path& folder, int64_t iteration)
      : reader_(folder, iteration), shape_(shape_of_run(reader_.info())) {}
  const ModelShape& shape() const override { return shape_; }
  const RunVocabulary& vocabulary() const override { return reader_.info().data.vocabulary; }
  void read(const Parameter& parameter, DType type, char* to) override {
    reader_.read({.name = "model/" + parameter.name,
                  .global_shape = parameter.global_shape,
                  .count = parameter.num_own},
                 type, to);
  }

 private:
  CheckpointReader reader_;
  ModelShape shape_;
};

class StoredHfModel final : public StoredModel {
 public:
  // The padding suits every backend.
  explicit StoredHfModel(const fs::path& folder) : folder_(folder, 128) {
    if (!folder_.note().empty()) print_message("note: " + folder_.note());
  }
  const ModelShape& shape() const override { return folder_.shape(); }
  const RunVocabulary& vocabulary() const override { return folder_.vocabulary(); }
  void read(const Parameter& parameter, DType type, char* to) override {
    folder_.read(parameter, type, to);
  }

 private:
  HfModelFolder folder_;
};

}  // namespace

std::unique_ptr<StoredModel> open_stored_model(const CheckpointOption& option) {
  const fs::path folder = option.folder;
  if (!fs::exists(folder)) throw std::runtime_error(folder.string() + " does not exist");
  if (!option.step && fs::exists(folder / "config.json") && !latest_iteration(folder))
    return std::make_unique<StoredHfModel>(folder);
  return std::make_unique<StoredCheckpoint>(folder, option.iteration());
}

}  // namespace weft
