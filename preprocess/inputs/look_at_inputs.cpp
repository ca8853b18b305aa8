#include "preprocess/inputs/look_at_inputs.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <vector>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/process/thread_group.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// Looks wait, and hardly compute.
constexpr size_t kMaxLookers = 8;

}  // namespace

void look_at_inputs(const Inputs& inputs, const std::string& found, const RowRequest& wanted,
                    const std::atomic<bool>& cancelled) {
  const Json known = found.empty() ? Json::object() : parse_json<Json>(found);
  // Threads take the inputs in order, so that none before the first one that fails is left out.
  std::vector<std::exception_ptr> errors(inputs.size());
  std::atomic<size_t> next_idx{0};
  const auto look_at_next = [&] {
    for (size_t i = next_idx++; i < inputs.size(); i = next_idx++) {
      try {
        const std::string text = known.value(inputs[i]->name(), "");
        if (text.empty()) {
          inputs[i]->look(cancelled, wanted);
        } else {
          inputs[i]->take_found(text, cancelled, wanted);
        }
      } catch (...) {
        errors[i] = std::current_exception();
        next_idx = inputs.size();
      }
    }
  };
  ThreadGroup lookers;
  for (size_t i = 1; i < std::min(inputs.size(), kMaxLookers); ++i) lookers.start(look_at_next);
  look_at_next();
  lookers.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::string found_text(const Inputs& inputs) {
  Json found = Json::object();
  for (const auto& input : inputs) {
    if (std::string text = input->found(); !text.empty()) found[input->name()] = std::move(text);
  }
  return found.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft
