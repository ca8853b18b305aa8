// weft-data inspect samples shows what a training run saw: datasets, documents, token ranges, ids and
// text.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <set>

#include "indexed_dataset/beside/prefix_options.h"
#include "indexed_dataset/beside/run_segments.h"
#include "indexed_dataset/blends/data_options.h"
#include "indexed_dataset/blends/order_options.h"
#include "indexed_dataset/terminal/messages.h"
#include "indexed_dataset/terminal/terminal_text.h"
#include "inspect/commands/commands.h"
#include "inspect/commands/output.h"
#include "inspect/text/dataset_text.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  DataOptions data;
  OrderOptions order;
  VocabularyOptions vocabulary;
  std::string run_folder, group;
  Split split = Split::kTrain;
  bool as_json = false;
  std::vector<int64_t> sample_range;
  std::optional<int64_t> iteration;

  void declare(OptionSet& options) {
    options.text("--run", run_folder,
                 "a training run's folder: its run_manifest.json gives all options down to "
                 "--global-batch-size");
    data.declare(options);
    order.declare(options);
    vocabulary.declare(options, "the one in the run's or the dataset's manifest");
    options.choice("--split-name", split,
                   {{"train", Split::kTrain}, {"valid", Split::kValid}, {"test", Split::kTest}},
                   "which split");
    options.text("--group", group, "which of several groups of validation or test datasets");
    options.integers(
        "--sample-range", sample_range, 2,
        "samples A to B, without B: A is what the log calls consumed samples before the first one");
    options.integer(
        "--iteration", iteration,
        "the samples of this iteration of the log (from 1), or of the validation after it", 1);
    declare_format(options, as_json);
  }

  void validate(OptionSet& options) const {
    data.validate(options);
    if (sample_range.empty() == !iteration)
      options.problem("give either --sample-range A B or --iteration I");
    if (sample_range.size() == 2 && sample_range[0] >= sample_range[1]) {
      options.problem(
          fmt::format("--sample-range: {} {} holds no sample", sample_range[0], sample_range[1]));
    }
    if (iteration && split == Split::kTest)
      options.problem("the test follows the last iteration: give --sample-range, from 0");
    vocabulary.validate(options);
    run_folder.empty() ? validate_order(options) : validate_run(options);
  }

  SampleOrder given_order() const {
    SampleOrder given = order.order;
    given.data.blends = order.resolve(data.paths);
    given.data.order = data.order;
    given.data.sequence_length = *order.seq_length;
    given.data.surplus = data.surplus_value();
    given.data.cache_path = data.cache_path;
    given.data.vocab_file = vocabulary.vocab_file;
    given.data.merge_file = vocabulary.merge_file;
    return given;
  }

 private:
  static void validate_run(OptionSet& options) {
    const std::set<std::string> allowed = {"run",   "vocab-file",   "merge-file", "split-name",
                                           "group", "sample-range", "iteration",  "format"};
    for (const auto& [name, value] : options.resolved()) {
      if (allowed.contains(name) || !options.given("--" + name)) continue;
      options.problem(
          fmt::format("--run already says how the run was trained: leave --{} out", name));
    }
  }

  void validate_order(OptionSet& options) const {
    if (data.paths.empty()) options.problem("--data-path is required without --run");
    order.validate(options, iteration || split != Split::kTrain);
  }
};

// Prints samples, each with the documents it is made of.
class SamplePrinter {
 public:
  SamplePrinter(const BlendedDataset& dataset, std::string split_name,
                std::shared_ptr<const Vocabulary> vocabulary)
      : dataset_(dataset), split_name_(std::move(split_name)), vocabulary_(std::move(vocabulary)) {}

  void print_text(int64_t sample_idx) {
    const Ids ids = ids_of(sample_idx);
    const std::vector<SamplePart> parts = dataset_.sample_parts(sample_idx);
    const BlendedDataset::Place place = dataset_.locate(sample_idx);
    const DatasetReader& reader = dataset_.dataset(place.dataset_idx).reader();
    const std::optional<SourceMap>& sources = sources_of(reader);
    fmt::print("sample {} of {}: {} tokens from {}\n", sample_idx, split_name_, ids.size(),
               counted(std::ssize(parts), "document"));
    if (dataset_.is_blend() || place.sample_idx != sample_idx) {
      fmt::print("  dataset {}, its sample {}\n", escape_for_terminal(reader.prefix().string()),
                 place.sample_idx);
    }
    auto next = ids.begin();
    for (const SamplePart& part : parts) {
      const Ids part_ids(next, next + part.num_tokens);
      next += part.num_tokens;
      fmt::print("  document {} (sequence {}), tokens {} to {} of {}\n", part.document_idx,
                 part.sequence_idx, part.begin_token, part.begin_token + part.num_tokens,
                 reader.length(part.sequence_idx));
      if (sources)
        fmt::print("    from {}\n", escape_for_terminal(sources->describe(part.document_idx)));
      fmt::print("    ids: {}\n", fmt::join(part_ids, " "));
      if (vocabulary_)
        fmt::print("    text: {}\n", escape_for_terminal(decode_ids(part_ids, *vocabulary_)));
    }
  }

