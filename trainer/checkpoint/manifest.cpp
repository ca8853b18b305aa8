#include "trainer/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/run_record/manifest_checksum.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/safetensors.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "weft-checkpoint-2";
constexpr const char* kWayFromAnotherVersion =
    "; export its weights with the version that saved it (weft-model export), and import them with "
    "this one";

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

// JSON cannot hold a path that is not UTF-8; such bytes are replaced.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <typename Number>
Json number_or_null(const std::optional<Number>& number) {
  return number ? Json(*number) : Json();
}

// With Megatron's names for the state of a gradient scaler.
Json to_json(const std::optional<LossScaleState>& state) {
  if (!state) return {};
  return {{"scale", state->scale},
          {"growth_tracker", state->growth_tracker},
          {"hysteresis_tracker", state->hysteresis_tracker}};
}

std::optional<LossScaleState> loss_scale_from_json(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return LossScaleState{.scale = json.at("scale").get<double>(),
                        .growth_tracker = json_integer_at(json, "growth_tracker"),
                        .hysteresis_tracker = json_integer_at(json, "hysteresis_tracker")};
}

Json to_json(const std::optional<Fp8ScalingState>& state) {
  if (!state) return {};
  return {{"steps", state->steps},
          {"amax_history_len", state->amax_history_len},
          {"is_hybrid", state->is_hybrid}};
}

std::optional<Fp8ScalingState> fp8_scaling_from_json(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return Fp8ScalingState{.steps = json_integer_at(json, "steps"),
                         .amax_history_len = json_integer_at(json, "amax_history_len"),
                         .is_hybrid = json.at("is_hybrid").get<bool>()};
}

Json info_to_json(const CheckpointInfo& info) {
  Json json = {{"iteration", info.scalars.iteration},
               {"consumed_train_samples", info.scalars.consumed_samples},
               {"consumed_train_tokens", info.scalars.consumed_tokens},
               {"adam_step", info.scalars.adam_step},
               {"skipped_iterations", info.scalars.skipped_steps},
               {"bad_steps_in_row", info.scalars.bad_steps_in_row},
               {"grad_scaler", to_json(info.scalars.loss_scale)},
               {"fp8_scaling", to_json(info.scalars.fp8_scaling)},
               {"consumed_valid_samples", info.consumed_valid_samples},
               {"lr_scheduler",
                {{"max_lr", info.max_lr},
                 {"min_lr", info.min_lr},
                 {"init_lr", info.init_lr},
                 {"decoupled_max_lr", number_or_null(info.decoupled_max_lr)},
                 {"decoupled_min_lr", number_or_null(info.decoupled_min_lr)},
                 {"warmup_samples", info.lr_warmup_samples},
                 {"decay_samples", info.lr_decay_samples},
                 {"decay_style", info.lr_decay_style},
                 {"wsd_decay_samples", info.lr_wsd_decay_samples},
                 {"wsd_decay_style", info.lr_wsd_decay_style},
                 {"decay_tokens", number_or_null(info.lr_decay_tokens)},
                 {"warmup_tokens", number_or_null(info.lr_warmup_tokens)},
                 {"tokens_as_deepspeed", info.lr_tokens_as_deepspeed},
                 {"num_samples", info.lr_samples},
                 {"num_tokens", info.lr_tokens},
                 {"warmup_end_tokens", info.lr_warmup_end_tokens}}},
               {"architecture", info.architecture},
               {"data", to_json(info.data)},
               {"gemm_algorithms", info.gemm_algorithms},
               {"arguments", Json::parse(info.arguments_json)}};
  if (!info.run_segments_json.empty()) json["run_segments"] = Json::parse(info.run_segments_json);
  return json;
}

void check(bool sound, const std::string& what) {
  if (!sound) throw std::runtime_error(what);
}

