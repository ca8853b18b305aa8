#include "trainer/resume/argument_changes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/order/samples/split.h"
#include "trainer/command_line/option_text.h"

namespace weft {

namespace {

// A reshaping curriculum goes on with the next token, any other run with the next sample. Where
// some sequences were shorter, the one does not tell the other.
void check_curriculum_mode(const CheckpointInfo& checkpoint, const Config& config) {
  const auto saved =
      nlohmann::json::parse(checkpoint.arguments_json, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object() || !saved.contains("curriculum_mode")) return;
  const auto text = [&](const char* name) {
    return saved.contains(name) && saved[name].is_string() ? saved[name].get<std::string>() : "";
  };
  const bool reshaped =
      !text("curriculum_schedule_type").empty() && text("curriculum_mode") == "reshape";
  const int64_t samples = checkpoint.scalars.consumed_samples;
  if (reshaped == config.length_curriculum().reshapes() ||
      checkpoint.scalars.consumed_tokens == samples * config.seq_length)
    return;
  throw UsageError(fmt::format(
      "the checkpoint was saved {} --curriculum-mode reshape, after {} samples of {} tokens in all, and "
      "this run is {} it: it would repeat or lose tokens; resume with the mode that the run had, or "
      "start another run with --finetune",
      reshaped ? "with" : "without", samples, checkpoint.scalars.consumed_tokens,
      reshaped ? "without" : "with"));
}

// The steps of a curriculum by difficulty begin with draws that follow from the sizes of all
// batches. With other sizes it would repeat or leave out samples.
void check_batch_sizes_of_draws(const CheckpointInfo& checkpoint, const Config& config) {
  const auto saved =
      nlohmann::json::parse(checkpoint.arguments_json, nullptr, /*allow_exceptions=*/false);
  if (config.curriculum_metrics.empty() || !saved.is_object() ||
      !saved.contains("curriculum_metrics") || !saved["curriculum_metrics"].is_string())
    return;
  const auto ours = nlohmann::json::parse(resolved_json(config));
  for (const auto& [name, flag] :
       {std::pair("global_batch_size", "--global-batch-size"),
        std::pair("rampup_batch_size", "--rampup-batch-size"),
        std::pair("step_batch_size_schedule", "--step-batch-size-schedule")}) {
    if (!saved.contains(name) || saved[name] == ours[name]) continue;
    throw UsageError(fmt::format(
        "{} was {} when the checkpoint was saved and is {} now: the iterations of --curriculum-metrics "
        "would begin with other samples, and some would come twice or not at all; resume with the old "
        "batch sizes, or start another run with --finetune",
        flag, saved[name].dump(), ours[name].dump()));
  }
}

// The options of which a resumed run announces a change, with its effect, in order.
struct AnnouncedOptions {
  std::vector<std::pair<std::string, ChangeEffect>> flags;

  void group(const char*) {}
  template <typename T>
  void operator()(const char* flag, const T&, ChangeEffect effect, const char*) {
    if (effect != ChangeEffect::kCompared && effect != ChangeEffect::kNothing)
      flags.emplace_back(flag, effect);
  }
};

bool is_same_split_in_other_words(const std::string& argument, const nlohmann::json& saved,
                                  const nlohmann::json& ours) {
  return argument == "split" && saved.is_string() && ours.is_string() &&
         is_same_split(saved.get<std::string>(), ours.get<std::string>());
}

// Returns the format, which three other flags name, too.
std::string fp8_format_of(const nlohmann::json& arguments) {
  const auto is_given = [&](const char* name) {
    return arguments.contains(name) && arguments[name] == true;
  };
  if (is_given("fp8") || is_given("fp8_hybrid")) return "hybrid";
  if (is_given("fp8_e4m3")) return "e4m3";
  const auto format = arguments.find("fp8_format");
  return format != arguments.end() && format->is_string() ? format->get<std::string>() : "";
}

}  // namespace

const char* words_of(ChangeEffect effect) {
  switch (effect) {
    case ChangeEffect::kMovesSamples:
      return "samples from here on may be others than without the change";
    case ChangeEffect::kMovesEvaluations:
      return "evaluations from here on may take other samples than without the change";
    case ChangeEffect::kBegins:
      return "it counts at the beginning of a run, and the checkpoint has the loss scale of a later step";
    case ChangeEffect::kBeginsHistories:
      return "the histories of all fp8 scales begin anew";
    case ChangeEffect::kConvertsMoments:
      return "Adam's moments are converted, to bf16 by rounding to the nearest, and the run goes on "
             "otherwise than with the old value";
    case ChangeEffect::kGoesOn:
    case ChangeEffect::kCompared:
    case ChangeEffect::kNothing:
      break;
  }
  return "the run goes on with the new value";
}

std::vector<std::string> argument_differences(const CheckpointInfo& checkpoint,
                                              const Config& config) {
  auto saved =
      nlohmann::json::parse(checkpoint.arguments_json, nullptr, /*allow_exceptions=*/false);
  if (!saved.is_object()) return {};
  auto ours = nlohmann::json::parse(resolved_json(config));
  for (nlohmann::json* arguments : {&saved, &ours})
    (*arguments)["fp8_format"] = fp8_format_of(*arguments);
  AnnouncedOptions announced;
  visit_options(config, announced);
  std::vector<std::string> differences;
  for (const auto& [flag, effect] : announced.flags) {
    const std::string name = snake_case(flag);
    if (!saved.contains(name) || saved[name] == ours[name]) continue;
    if (effect == ChangeEffect::kBegins && !checkpoint.scalars.loss_scale) continue;
    if (is_same_split_in_other_words(name, saved[name], ours[name])) continue;
    differences.push_back(fmt::format("--{} was {} when the checkpoint was saved and is {} now: {}",
                                      flag, saved[name].dump(), ours[name].dump(),
                                      words_of(effect)));
  }
  return differences;
}

// Checkpoints of the time before there was Muon do not name their optimizer.
void check_optimizer_is_the_same(const CheckpointInfo& checkpoint, const Config& config) {
  const auto saved =
      nlohmann::json::parse(checkpoint.arguments_json, nullptr, /*allow_exceptions=*/false);
  const auto name = saved.is_object() ? saved.find("optimizer") : saved.end();
  const std::string theirs =
      name != saved.end() && name->is_string() ? name->get<std::string>() : "adam";
  const bool had_muon = theirs != "adam";
  if (had_muon == config.uses_muon()) return;
  throw UsageError(fmt::format(
      "--optimizer was {} when the checkpoint was saved and is {} now, and the one has no use for the "
      "other's state: resume with --optimizer {}, or begin with a fresh state by --no-load-optim",
      theirs, config.optimizer, theirs));
}

void check_place_is_known(const CheckpointInfo& checkpoint, const Config& config) {
  check_curriculum_mode(checkpoint, config);
  check_batch_sizes_of_draws(checkpoint, config);
}

}  // namespace weft
