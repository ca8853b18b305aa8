#include "inspect/commands/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include "indexed_dataset/terminal/messages.h"
#include "inspect/text/dataset_text.h"

namespace weft {

void declare_format(OptionSet& options, bool& as_json) {
  options.choice("--format", as_json, {{"text", false}, {"jsonl", true}},
                 "for people, text escaped for terminals; or one line of JSON for each");
}

std::shared_ptr<const Vocabulary> find_vocabulary(const std::filesystem::path& prefix,
                                                  const std::filesystem::path& vocab_file,
                                                  const std::filesystem::path& merge_file) {
  auto vocabulary = find_dataset_vocabulary(prefix, vocab_file, merge_file);
  if (!vocabulary) {
    print_message(
        "the dataset's vocabulary was not found: only ids are shown (--vocab-file, --merge-file)");
  }
  return vocabulary;
}

void add_source(nlohmann::ordered_json& json, const std::optional<SourceMap>& sources,
                int64_t document_idx) {
  if (!sources) return;
  const SourceEntry entry = sources->entry(document_idx);
  json["input"] = sources->inputs()[entry.input_idx];
  json["offset_bytes"] = entry.offset_bytes;
  if (!entry.origin.is_empty()) json["origin"] = entry.origin.view();
}

void print_line(const nlohmann::ordered_json& json) {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  fmt::print("{}\n", json.dump(-1, ' ', is_terminal, nlohmann::json::error_handler_t::replace));
}

}  // namespace weft
