#include "indexed_dataset/order/blends/order_description.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/format/soundness/dataset_identity.h"
#include "indexed_dataset/order/samples/split.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(OrderKind value) { return name_of(value); }
template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
template <typename T>
Json json_of(const T& value) {
  return value;
}

// Returns all but the identities of the datasets.
Json describe_arguments(const BlendedDataset& samples, const SampleOrder& order) {
  const Blend& blend = order.blends.of(Split::kTrain).front();
  Json json = {{"samples", samples.num_samples()},
               {"split", order.blends.has_own_paths ? Json() : Json(order.split)}};
  const auto add = [&](const auto& field, const auto& value) {
    if (field.moves == Moves::kSamples && field.compared_by == ComparedBy::kItself)
      json[field.name()] = json_of(value);
  };
  visit_sample_fields(add, order);
  json["datasets"] = Json::array();
  for (int64_t i = 0; i < samples.num_datasets(); ++i) {
    const auto at = static_cast<size_t>(i);
    const EpochPlan& plan = samples.dataset(i).index().plan;
    Json dataset = {
        {"epochs", plan.num_epochs},
        {"samples", plan.num_samples},
        {"samples_before_last_epoch",
         plan.separate_last_epoch ? Json(plan.num_samples_before_last_epoch) : Json()},
        {"weight", at < blend.weights.size() ? Json(blend.weights[at]) : Json()},
        {"share", at < blend.shares.size() ? Json{blend.shares[at].first, blend.shares[at].second}
                                           : Json()}};
    json["datasets"].push_back(std::move(dataset));
  }
  return json;
}

bool is_same_value(const std::string& name, const Json& a, const Json& b) {
  if (name == "split" && a.is_string() && b.is_string())
    return is_same_split(a.get<std::string>(), b.get<std::string>());
  return a == b;
}

[[noreturn]] void fail(const std::string& of_what, const std::string& difference) {
  throw std::runtime_error(
      of_what + " was made of other samples, or of another order of them: " + difference +
      "; run weft-data analyze with the data, --split, --seq-length, --seed, "
      "--sample-order and --train-samples of the training run");
}

}  // namespace

Json describe_order(const BlendedDataset& samples, const SampleOrder& order) {
  Json json = describe_arguments(samples, order);
  for (int64_t i = 0; i < samples.num_datasets(); ++i)
    json["datasets"][static_cast<size_t>(i)]["identity"] =
        to_json(identify_dataset(samples.dataset(i).reader().prefix()));
  return json;
}

void check_same_order(const Json& described, const BlendedDataset& samples,
                      const SampleOrder& order, const std::string& of_what) {
  const Json ours = describe_arguments(samples, order);
  const auto check = [&](const Json& theirs, const Json& our_values, const std::string& where) {
    for (const auto& [name, value] : our_values.items()) {
      if (name == "datasets") continue;
      const auto found = theirs.find(name);
      if (found == theirs.end() || !is_same_value(name, *found, value))
        fail(of_what, where + name + " was " +
                          (found == theirs.end() ? "not told" : found->dump()) + " and is " +
                          value.dump());
    }
  };
  check(described, ours, "");
  const auto datasets = described.find("datasets");
  if (datasets == described.end() || !datasets->is_array() ||
      datasets->size() != ours["datasets"].size())
    fail(of_what, "it was of another number of datasets");
  for (size_t i = 0; i < datasets->size(); ++i) {
    const std::filesystem::path& prefix =
        samples.dataset(static_cast<int64_t>(i)).reader().prefix();
    check((*datasets)[i], ours["datasets"][i], "of " + prefix.string() + ", ");
    try {
      check_same_dataset(prefix, dataset_identity_from_json((*datasets)[i].at("identity")));
    } catch (const std::system_error&) {
      throw;
    } catch (const std::exception& error) {
      fail(of_what, error.what());
    }
  }
}

}  // namespace weft