// A manifest may be forged, with a checksum that fits.
void check_numbers(const CheckpointInfo& info) {
  // Far more than any run, and sums of them do not overflow.
  constexpr int64_t kMaxCount = int64_t{1} << 53;
  const auto is_count = [](int64_t value) { return value >= 0 && value <= kMaxCount; };
  const auto is_rate = [](double value) { return std::isfinite(value) && value >= 0; };
  check(is_count(info.scalars.iteration), "its iteration is out of range");
  check(is_count(info.scalars.consumed_samples), "consumed_train_samples is out of range");
  // As many samples of 1,000 tokens each.
  const auto is_token_count = [](int64_t value) { return value >= 0 && value <= kMaxCount * 1000; };
  for (const int64_t tokens :
       {info.scalars.consumed_tokens, info.lr_tokens, info.lr_warmup_end_tokens,
        info.lr_decay_tokens.value_or(0), info.lr_warmup_tokens.value_or(0)})
    check(is_token_count(tokens), "a number of tokens is out of range");
  check(is_count(info.consumed_valid_samples), "consumed_valid_samples is out of range");
  check(info.scalars.adam_step >= 0 && info.scalars.adam_step <= info.scalars.iteration,
        "adam_step is out of range");
  for (const int64_t steps : {info.scalars.skipped_steps, info.scalars.bad_steps_in_row})
    check(steps >= 0 && steps <= info.scalars.iteration,
          "a number of skipped steps is out of range");
  check(is_count(info.lr_samples), "num_samples of the learning rate is out of range");
  if (const auto& state = info.scalars.loss_scale) {
    check(state->scale > 0 && state->scale <= 0x1p127 && is_count(state->growth_tracker) &&
              is_count(std::abs(state->hysteresis_tracker)),
          "the state of the loss scale is out of range");
  }
  if (const auto& state = info.scalars.fp8_scaling) {
    check(state->steps >= 0 && state->steps <= info.scalars.iteration &&
              is_count(state->amax_history_len),
          "the state of the fp8 scales is out of range");
  }
  for (const double rate : {info.max_lr, info.min_lr, info.init_lr,
                            info.decoupled_max_lr.value_or(0), info.decoupled_min_lr.value_or(0)})
    check(is_rate(rate), "a learning rate is out of range");
  check(is_rate(info.lr_warmup_samples) && is_count(info.lr_decay_samples) &&
            is_count(info.lr_wsd_decay_samples),
        "the length of the learning-rate schedule is out of range");
}

CheckpointInfo info_from_json(const Json& json) {
  CheckpointInfo info;
  info.scalars.iteration = json_integer_at(json, "iteration");
  info.scalars.consumed_samples = json_integer_at(json, "consumed_train_samples");
  info.scalars.adam_step = json_integer_at(json, "adam_step");
  info.scalars.skipped_steps = json_integer_at(json, "skipped_iterations");
  info.scalars.bad_steps_in_row = json_integer_at(json, "bad_steps_in_row");
  info.scalars.consumed_tokens = json_integer_at(json, "consumed_train_tokens");
  info.scalars.loss_scale = loss_scale_from_json(json.at("grad_scaler"));
  info.scalars.fp8_scaling = fp8_scaling_from_json(json.at("fp8_scaling"));
  info.consumed_valid_samples = json_integer_at(json, "consumed_valid_samples");
  const Json& schedule = json.at("lr_scheduler");
  schedule.at("max_lr").get_to(info.max_lr);
  schedule.at("min_lr").get_to(info.min_lr);
  schedule.at("warmup_samples").get_to(info.lr_warmup_samples);
  info.lr_decay_samples = json_integer_at(schedule, "decay_samples");
  schedule.at("decay_style").get_to(info.lr_decay_style);
  // Checkpoints from before these have none of them.
  const auto rate_at = [&schedule](const char* name) {
    const auto found = schedule.find(name);
    return found == schedule.end() || found->is_null() ? std::optional<double>()
                                                       : std::optional(found->get<double>());
  };
  info.init_lr = rate_at("init_lr").value_or(0);
  info.decoupled_max_lr = rate_at("decoupled_max_lr");
  info.decoupled_min_lr = rate_at("decoupled_min_lr");
  info.lr_wsd_decay_samples = find_json_integer(schedule, "wsd_decay_samples").value_or(0);
  info.lr_wsd_decay_style = schedule.value("wsd_decay_style", info.lr_wsd_decay_style);
  info.lr_samples = json_integer_at(schedule, "num_samples");
  info.lr_tokens = json_integer_at(schedule, "num_tokens");
  info.lr_warmup_end_tokens = json_integer_at(schedule, "warmup_end_tokens");
  info.lr_decay_tokens = find_json_integer(schedule, "decay_tokens");
  info.lr_warmup_tokens = find_json_integer(schedule, "warmup_tokens");
  schedule.at("tokens_as_deepspeed").get_to(info.lr_tokens_as_deepspeed);
  json.at("architecture").get_to(info.architecture);
  info.data = data_identity_from_json(json.at("data"));
  json.at("gemm_algorithms").get_to(info.gemm_algorithms);
  info.arguments_json = json.at("arguments").dump();
  if (json.contains("run_segments")) info.run_segments_json = json["run_segments"].dump();
  check_numbers(info);
  return info;
}

void check_piece(const StoredPiece& stored) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error("tensor " + stored.piece.name + ": " + what);
  };
  const fs::path file = stored.file;
  if (file.empty() || file != file.filename() || stored.file == "." || stored.file == "..")
    fail("its file is no plain name");
  const std::string problem = problem_of_piece(stored.piece);
  if (!problem.empty()) fail(problem);
}

Json to_json(const StoredPiece& stored) {
  const TensorPiece& piece = stored.piece;
  return {{"name", piece.name},
          {"file", stored.file},
          {"key", stored.key},
          {"dtype", stored.dtype},
          {"global_shape", piece.global_shape},
          {"split_dim", piece.split_dim},
          {"begin", piece.begin},
          {"end", piece.end},
          {"first", piece.first},
          {"count", piece.count},
          {"xxh3", hex(stored.xxh3)}};
}

