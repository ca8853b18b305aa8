#include "trainer/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/storage/file_io.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft {

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "weft-checkpoint-1";

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

uint64_t from_hex(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size())
    throw std::runtime_error("bad checksum " + text);
  return value;
}

std::string checksum_of(const Json& json) {
  const std::string text = json.dump();
  return hex(XXH3_64bits(text.data(), text.size()));
}

Json info_to_json(const CheckpointInfo& info) {
  return {{"iteration", info.scalars.iteration},
          {"consumed_train_samples", info.scalars.consumed_samples},
          {"adam_step", info.scalars.adam_step},
          {"consumed_valid_samples", info.consumed_valid_samples},
          {"skipped_iterations", info.skipped_iterations},
          {"lr_scheduler",
           {{"max_lr", info.max_lr},
            {"min_lr", info.min_lr},
            {"warmup_samples", info.lr_warmup_samples},
            {"decay_samples", info.lr_decay_samples},
            {"decay_style", info.lr_decay_style}}},
          {"architecture", info.architecture},
          {"arguments", Json::parse(info.arguments_json)}};
}

CheckpointInfo info_from_json(const Json& json) {
  CheckpointInfo info;
  json.at("iteration").get_to(info.scalars.iteration);
  json.at("consumed_train_samples").get_to(info.scalars.consumed_samples);
  json.at("adam_step").get_to(info.scalars.adam_step);
  json.at("consumed_valid_samples").get_to(info.consumed_valid_samples);
  json.at("skipped_iterations").get_to(info.skipped_iterations);
  const Json& schedule = json.at("lr_scheduler");
  schedule.at("max_lr").get_to(info.max_lr);
  schedule.at("min_lr").get_to(info.min_lr);
  schedule.at("warmup_samples").get_to(info.lr_warmup_samples);
  schedule.at("decay_samples").get_to(info.lr_decay_samples);
  schedule.at("decay_style").get_to(info.lr_decay_style);
  json.at("architecture").get_to(info.architecture);
  info.arguments_json = json.at("arguments").dump();
  return info;
}

ManifestTensor tensor_from_json(const Json& json) {
  ManifestTensor tensor;
  json.at("name").get_to(tensor.name);
  json.at("file").get_to(tensor.file);
  json.at("dtype").get_to(tensor.dtype);
  json.at("global_shape").get_to(tensor.global_shape);
  json.at("split_dim").get_to(tensor.split_dim);
  json.at("begin").get_to(tensor.begin);
  json.at("end").get_to(tensor.end);
  tensor.xxh3 = from_hex(json.at("xxh3").get<std::string>());
  return tensor;
}

}  // namespace

const ManifestTensor* Manifest::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const auto& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string to_json(const Manifest& manifest) {
  Json json = {
      {"format", kFormat}, {"info", info_to_json(manifest.info)}, {"tensors", Json::array()}};
  for (const ManifestTensor& tensor : manifest.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"file", tensor.file},
                               {"dtype", tensor.dtype},
                               {"global_shape", tensor.global_shape},
                               {"split_dim", tensor.split_dim},
                               {"begin", tensor.begin},
                               {"end", tensor.end},
                               {"xxh3", hex(tensor.xxh3)}});
  }
  json["checksum"] = checksum_of(json);
  return json.dump(1) + "\n";
}

Manifest read_manifest(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  Manifest manifest;
  try {
    Json json = parse_json<Json>(text);
    if (json.at("format") != kFormat)
      throw std::runtime_error("its format is " + json.at("format").dump() + ", not " + kFormat);
    const std::string stored = json.at("checksum").get<std::string>();
    json.erase("checksum");
    if (checksum_of(json) != stored) {
      throw ChecksumMismatch(
          path.string() + ": the manifest was changed since it was written (checksum " + stored +
          " expected, " + checksum_of(json) + " found); load another iteration with --ckpt-step");
    }
    manifest.info = info_from_json(json.at("info"));
    for (const Json& tensor : json.at("tensors"))
      manifest.tensors.push_back(tensor_from_json(tensor));
  } catch (const ChecksumMismatch&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": not a checkpoint manifest: " + error.what());
  }
  manifest.info.has_optimizer = std::any_of(
      manifest.tensors.begin(), manifest.tensors.end(),
      [](const ManifestTensor& tensor) { return tensor.name.starts_with("optimizer/exp_avg/"); });
  return manifest;
}

}  // namespace weft
