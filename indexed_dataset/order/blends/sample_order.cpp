#include "indexed_dataset/order/blends/sample_order.h"

#include <nlohmann/json.hpp>

#include "indexed_dataset/order/batches/batch_size_plan.h"

namespace weft {

void derive_order(SampleOrder& order, const std::string& directory) {
  const int64_t num_ranks = order.data_parallel_size.value_or(1);
  int64_t full_batch = order.micro_batch_size * num_ranks;
  if (!order.step_batch_size_schedule.empty()) {
    full_batch = BatchSizePlan::of_steps(order.step_batch_size_schedule, order.seq_length).last();
  }
  if (order.dataloader_type == "cyclic") {
    order.cyclic = {.micro_batch_size = order.micro_batch_size,
                    .data_parallel_size = num_ranks,
                    .shards = !order.no_data_sharding};
  }
  if (!order.curriculum_metrics.empty()) {
    order.draws =
        MetricCurriculum{.metrics = order.curriculum_metrics,
                         .seed = order.curriculum_metrics_seed,
                         .global_batch_size = order.global_batch_size.value_or(full_batch),
                         .rampup_batch_size = order.rampup_batch_size,
                         .step_batch_size_schedule = order.step_batch_size_schedule,
                         .directory = directory};
  }
  if (!order.step_batch_size_schedule.empty()) order.global_batch_size = full_batch;
}

std::string field_text(const std::string& value) { return value; }
std::string field_text(int64_t value) { return std::to_string(value); }
std::string field_text(double value) { return nlohmann::json(value).dump(); }
std::string field_text(bool value) { return value ? "true" : "false"; }
std::string field_text(OrderKind value) { return name_of(value); }
std::string field_text(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "";
}
std::string field_text(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) {
    if (!text.empty()) text += ' ';
    text += std::to_string(value);
  }
  return text;
}
std::string field_text(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : " ") + value;
  return text;
}

}  // namespace weft
