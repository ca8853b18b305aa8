// weft-data inspect samples shows what a training run saw: datasets, documents, token ranges, ids and
// text.
#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "indexed_dataset/terminal/messages.h"
#include "indexed_dataset/terminal/terminal_text.h"
#include "inspect/commands/commands.h"
#include "inspect/commands/output.h"
#include "inspect/commands/run_options.h"
#include "inspect/text/dataset_text.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  RunOptions run;
  SplitOptions split;
  bool as_json = false;
  std::vector<int64_t> sample_range;
  std::optional<int64_t> iteration;

  void declare(OptionSet& options) {
    run.declare(options);
    split.declare(options);
    options.integers(
        "--sample-range", sample_range, 2,
        "samples A to B, without B: A is what the log calls consumed samples before the first one");
    options.integer(
        "--iteration", iteration,
        "the samples of this iteration of the log (from 1), or of the validation after it", 1);
    declare_format(options, as_json);
  }

  void validate(OptionSet& options) const {
    run.validate(options, iteration || split.split != Split::kTrain);
    if (sample_range.empty() == !iteration)
      options.problem("give either --sample-range A B or --iteration I");
    if (sample_range.size() == 2 && sample_range[0] >= sample_range[1]) {
      options.problem(
          fmt::format("--sample-range: {} {} holds no sample", sample_range[0], sample_range[1]));
    }
    if (iteration && split.split == Split::kTest)
      options.problem("the test follows the last iteration: give --sample-range, from 0");
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
    const std::vector<RunSegment> segments = options_.run.segments();
    const Split split = options_.split.split;
    std::vector<SegmentSamples> parts;
    if (options_.iteration) {
      const int64_t iteration = *options_.iteration;
      parts = {split == Split::kTrain ? samples_of_iteration(segments, iteration)
                                      : samples_of_evaluation(segments, iteration)};
    } else {
      parts = samples_in_range(segments, split, options_.sample_range[0], options_.sample_range[1]);
    }
    for (const SegmentSamples& part : parts) {
      check_same_datasets(*part.segment, split, options_.split.group);
      print(*part.segment, part.first, part.last);
    }
    return 0;
  }

 private:
  void print(const RunSegment& segment, int64_t first, int64_t last) const {
    const auto& [split, group] = options_.split;
    const std::string name = options_.split.name();
    const BlendedDataset dataset = build_group(segment.order, split, group);
    // The index often holds more samples, from the last epoch that it needs. No iteration takes
    // them.
    const int64_t end = std::min(end_of_samples(segment, split), dataset.end());
    if (last > end) {
      throw std::invalid_argument(
          fmt::format("samples {} to {} are asked for, but the run takes only {} from {}", first,
                      last, end, name));
    }
    SamplePrinter printer(
        dataset, name,
        options_.run.find_vocabulary_of(segment, dataset.dataset(0).reader().prefix()));
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
