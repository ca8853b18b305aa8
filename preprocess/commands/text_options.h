// Options of commands that read plain text in place of JSON lines.
#pragma once

#include <initializer_list>
#include <optional>

#include "indexed_dataset/base/terminal/option_set.h"
#include "preprocess/inputs/files_of_name.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

struct TextOptions {
  InputFormat format = InputFormat::kJsonLines;

  void declare(OptionSet& options);
  // Refuses the options of `of_json_lines` where the input is text.
  void validate(OptionSet& options, std::initializer_list<const char*> of_json_lines) const;
  // The places where texts end (TokenizeRules::split_texts_at); nothing for JSON lines.
  std::optional<SplitAt> split_texts_at() const;

 private:
  SplitAt split_at_ = SplitAt::kNowhere;
};

}  // namespace weft
