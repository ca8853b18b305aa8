// The options of commands that look at one dataset.
#pragma once

#include <cstdint>
#include <string>

#include "preprocess/terminal/option_set.h"

namespace weft {

struct PrefixOptions {
  std::string prefix, vocab_file, merge_file;

  void declare(OptionSet& options) {
    options.positional("PREFIX", prefix, "the dataset: its path without .bin and .idx");
    options.text("--vocab-file", vocab_file,
                 "vocab.json; without it: the one in the dataset's manifest");
    options.text("--merge-file", merge_file, "merges.txt");
  }
  void validate(OptionSet& options) const {
    if (prefix.empty()) options.problem("give the dataset: its path without .bin and .idx");
    if (vocab_file.empty() != merge_file.empty()) {
      options.problem("--vocab-file and --merge-file belong together: give both or none");
    }
  }
};

// --threads of commands that read whole datasets.
struct ThreadsOption {
  int64_t num_threads = 0;

  void declare(OptionSet& options) {
    options.integer("--threads", num_threads, "threads that read; 0: as many as there are cores", 0,
                    1024);
  }
  int resolved() const;
};

}  // namespace weft
