// Arguments of a run, of any content, are refused or become an order whose numbers can be computed
// with.
#include "preprocess/inspect/foreign_runs/megatron_arguments.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/run_record/manifest_order.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    auto manifest = weft::parse_megatron_arguments(text);
    // Files that the text names are not to be opened here.
    for (const char* name : {"data_args_path", "per_split_data_args_path", "blend_schedule"})
      manifest["arguments"].erase(name);
    const weft::SampleOrder order = weft::sample_order_from(manifest);
    FUZZ_CHECK(order.global_batch_size && *order.global_batch_size > 0);
    FUZZ_CHECK(order.train_samples || order.train_iters);
  } catch (const std::invalid_argument&) {
  } catch (const std::runtime_error&) {
  } catch (const nlohmann::json::exception&) {
    FUZZ_CHECK(!"a JSON exception tells the user nothing");
  }
  return 0;
}
