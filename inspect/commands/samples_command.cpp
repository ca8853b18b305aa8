// weft-data inspect samples shows what a training run saw: datasets, documents, token ranges, ids and
// text.
#include <fmt/format.h>

#include "indexed_dataset/terminal/messages.h"
#include "inspect/commands/commands.h"
#include "inspect/commands/run_options.h"
#include "inspect/commands/sample_printer.h"
#include "inspect/commands/sample_selection.h"
#include "inspect/lookup/run_readings.h"

namespace weft {
namespace {

class InspectSamplesCommand final : public Command {
 public:
  InspectSamplesCommand()
      : Command("inspect samples", "print the samples of a training run: documents, ids, text") {}
  void declare(OptionSet& options) override {
    run_.declare(options);
    selection_.declare(options);
    declare_sample_format(options, format_);
  }
  void validate(OptionSet& options) const override {
    run_.validate(options, selection_.needs_batch());
    selection_.validate(options);
  }

  int run(const OptionSet&) override {
    const std::vector<RunSegment> segments = run_.segments();
    const std::vector<Stretch> selected = selection_.select(segments);
    RunSamples samples(segments);
    for (const Stretch& stretch : selected)
      selection_.find_samples(samples, stretch);  // what the run does not take is refused first
    print_page_head(format_, "Samples of " + selection_.description());
    for (const Stretch& stretch : selected)
      print(selection_.find_samples(samples, stretch), stretch);
    print_page_end(format_);
    return 0;
  }

 private:
  void print(const BlendedDataset& dataset, const Stretch& stretch) const {
    SamplePrinter printer(
        format_, dataset, selection_.split.name(),
        run_.find_vocabulary_of(*stretch.segment, dataset.dataset(0).reader().prefix()));
    PlaceFinder places(stretch);
    for (int64_t sample = stretch.first; sample < stretch.last; ++sample)
      printer.print(sample, places.place_of(sample));
  }

  RunOptions run_;
  SampleSelection selection_;
  SampleFormat format_ = SampleFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_inspect_samples_command() {
  return std::make_unique<InspectSamplesCommand>();
}

}  // namespace weft
