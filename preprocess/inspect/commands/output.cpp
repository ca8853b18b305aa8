#include "preprocess/inspect/commands/output.h"

#include <fmt/format.h>

#include "indexed_dataset/base/terminal/messages.h"
#include "preprocess/inspect/text/dataset_text.h"

namespace weft {

std::shared_ptr<const Vocabulary> find_vocabulary(const std::filesystem::path& prefix,
                                                  const TokenizerFiles& given) {
  auto vocabulary = find_dataset_vocabulary(prefix, given);
  if (!vocabulary) {
    print_message("the dataset's vocabulary was not found: only ids are shown (--tokenizer)");
  }
  return vocabulary;
}

bool print_if_to_come(int64_t iteration, std::optional<int64_t> last_trained) {
  if (!last_trained || iteration <= *last_trained) return false;
  print_message(
      fmt::format("trained until iteration {}: later ones are what the run takes if it goes on",
                  *last_trained));
  return true;
}

void add_source(Record& record, const std::optional<SourceMap>& sources, int64_t document_idx) {
  if (!sources) return;
  const SourceEntry entry = sources->entry(document_idx);
  record["input"] = sources->inputs()[entry.input_idx];
  const bool is_row = sources->locators()[entry.input_idx] == Locator::kRow;
  record[is_row ? "row" : "offset_bytes"] = entry.offset_bytes;
  if (!entry.origin.is_empty()) record["origin"] = entry.origin.view();
  record["~source"] = sources->describe(document_idx);
}

void add_place(Record& record, const SamplePlace& place) {
  std::string text;
  if (place.iteration) {
    record["iteration"] = *place.iteration;
    text = fmt::format("{}iteration {}", place.at_end ? "at the end of training, after " : "",
                       *place.iteration);
  }
  if (place.slot) {
    const auto& [rank, micro_batch, slot] = *place.slot;
    record["rank"] = rank;
    record["micro_batch"] = micro_batch;
    record["slot"] = slot;
    text += fmt::format(", rank {}, micro-batch {}, slot {}", rank, micro_batch, slot);
  }
  if (place.is_untrained) {
    record["not_trained"] = true;
    text += ", not trained";
  }
  if (place.at_end) record["at_end"] = true;
  if (!text.empty()) record["~place"] = text;
}

void add_tokens(Record& record, const SamplePart& part) {
  record["begin_token"] = part.begin_token;
  record["num_tokens"] = part.num_tokens;
  record["~end_token"] = part.begin_token + part.num_tokens;
}

const std::optional<SourceMap>& SourceMaps::of(const DatasetReader& reader) {
  const auto found = maps_.find(&reader);
  if (found != maps_.end()) return found->second;
  return maps_.emplace(&reader, open_source_map_of(reader)).first->second;
}

}  // namespace weft