  void print_json(int64_t sample_idx) {
    const Ids ids = ids_of(sample_idx);
    const BlendedDataset::Place place = dataset_.locate(sample_idx);
    const DatasetReader& reader = dataset_.dataset(place.dataset_idx).reader();
    Json json = {{"sample", sample_idx},
                 {"split", split_name_},
                 {"dataset", reader.prefix().string()},
                 {"dataset_sample", place.sample_idx},
                 {"parts", Json::array()},
                 {"ids", ids}};
    for (const SamplePart& part : dataset_.sample_parts(sample_idx)) {
      json["parts"].push_back({{"document", part.document_idx},
                               {"sequence", part.sequence_idx},
                               {"begin_token", part.begin_token},
                               {"num_tokens", part.num_tokens}});
      add_source(json["parts"].back(), sources_of(reader), part.document_idx);
    }
    if (vocabulary_) json["text"] = decode_ids(ids, *vocabulary_);
    print_line(json);
  }

 private:
  using Ids = std::vector<int32_t>;

  Ids ids_of(int64_t sample_idx) const {
    Ids ids(static_cast<size_t>(dataset_.sequence_length() + 1));
    dataset_.sample(sample_idx, ids.data());
    return ids;
  }
  const std::optional<SourceMap>& sources_of(const DatasetReader& reader) {
    const auto found = sources_.find(&reader);
    if (found != sources_.end()) return found->second;
    return sources_.emplace(&reader, open_source_map_of(reader)).first->second;
  }

  const BlendedDataset& dataset_;
  std::map<const DatasetReader*, std::optional<SourceMap>> sources_;  // of datasets that were met
  std::string split_name_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

class InspectSamplesCommand final : public Command {
 public:
  InspectSamplesCommand()
      : Command("inspect samples", "print the samples of a training run: documents, ids, text") {}
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    std::vector<RunSegment> segments;
    if (!options_.run_folder.empty()) {
      segments = read_run_segments(options_.run_folder);
    } else {
      // Arguments that are given by hand are a run that was never resumed.
      segments.emplace_back().order = options_.given_order();
      segments.back().resumed_valid_samples = 0;
    }
    std::vector<SegmentSamples> parts;
    if (options_.iteration) {
      const int64_t iteration = *options_.iteration;
      parts = {options_.split == Split::kTrain ? samples_of_iteration(segments, iteration)
                                               : samples_of_evaluation(segments, iteration)};
    } else {
      parts = samples_in_range(segments, options_.split, options_.sample_range[0],
                               options_.sample_range[1]);
    }
    for (const SegmentSamples& part : parts) {
      check_same_datasets(*part.segment, options_.split, options_.group);
      print(*part.segment, part.first, part.last);
    }
    return 0;
  }

 private:
  void print(const RunSegment& segment, int64_t first, int64_t last) const {
    const DatasetOptions& data = segment.order.data;
    std::string name(short_split_name(options_.split));
    if (!options_.group.empty()) name += " " + options_.group;
    const BlendedDataset dataset = build_group(segment.order, options_.split, options_.group);
    // The index often holds more samples, from the last epoch that it needs. No iteration takes
    // them.
    const int64_t end = std::min(end_of_samples(segment, options_.split), dataset.end());
    if (last > end) {
      throw std::invalid_argument(
          fmt::format("samples {} to {} are asked for, but the run takes only {} from {}", first,
                      last, end, name));
    }
    const VocabularyOptions& given = options_.vocabulary;
    const bool is_given = !given.vocab_file.empty();
    SamplePrinter printer(dataset, name,
                          find_vocabulary(dataset.dataset(0).reader().prefix(),
                                          is_given ? given.vocab_file : data.vocab_file,
                                          is_given ? given.merge_file : data.merge_file));
    for (int64_t sample = first; sample < last; ++sample)
      options_.as_json ? printer.print_json(sample) : printer.print_text(sample);
  }

  InspectOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_samples_command() {
  return std::make_unique<InspectSamplesCommand>();
}

}  // namespace weft
