// Changes every argument in the list of those that decide samples, in a manifest, and looks what
// becomes of the order.
#include "indexed_dataset/order/blends/sample_arguments.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "indexed_dataset/run_record/manifest_order.h"
#include "indexed_dataset/run_record/sample_query.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

class ArgumentsOfARun : public ::testing::Test {
 protected:
  // A run that is cyclic, has a curriculum of either kind, and counts samples. It names its
  // datasets as `paths` does.
  static Json arguments_with(const Json& paths) {
    Json arguments = {{"split", "90,5,5"},
                      {"sample_order", "core"},
                      {"seq_length", 16},
                      {"seed", 7},
                      {"train_samples", 1000},
                      {"eval_iters", 2},
                      {"eval_interval", 10},
                      {"global_batch_size", 8},
                      {"micro_batch_size", 2},
                      {"dataloader_type", "cyclic"},
                      {"curriculum_schedule_type", "fixed_linear"},
                      {"curriculum_metrics", "{}"}};
    arguments.update(paths);
    return arguments;
  }
  static SampleOrder order_of(const Json& arguments) {
    return sample_order_from({{"arguments", arguments}, {"data_parallel_size", 2}});
  }
  std::string write(const char* name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  // The arguments of a run that has this one, and the same with another value.
  struct Change {
    Json before, after;
  };
  Change change_of(const std::string& name) {
    const auto paths = [](const Json& before, const Json& after) {
      return Change{arguments_with(before), arguments_with(after)};
    };
    const std::string weighted = "_weighted_split_paths";
    const Json data = {{"data_path", "a"}},
               apart = {
                   {"train_data_path", "a"}, {"valid_data_path", "b"}, {"test_data_path", "c"}};
    Json groups;
    for (const char* split : {"train", "valid", "test"})
      groups[split + weighted] = {"g: 1 0:0.5 a"};
    if (name == "data_path") return paths(data, {{name, "b"}});
    if (name == "blend_schedule") {
      return paths({{"data_path", {"1", "a", "1", "b"}}},
                   {{"data_path", {"1", "a", "1", "b"}},
                    {name, write("schedule", R"([{"from_samples": 9, "blend": "2 a 1 b"}])")}});
    }
    if (name == "data_args_path")
      return paths({{name, write("list", "a")}}, {{name, write("other_list", "b")}});
    if (name == "per_split_data_args_path") {
      return paths({{name, write("splits", R"({"train": ["a"], "valid": ["b"]})")}},
                   {{name, write("other_splits", R"({"train": ["c"], "valid": ["b"]})")}});
    }
    if (name.ends_with("_data_path")) {
      Json other = apart;
      other[name] = "d";
      return paths(apart, other);
    }
    if (name.ends_with(weighted)) {
      Json other = groups;
      other[name] = {"g: 1 0:0.6 a"};
      return paths(groups, other);
    }
    if (name.ends_with(weighted + "_path")) {
      Json with_file = groups, other = groups;
      for (Json* json : {&with_file, &other}) json->erase(name.substr(0, name.size() - 5));
      with_file[name] = write("groups", R"("g: 1 0:0.5 a")");
      other[name] = write("other_groups", R"("g: 1 0:0.6 a")");
      return paths(with_file, other);
    }
    const std::map<std::string, Json> others = {{"split", "80,10,10"},
                                                {"sample_order", "sequential"},
                                                {"dataloader_type", "single"},
                                                {"rampup_batch_size", {2, 2, 30}},
                                                {"step_batch_size_schedule", "0:4 160:8"},
                                                {"train_iters", 77},
                                                {"curriculum_schedule_type", "fixed_root"},
                                                {"curriculum_mode", "reshape"},
                                                {"curriculum_metrics", R"({"m": 1})"},
                                                {"curriculum_difficulty", {4, 8}},
                                                {"curriculum_max_step", {5}},
                                                {"unsee", "list"}};
    Change change{arguments_with(data), arguments_with(data)};
    if (name == "train_iters") {
      change.before.erase("train_samples");
      change.after.erase("train_samples");
      change.before[name] = 55;
    }
    if (const auto other = others.find(name); other != others.end()) {
      change.after[name] = other->second;
    } else {
      const auto add = [&](const auto& field, const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if (field.name() != name) return;
        if constexpr (std::is_same_v<T, bool>) change.after[name] = !value;
        if constexpr (std::is_same_v<T, double>) change.after[name] = value + 1;
        if constexpr (std::is_same_v<T, int64_t>) change.after[name] = value + 2;
        if constexpr (std::is_same_v<T, std::optional<int64_t>>) change.after[name] = *value + 2;
      };
      visit_sample_fields(add, static_cast<const SampleArguments&>(order_of(change.before)));
    }
    return change;
  }

  TemporaryFolder folder_;
};

bool differ(const SampleOrder& a, const SampleOrder& b, Split split) {
  return !differences_in_samples(a, b, split).empty();
}

// The field's member was read, and what it says that it moves is what moves.
TEST_F(ArgumentsOfARun, MoveWhatTheListSays) {
  int num_fields = 0;
  const auto check = [&](const auto& field, const auto&) {
    ++num_fields;
    SCOPED_TRACE(field.name());
    const Change change = change_of(field.name());
    ASSERT_NE(change.before, change.after);
    const SampleOrder before = order_of(change.before), after = order_of(change.after);
    const bool is_training = differ(before, after, Split::kTrain);
    const bool is_validation = differ(before, after, Split::kValid);
    const bool is_test = differ(before, after, Split::kTest);
    const bool is_iterations = !differences_in_iterations(before, after).empty();
    switch (field.moves) {
      case Moves::kSamples:
        EXPECT_TRUE(is_training);
        break;
      case Moves::kEvaluations:
        EXPECT_FALSE(is_training);
        EXPECT_TRUE(is_validation || is_test);
        break;
      case Moves::kIterations:
        EXPECT_TRUE(is_iterations);
        break;
      case Moves::kNothing:  // tokens of the same samples have no loss
        EXPECT_FALSE(is_training || is_validation || is_test || is_iterations);
        break;
    }
    EXPECT_FALSE(differ(before, before, Split::kTrain));
  };
  const SampleArguments any;
  visit_sample_fields(check, any);
  EXPECT_EQ(num_fields, 41);
}

// A manifest of weft-train has all of them: one that lacks any is another version's.
TEST_F(ArgumentsOfARun, AreAllInAManifest) {
  Json arguments = arguments_with({{"data_path", "a"}});
  const auto fill = [&](const auto& field, const auto&) {
    if (!arguments.contains(field.name())) arguments[field.name()] = nullptr;
  };
  const SampleArguments any;
  visit_sample_fields(fill, any);
  const auto read = [&] {
    return sample_order_from(
        {{"program", "weft-train"},
         {"arguments", arguments},
         {"data_parallel_size", 2},
         {"cyclic_order", {{"micro_batch_size", 4}, {"data_parallel_size", 1}}},
         {"dataset_samples", {{"train", 1}, {"validation", 2}, {"test", 3}}},
         {"blends",
          {{"own_paths", false},
           {"train", Json::array()},
           {"valid", Json::array()},
           {"test", Json::array()}}}});
  };
  EXPECT_EQ(read().cyclic->micro_batch_size, 4);
  const Json whole = arguments;
  const auto check = [&](const auto& field, const auto&) {
    arguments = whole;
    arguments.erase(field.name());
    EXPECT_THROW(read(), std::runtime_error) << field.name();
  };
  visit_sample_fields(check, any);
}

}  // namespace
}  // namespace weft
