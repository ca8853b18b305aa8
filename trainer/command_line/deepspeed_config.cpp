#include "trainer/command_line/deepspeed_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

namespace {

using Json = nlohmann::json;

// Moves the members of the file into the configuration, one after the other, and tells which are
// left.
class Reader {
 public:
  Reader(Config& config, const std::function<bool(const std::string&)>& is_given,
         std::vector<std::string>& problems, std::vector<std::string>& notes)
      : config_(config), is_given_(is_given), problems_(problems), notes_(notes) {}

  void read(const Json& file) {
    take(file, "train_batch_size", "--global-batch-size", config_.global_batch_size);
    take(file, "train_micro_batch_size_per_gpu", "--micro-batch-size", config_.micro_batch_size);
    take(file, "gradient_clipping", "--clip-grad", config_.clip_grad);
    if (const Json* bf16 = find_object(file, "bf16")) {
      take(*bf16, "enabled", "--bf16", config_.bf16);
      note_rest(*bf16, "bf16.");
    }
    if (const Json* fp16 = find_object(file, "fp16")) read_fp16(*fp16);
    if (const Json* zero = find_object(file, "zero_optimization")) {
      take(*zero, "stage", "--zero-stage", config_.zero_stage);
      if (const Json* offload = find_object(*zero, "offload_optimizer")) read_offload(*offload);
      note_rest(*zero, "zero_optimization.");
    }
    if (const Json* curriculum = find_object(file, "curriculum_learning"))
      read_curriculum(*curriculum);
    if (const Json* efficiency = find_object(file, "data_efficiency"))
      read_data_efficiency(*efficiency);
    report_rest(file, "");
  }

 private:
  void problem(const std::string& what) {
    problems_.push_back(fmt::format("--deepspeed_config {}: {}", config_.deepspeed_config, what));
  }

