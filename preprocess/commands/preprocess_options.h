// The options of weft-data preprocess.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/commands/text_options.h"
#include "preprocess/compressed/decoded_source.h"
#include "preprocess/inputs/find_inputs.h"
#include "preprocess/inspect/text/prefix_options.h"
#include "preprocess/run/pipeline.h"

namespace weft {

struct PreprocessOptions {
  PipelineConfig config;  // what the options set at once; pipeline_config() has the rest
  GivenInputs inputs;
  TextOptions text;
  std::string output_prefix;
  VocabularyOptions vocabulary;
  std::string eod_token;
  int64_t log_interval = 1000;
  std::string shard;
  std::string where;
  std::string origin_key;  // if empty, a report decides, and a text has none
  int64_t num_partitions = 1;
  bool keep_sequential_samples = false;
  std::string report;
  bool joins_ranks = true;
  int64_t peer_timeout_s = 60;

  void declare(OptionSet& options);
  void validate(OptionSet& options) const;
  // Sets config.inputs, and notes about them. Throws as find_inputs().
  void find_inputs(StoredInputs& stored);
  // Finds what the file system lacks, and what would be lost, before anything is made. Throws
  // std::system_error, and UsageError if an output is an input.
  void check_files() const;
  void check_open_files() const;
  // Says what is allowed but perhaps not meant.
  std::vector<std::string> notes() const;
  std::string resolved_origin_key() const;
  std::vector<std::filesystem::path> output_prefixes() const;
  // A report for each dataset: FILE.html, and with several keys FILE.KEY.html.
  std::vector<std::filesystem::path> report_files() const;
  PipelineConfig pipeline_config() const;

 private:
  void declare_run(OptionSet& options);
  void declare_documents(OptionSet& options);
  void declare_dataset(OptionSet& options);
  void declare_ranks(OptionSet& options);
  static void advise_older_scripts(OptionSet& options);

  std::optional<int64_t> limit_;
  std::vector<std::string> notes_of_inputs_;
};

}  // namespace weft
