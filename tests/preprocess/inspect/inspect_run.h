// weft-data inspect samples on the runs of training_run.h.
#pragma once

#include <sstream>

#include "tests/trainer/training_run.h"

namespace weft {

class InspectRun : public Training {
 protected:
  // Returns the exit code; output() is what weft-data prints.
  int inspect(const Arguments& more) { return inspect_by("samples", more); }
  int inspect_by(const std::string& name, const Arguments& more) {
    Arguments command{std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-data", "inspect", name,
                      "--format", "jsonl"};
    command.insert(command.end(), more.begin(), more.end());
    return wait(start_program(command));
  }
  int inspect_run(const std::string& run, const Arguments& more) {
    Arguments all = more;
    all.insert(all.end(), {"--run", (folder_ / run).string()});
    return inspect(all);
  }
  // Returns the samples, or other objects, that were printed; the lines of messages are left out.
  std::vector<nlohmann::json> samples() const {
    std::istringstream in(output());
    std::vector<nlohmann::json> samples;
    for (std::string line; std::getline(in, line);) {
      nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_discarded()) samples.push_back(std::move(json));
    }
    return samples;
  }
  // Expects that inspect shows, for each iteration of metrics.jsonl, the samples between the
  // consumed ones before it and after it.
  void expect_samples_of_metrics(const std::string& run) {
    int64_t consumed = 0;
    for (const nlohmann::json& line : metrics(run)) {
      if (!line.contains("lm_loss")) continue;
      const std::string iteration = line.at("iteration").dump();
      ASSERT_EQ(inspect_run(run, {"--iteration", iteration}), 0) << output();
      const auto shown = samples();
      ASSERT_EQ(std::ssize(shown), line.at("global_batch_size")) << iteration << output();
      for (const nlohmann::json& sample : shown) EXPECT_EQ(sample.at("sample"), consumed++);
      EXPECT_EQ(line.at("consumed_samples"), consumed) << iteration;
    }
  }
};

}  // namespace weft