  const Json* find(const Json& object, const std::string& name) {
    seen_.insert({&object, name});
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  const Json* find_object(const Json& object, const std::string& name) {
    const Json* found = find(object, name);
    if (found == nullptr || found->is_object()) return found;
    problem(fmt::format("\"{}\" is {}, it should be an object", name, found->dump()));
    return nullptr;
  }

  static bool fits(const Json& json, const int64_t*) { return is_json_integer(json); }
  static bool fits(const Json& json, const float*) { return json.is_number(); }
  static bool fits(const Json& json, const double*) { return json.is_number(); }
  static bool fits(const Json& json, const bool*) { return json.is_boolean(); }
  static bool fits(const Json& json, const std::string*) { return json.is_string(); }
  static bool fits(const Json& json, const std::vector<int64_t>*) {
    return json.is_array() && std::all_of(json.begin(), json.end(), is_json_integer<Json>);
  }

  // Reads a member into an option, if it is there. Returns whether the option has its value now.
  template <typename T>
  bool take(const Json& object, const std::string& name, const std::string& flag, T& option) {
    const Json* json = find(object, name);
    if (json == nullptr) return false;
    if (!fits(*json, &option)) {
      problem(fmt::format("\"{}\" is {}, which is no value for it", name, json->dump()));
      return false;
    }
    const T value = json->get<T>();
    if (!flag.empty() && is_given_(flag) && option != value) {
      problem(fmt::format("\"{}\" is {} and {} is {}: leave one of them out", name, json->dump(),
                          flag, Json(option).dump()));
      return false;
    }
    option = value;
    return true;
  }
  template <typename T>
  void take(const Json& object, const std::string& name, const std::string& flag,
            std::optional<T>& option) {
    T value = option.value_or(T{});
    if (take(object, name, flag, value)) option = value;
  }

  void read_offload(const Json& json) {
    std::string device = "none";
    take(json, "device", "", device);
    if (device != "cpu" && device != "none")
      problem("offload_optimizer.device " + device + " is not built: only cpu and none are");
    config_.optimizer_offload = config_.optimizer_offload || device == "cpu";
    note_rest(json, "zero_optimization.offload_optimizer.");
  }

  // A loss_scale of 0 asks for a dynamic factor, which begins with a power of two.
  // [DeepSpeed runtime/config.py, runtime/constants.py]
  void read_fp16(const Json& json) {
    take(json, "enabled", "--fp16", config_.fp16);
    if (!config_.fp16) return;
    double scale = config_.loss_scale.value_or(0);
    if (take(json, "loss_scale", "--loss-scale", scale)) {
      config_.loss_scale.reset();
      if (scale != 0) config_.loss_scale = scale;
    }
    int64_t power = 32;
    if (take(json, "initial_scale_power", "", power)) {
      power = std::clamp<int64_t>(power, -1100, 1100);  // beyond the powers that a double holds
      double initial = config_.initial_loss_scale;
      if (take(Json{{"initial_scale_power", std::ldexp(1.0, static_cast<int>(power))}},
               "initial_scale_power", "--initial-loss-scale", initial))
        config_.initial_loss_scale = initial;
    }
    take(json, "loss_scale_window", "--loss-scale-window", config_.loss_scale_window);
    take(json, "hysteresis", "--hysteresis", config_.hysteresis);
    take(json, "min_loss_scale", "--min-loss-scale", config_.min_loss_scale);
    bool consecutive = false;
    take(json, "consecutive_hysteresis", "", consecutive);
    if (consecutive)
      problem("fp16.consecutive_hysteresis is not built: overflows count up to the next doubling");
    note_rest(json, "fp16.");
  }

  void read_curriculum(const Json& json) {
    bool enabled = false;
    take(json, "enabled", "", enabled);
    if (!enabled) {
      notes_.emplace_back("curriculum_learning of --deepspeed_config has no effect: not enabled");
      return;
    }
    CurriculumOptions& options = config_.curriculum;
    std::string type = "seqlen";
    take(json, "curriculum_type", "", type);
    if (type != "seqlen")
      problem("curriculum_type " + type + " is not seqlen, the one that is built");
    take(json, "schedule_type", "--curriculum-schedule-type", options.schedule_type);
    if (options.schedule_type.empty()) problem("curriculum_learning has no schedule_type");
    read_schedule(json, options, "curriculum_learning.");
    report_rest(json, "curriculum_learning.");
  }

  void read_schedule(const Json& json, CurriculumOptions& options, const std::string& where) {
    take(json, "min_difficulty", "--curriculum-min-difficulty", options.min_difficulty);
    take(json, "max_difficulty", "--curriculum-max-difficulty", options.max_difficulty);
    if (const Json* schedule = find_object(json, "schedule_config")) {
      take(*schedule, "total_curriculum_step", "--curriculum-total-step", options.total_step);
      take(*schedule, "difficulty_step", "--curriculum-difficulty-step", options.difficulty_step);
      take(*schedule, "root_degree", "--curriculum-root-degree", options.root_degree);
      take(*schedule, "difficulty", "--curriculum-difficulty", options.difficulty);
      take(*schedule, "max_step", "--curriculum-max-step", options.max_step);
      report_rest(*schedule, where + "schedule_config.");
    }
  }

  // Returns the member if it is an object that is enabled; notes that it has no effect otherwise.
  const Json* find_enabled(const Json& object, const std::string& name) {
    const Json* found = find_object(object, name);
    if (found == nullptr) return nullptr;
    bool enabled = false;
    take(*found, "enabled", "", enabled);
    if (enabled) return found;
    notes_.push_back(name + " of --deepspeed_config has no effect: not enabled");
    return nullptr;
  }

  void read_data_efficiency(const Json& json) {
    bool enabled = false;
    take(json, "enabled", "", enabled);
    if (!enabled) {
      notes_.emplace_back("data_efficiency of --deepspeed_config has no effect: not enabled");
      return;
    }
    take(json, "seed", "--curriculum-metrics-seed", config_.curriculum_metrics_seed);
    if (find_enabled(json, "data_routing") != nullptr)
      problem("data_routing is enabled: random layerwise token dropping is not built");
    if (const Json* sampling = find_enabled(json, "data_sampling")) {
      if (find_enabled(*sampling, "dynamic_batching") != nullptr)
        problem("dynamic_batching is enabled: batches of changing shape are not built");
      if (const Json* curriculum = find_enabled(*sampling, "curriculum_learning")) {
        if (const Json* metrics = find_object(*curriculum, "curriculum_metrics")) {
          read_metrics(*metrics);
        } else {
          problem("data_sampling.curriculum_learning has no curriculum_metrics");
        }
        note_rest(*curriculum, "data_efficiency.data_sampling.curriculum_learning.");
      }
      // The options of the run tell its length, and its loader has threads of its own.
      note_rest(*sampling, "data_efficiency.data_sampling.");
    }
    report_rest(json, "data_efficiency.");
    if (config_.curriculum_metrics.empty() && config_.curriculum.schedule_type.empty())
      config_.curriculum_metrics_seed = Config().curriculum_metrics_seed;
  }

  // DeepSpeed's metrics seqlen_truncate and seqlen_reshape draw nothing: they cut samples that
  // others draw.
  void read_metrics(const Json& metrics) {
    Json drawn = Json::object();
    for (const auto& [name, metric] : metrics.items()) {
      if (name == "seqlen_reshape") {
        problem(
            "seqlen_reshape is not built as DeepSpeed has it: give --curriculum-mode reshape and a "
            "schedule by --curriculum-schedule-type");
      } else if (name == "seqlen_truncate" && metric.is_object()) {
        const std::string where = "curriculum_metrics.seqlen_truncate.";
        take(metric, "schedule_type", "--curriculum-schedule-type",
             config_.curriculum.schedule_type);
        if (config_.curriculum.schedule_type.empty()) problem(where + "schedule_type is missing");
        read_schedule(metric, config_.curriculum, where);
        note_rest(metric, where);
      } else {
        drawn[name] = metric;
      }
    }
    if (drawn.empty()) return;
    if (is_given_("--curriculum-metrics"))
      problem("curriculum_metrics are there and in --curriculum-metrics: leave one of them out");
    config_.curriculum_metrics = drawn.dump();
  }

  // Members that nothing has read, where they cannot change what is trained.
  void note_rest(const Json& object, const std::string& where) {
    for (const auto& [name, value] : object.items()) {
      if (seen_.contains({&object, name})) continue;
      notes_.push_back(
          fmt::format("\"{}{}\" of --deepspeed_config has no effect here", where, name));
    }
  }

  // Those that have no effect here, or a meaning that this program lacks.
  void report_rest(const Json& object, const std::string& where) {
    static const std::set<std::string> kHarmless = {
        "steps_per_print",        "wall_clock_breakdown",        "dump_state",
        "prescale_gradients",     "gradient_accumulation_steps", "zero_allow_untested_optimizer",
        "communication_data_type"};
    for (const auto& [name, value] : object.items()) {
      if (seen_.contains({&object, name})) continue;
      if (where.empty() && kHarmless.contains(name)) {
        notes_.push_back(fmt::format("\"{}\" of --deepspeed_config has no effect here", name));
      } else {
        problem(fmt::format("\"{}{}\" is not supported: remove it, or give Megatron's own flags",
                            where, name));
      }
    }
  }

  Config& config_;
  const std::function<bool(const std::string&)>& is_given_;
  std::vector<std::string>&problems_, &notes_;
  std::set<std::pair<const Json*, std::string>> seen_;
};

}  // namespace

void load_curriculum_metrics(Config& config, std::vector<std::string>& problems) {
  std::string& metrics = config.curriculum_metrics;
  if (metrics.empty()) return;
  try {
    const std::string text = metrics.starts_with("{") ? metrics : read_file(metrics);
    metrics = parse_json<Json>(text).dump();
  } catch (const std::exception& error) {
    problems.push_back(fmt::format("--curriculum-metrics: {}", error.what()));
    metrics.clear();
  }
}

void apply_deepspeed_config(Config& config,
                            const std::function<bool(const std::string& flag)>& is_given,
                            std::vector<std::string>& problems, std::vector<std::string>& notes) {
  if (config.deepspeed_config.empty()) return;
  try {
    const Json file = parse_json<Json>(read_file(config.deepspeed_config));
    if (!file.is_object()) throw std::runtime_error("it is no JSON object");
    Reader(config, is_given, problems, notes).read(file);
  } catch (const std::exception& error) {
    problems.push_back(
        fmt::format("--deepspeed_config {}: {}", config.deepspeed_config, error.what()));
  }
}

}  // namespace weft
