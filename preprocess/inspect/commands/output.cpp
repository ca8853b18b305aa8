#include "preprocess/inspect/commands/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include "indexed_dataset/base/terminal/messages.h"
#include "preprocess/inspect/text/dataset_text.h"

namespace weft {

void declare_format(OptionSet& options, bool& as_json) {
  options.choice("--format", as_json, {{"text", false}, {"jsonl", true}},
                 "for people, text escaped for terminals; or one line of JSON for each");
}

std::shared_ptr<const Vocabulary> find_vocabulary(const std::filesystem::path& prefix,
                                                  const TokenizerFiles& given) {
  auto vocabulary = find_dataset_vocabulary(prefix, given);
  if (!vocabulary) {
    print_message(
        "the dataset's vocabulary was not found: only ids are shown (--vocab-file, --merge-file)");
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

void add_source(nlohmann::ordered_json& json, const std::optional<SourceMap>& sources,
                int64_t document_idx) {
  if (!sources) return;
  const SourceEntry entry = sources->entry(document_idx);
  json["input"] = sources->inputs()[entry.input_idx];
  json["offset_bytes"] = entry.offset_bytes;
  if (!entry.origin.is_empty()) json["origin"] = entry.origin.view();
}

std::string describe(const SamplePlace& place) {
  std::string text;
  if (place.iteration)
    text = fmt::format("{}iteration {}", place.at_end ? "at the end of training, after " : "",
                       *place.iteration);
  if (place.slot)
    text += fmt::format(", rank {}, micro-batch {}, slot {}", place.slot->rank,
                        place.slot->micro_batch, place.slot->slot);
  return text;
}

void add_place(nlohmann::ordered_json& json, const SamplePlace& place) {
  if (place.iteration) json["iteration"] = *place.iteration;
  if (place.slot) {
    json["rank"] = place.slot->rank;
    json["micro_batch"] = place.slot->micro_batch;
    json["slot"] = place.slot->slot;
  }
  if (place.at_end) json["at_end"] = true;
}

const std::optional<SourceMap>& SourceMaps::of(const DatasetReader& reader) {
  const auto found = maps_.find(&reader);
  if (found != maps_.end()) return found->second;
  return maps_.emplace(&reader, open_source_map_of(reader)).first->second;
}

void print_line(const nlohmann::ordered_json& json) {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  fmt::print("{}\n", json.dump(-1, ' ', is_terminal, nlohmann::json::error_handler_t::replace));
}

}  // namespace weft