StoredPiece piece_from_json(const Json& json) {
  StoredPiece stored;
  TensorPiece& piece = stored.piece;
  json.at("name").get_to(piece.name);
  json.at("file").get_to(stored.file);
  json.at("dtype").get_to(stored.dtype);
  piece.global_shape = json_integers_at(json, "global_shape");
  piece.split_dim =
      static_cast<int>(std::clamp<int64_t>(json_integer_at(json, "split_dim"), -2, 64));
  piece.begin = json_integer_at(json, "begin");
  piece.end = json_integer_at(json, "end");
  stored.xxh3 = from_hex(json.at("xxh3").get<std::string>());
  json.at("key").get_to(stored.key);
  piece.first = json_integer_at(json, "first");
  piece.count = json_integer_at(json, "count");
  check_piece(stored);
  return stored;
}

Json to_json(const std::vector<StoredPiece>& pieces) {
  Json array = Json::array();
  for (const StoredPiece& piece : pieces) array.push_back(to_json(piece));
  return array;
}

// Throws what SafetensorsFile throws for one that is missing or not whole.
void open_files(const Manifest& manifest, const fs::path& folder) {
  std::set<std::string> files;
  for (const StoredPiece& stored : manifest.pieces) files.insert(stored.file);
  for (const std::string& file : files) SafetensorsFile(folder / file);
}

}  // namespace

std::string pieces_to_text(const std::vector<StoredPiece>& pieces) {
  return dump(to_json(pieces), -1);
}

std::vector<StoredPiece> pieces_from_text(std::string_view text) {
  std::vector<StoredPiece> pieces;
  for (const Json& json : Json::parse(text)) pieces.push_back(piece_from_json(json));
  return pieces;
}

std::string to_json(const Manifest& manifest) {
  Json json = {{"format", kFormat},
               {"info", info_to_json(manifest.info)},
               {"pieces", to_json(manifest.pieces)}};
  add_checksum(json);
  return dump(json, 1) + "\n";
}

Manifest read_manifest(const fs::path& path) {
  const std::string text = read_file(path);
  Manifest manifest;
  try {
    Json json = parse_json<Json>(text);
    if (!json.contains("format")) throw std::runtime_error("it has no \"format\"");
    if (json["format"] != kFormat) {
      throw std::runtime_error("its format is " + json["format"].dump() +
                               ", and this version reads " + kFormat + kWayFromAnotherVersion);
    }
    take_checksum(json, path);
    manifest.info = info_from_json(json.at("info"));
    for (const Json& piece : json.at("pieces")) manifest.pieces.push_back(piece_from_json(piece));
  } catch (const ChecksumMismatch&) {
    throw;
  } catch (const Json::out_of_range& error) {  // a key that another version does not write
    throw std::runtime_error(path.string() + ": not a checkpoint manifest: " + error.what() +
                             kWayFromAnotherVersion);
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": not a checkpoint manifest: " + error.what());
  }
  manifest.info.has_optimizer =
      std::any_of(manifest.pieces.begin(), manifest.pieces.end(), [](const StoredPiece& stored) {
        return stored.piece.name.starts_with("optimizer/exp_avg/");
      });
  return manifest;
}

Manifest manifest_of(const fs::path& dir, int64_t iteration) {
  const fs::path path = manifest_path(checkpoint_folder(dir, iteration));
  if (!fs::exists(path)) {
    throw std::runtime_error("no checkpoint of iteration " + std::to_string(iteration) + ": " +
                             path.string() +
                             " does not exist; choose one of the iter_ folders in " + dir.string() +
                             " with --ckpt-step");
  }
  Manifest manifest = read_manifest(path);
  if (manifest.info.scalars.iteration != iteration) {
    throw std::runtime_error(path.string() + " is of iteration " +
                             std::to_string(manifest.info.scalars.iteration) +
                             ", not of the one that its folder names");
  }
  return manifest;
}

std::string problem_of_checkpoint(const fs::path& dir, int64_t iteration) {
  try {
    open_files(manifest_of(dir, iteration), checkpoint_folder(dir, iteration));
  } catch (const std::runtime_error& error) {  // std::system_error is one
    return error.what();
  }
  return "";
}

Completeness completeness_of_checkpoint(const fs::path& dir, int64_t iteration) {
  Manifest manifest;
  try {
    manifest = manifest_of(dir, iteration);
  } catch (const ChecksumMismatch&) {
    return Completeness::kTorn;
  } catch (const std::runtime_error&) {
    return Completeness::kUnknown;
  }
  try {
    open_files(manifest, checkpoint_folder(dir, iteration));
  } catch (const std::system_error& error) {
    // A disk or a server that fails for a moment proves nothing.
    return error.code() == std::errc::no_such_file_or_directory ? Completeness::kTorn
                                                                : Completeness::kUnknown;
  } catch (const std::runtime_error&) {
    return Completeness::kTorn;
  }
  return Completeness::kWhole;
}

}  // namespace weft
