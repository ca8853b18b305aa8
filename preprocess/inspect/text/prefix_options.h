// Options that several commands share.
#pragma once

#include <algorithm>
#include <string>
#include <thread>

#include "indexed_dataset/base/terminal/option_set.h"
#include "preprocess/vocabulary/vocabulary_options.h"

namespace weft {

// The options of commands that look at one dataset.
struct PrefixOptions {
  std::string prefix;
  VocabularyOptions vocabulary;

  void declare(OptionSet& options) {
    options.text("PREFIX", prefix, "the dataset: its path without .bin and .idx");
    vocabulary.declare(options, "the one in the dataset's manifest");
  }
  void validate(OptionSet& options) const {
    if (prefix.empty()) options.problem("give the dataset: its path without .bin and .idx");
    vocabulary.validate(options);
  }
};

// The option --threads of commands that read whole datasets.
struct ThreadsOption {
  int num_threads = 0;

  void declare(OptionSet& options) {
    options.integer("--threads", num_threads, "threads that read; 0: as many as there are cores", 0,
                    1024);
  }
  int resolved() const {
    if (num_threads > 0) return num_threads;
    return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 1024U));
  }
};

}  // namespace weft
