// The options by which the commands of weft-data inspect are told of a training run: its folder, or
// all that decides what it reads.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "indexed_dataset/run_record/order_options.h"
#include "indexed_dataset/run_record/run_timeline.h"
#include "preprocess/inspect/text/prefix_options.h"
#include "tokenizer/vocabulary.h"

namespace weft {

struct RunOptions {
  std::string run_folder, checkpoint;
  VocabularyOptions vocabulary;

  void declare(OptionSet& options);
  // `needs_batch`: the command does not work without --global-batch-size.
  void validate(OptionSet& options, bool needs_batch) const;
  // Reads the run, which may go on meanwhile: call it once. Arguments that are given by hand are a
  // run that was never resumed. Throws as read_run() and read_run_of_checkpoint().
  RunTimeline read() const;
  // The given vocabulary, else that of the run or the dataset, with a message where there is none.
  // It is loaded once: a range of iterations has many stretches.
  std::shared_ptr<const Vocabulary> find_vocabulary_of(const RunSegment& segment,
                                                       const std::filesystem::path& prefix) const;

 private:
  std::string megatron_arguments_;  // a file
  OrderOptions order_;
  std::vector<std::string> names_;  // of the options that --run replaces
  // By dataset, vocabulary file and merges.
  mutable std::map<std::pair<std::string, TokenizerFiles>, std::shared_ptr<const Vocabulary>>
      vocabularies_;
};

// --split-name and --group.
struct SplitOptions {
  Split split = Split::kTrain;
  std::string group;

  void declare(OptionSet& options);
  // "train", or "valid GROUP".
  std::string name() const;
};

}  // namespace weft
