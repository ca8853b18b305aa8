// The JSON of a curriculum's metrics, in DeepSpeed's words.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/order/curriculum/metric_curriculum.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// The members of one metric; each must be read, so that none is silently without effect.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail("it should be an object");
  }
  [[noreturn]] void fail(const std::string& what) const { throw UsageError(where_ + ": " + what); }
  const Json* find(const std::string& name) {
    seen_.insert(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const Json& need(const std::string& name) {
    if (const Json* found = find(name)) return *found;
    fail("\"" + name + "\" is missing");
  }
  std::string text(const std::string& name) {
    const Json& json = need(name);
    if (!json.is_string()) fail("\"" + name + "\" is " + json.dump() + ", it should be a text");
    return json.get<std::string>();
  }
  int64_t integer(const std::string& name) {
    const Json& json = need(name);
    if (!is_usable(json))
      fail("\"" + name + "\" is " + json.dump() + ", it should be an integer" + kBounds);
    return json.get<int64_t>();
  }
  std::vector<int64_t> integers(const std::string& name) {
    const Json& json = need(name);
    if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_usable))
      fail("\"" + name + "\" is " + json.dump() + ", it should be a list of integers" + kBounds);
    return json.get<std::vector<int64_t>>();
  }
  void report_rest() const {
    for (const auto& [name, value] : object_.items()) {
      if (!seen_.contains(name)) fail("\"" + name + "\" is not known: remove it");
    }
  }

 private:
  // Schedules compute with doubles, as DeepSpeed does, and differences must fit 64 bits.
  static constexpr const char* kBounds = " between -2^53 and 2^53";
  static bool is_usable(const Json& value) {
    constexpr double kLimit = 9007199254740992;
    return value.is_number_integer() && std::abs(value.get<double>()) < kLimit;
  }

  const Json& object_;
  const std::string where_;
  std::set<std::string> seen_;
};

// A schedule lists its difficulties; more of them than this are a mistake in the unit of the
// metric.
constexpr int64_t kMaxDifficulties = 10'000'000;

CurriculumOptions parse_schedule(Members& metric, const std::string& where) {
  CurriculumOptions schedule;
  schedule.schedule_type = metric.text("schedule_type");
  schedule.min_difficulty = metric.integer("min_difficulty");
  schedule.max_difficulty = metric.integer("max_difficulty");
  Members config(metric.need("schedule_config"), where + ", schedule_config");
  if (schedule.schedule_type == "fixed_discrete") {
    schedule.difficulty = config.integers("difficulty");
    schedule.max_step = config.integers("max_step");
  } else {
    schedule.total_step = config.integer("total_curriculum_step");
    schedule.difficulty_step = config.integer("difficulty_step");
    if (schedule.schedule_type == "fixed_root" || config.find("root_degree") != nullptr)
      schedule.root_degree = config.integer("root_degree");
    if (schedule.difficulty_step > 0 && schedule.total_step > kMaxDifficulties &&
        (schedule.max_difficulty - schedule.min_difficulty) / schedule.difficulty_step >
            kMaxDifficulties)
      config.fail("there are more than 10 million difficulties: give a larger difficulty_step");
  }
  config.report_rest();
  return schedule;
}

CurriculumMetric parse_metric(const std::string& name, const Json& json) {
  const std::string where = "curriculum metric " + name;
  Members members(json, where);
  CurriculumMetric metric{.name = name};
  metric.index_to_sample_path = members.text("index_to_sample_path");
  const std::string type = members.text("difficulty_type");
  if (type != "value" && type != "percentile")
    members.fail("difficulty_type " + type + " is none of value, percentile");
  metric.by_percentile = type == "percentile";
  if (!metric.by_percentile || members.find("index_to_metric_path") != nullptr)
    metric.index_to_metric_path = members.text("index_to_metric_path");
  if (members.find("clustering_type") != nullptr &&
      members.text("clustering_type") != "schedule_based")
    members.fail(
        "clustering_type " + members.text("clustering_type") +
        " is not schedule_based: a metric of one cluster draws nothing; for sequences that "
        "grow give --curriculum-schedule-type");
  metric.schedule = parse_schedule(members, where);
  members.report_rest();
  int64_t before = -1;
  for (const DifficultyStretch& stretch : difficulty_stretches(metric.schedule, where + ": ")) {
    if (stretch.difficulty < before)
      members.fail("its difficulty shrinks at iteration " +
                   std::to_string(stretch.first_iteration) +
                   ": samples that are admitted stay admitted");
    before = stretch.difficulty;
  }
  if (metric.by_percentile &&
      (metric.schedule.max_difficulty < 1 || before > metric.schedule.max_difficulty))
    members.fail("percentiles are from 1 to max_difficulty, which is " +
                 std::to_string(metric.schedule.max_difficulty));
  return metric;
}

}  // namespace

std::vector<CurriculumMetric> parse_curriculum_metrics(const std::string& json) {
  Json object;
  try {
    object = parse_json<Json>(json);
  } catch (const std::exception& error) {
    throw UsageError(std::string("curriculum metrics: ") + error.what());
  }
  if (!object.is_object() || object.empty())
    throw UsageError(
        "curriculum metrics: they should be a JSON object {\"NAME\": {...}}, as DeepSpeed's "
        "curriculum_metrics");
  std::vector<CurriculumMetric> metrics;
  for (const auto& [name, metric] : object.items()) metrics.push_back(parse_metric(name, metric));
  return metrics;
}

}  // namespace weft
