#include "preprocess/commands/text_options.h"

#include <string>

namespace weft {

void TextOptions::declare(OptionSet& options) {
  options.choice("--input-format", format,
                 {{"jsonl", InputFormat::kJsonLines}, {"text", InputFormat::kText}},
                 "jsonl: JSON lines, and tables by what they hold; text: plain text in UTF-8, and "
                 "of folders their .txt, .text, .md, .markdown and .rst");
  options.choice(
      "--split-at", split_at_,
      {{"file", SplitAt::kNowhere}, {"line", SplitAt::kLine}, {"blank-line", SplitAt::kBlankLine}},
      "with --input-format text: a document is a whole file, each line, or what lies "
      "between blank lines");
}

void TextOptions::validate(OptionSet& options,
                           std::initializer_list<const char*> of_json_lines) const {
  if (format == InputFormat::kJsonLines) {
    if (options.given("--split-at"))
      options.problem("--split-at needs --input-format text: JSON lines are a document each");
    return;
  }
  for (const char* name : of_json_lines) {
    if (options.given(name))
      options.problem(std::string(name) + " is for JSON lines: a text has no keys beside it");
  }
}

std::optional<SplitAt> TextOptions::split_texts_at() const {
  if (format == InputFormat::kJsonLines) return std::nullopt;
  return split_at_;
}

}  // namespace weft
