// weft-data inspect samples shows what a training run saw: datasets, documents, token ranges, ids
// and text.
#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/run_options.h"
#include "preprocess/inspect/commands/sample_record.h"
#include "preprocess/inspect/commands/sample_selection.h"
#include "preprocess/inspect/lookup/run_readings.h"
#include "preprocess/inspect/losses/other_visits.h"

namespace weft {
namespace {

class InspectSamplesCommand final : public Command {
 public:
  InspectSamplesCommand()
      : Command("inspect samples", "print the samples of a training run: documents, ids, text",
                "weft-data inspect samples --run checkpoints --iteration 730") {}
  void declare(OptionSet& options) override {
    run_.declare(options);
    selection_.declare(options);
    declare_format(options, format_, /*has_page=*/true);
    options.choice(
        "--sort", by_loss_, {{"order", false}, {"loss", true}},
        "in the order of the run; or an iteration's largest loss first, beside what is usual");
    threads_.declare(options);
  }
  void validate(OptionSet& options) const override {
    run_.validate(options, selection_.needs_batch());
    selection_.validate(options);
    if (by_loss_ && run_.run_folder.empty())
      options.problem("--sort loss needs --run: the run's folder has the losses");
    if (by_loss_ && selection_.split.split != Split::kTrain)
      options.problem("--sort loss: only the samples of training have losses");
  }

  int run(const OptionSet&) override {
    const RunTimeline run = run_.read();
    names_.emplace(dataset_names_of(run.segments()));
    std::vector<Stretch> selected = selection_.select(run);
    SampleSelection::tell_what_is_to_come(selected, run.last_trained());
    RunSamples samples(run, print_message);
    for (Stretch& stretch : selected)
      selection_.find_samples(samples, stretch);  // what the run does not take is refused first
    // Losses that are not there are refused before anything is printed, too.
    std::vector<ByLoss> by_loss;
    if (by_loss_) {
      const RunLosses losses(run_.run_folder);
      for (Stretch& stretch : selected)
        by_loss.push_back(
            sorted_by_loss(losses, samples, selection_.find_samples(samples, stretch), stretch));
    }
    print_page_head(format_, "Samples of " + selection_.description());
    for (size_t i = 0; i < selected.size(); ++i) {
      const TakenSamples& taken = selection_.find_samples(samples, selected[i]);
      by_loss_ ? print_by_loss(by_loss[i], taken, selected[i]) : print(taken, selected[i]);
    }
    print_page_end(format_);
    return 0;
  }

 private:
  // The samples of a stretch in the order of their losses, iteration by iteration.
  struct ByLoss {
    std::map<int64_t, SamplePlace> places;
    std::vector<JudgedBatch> batches;
    VisitLosses visits;
  };

  SampleRecords records_of(const TakenSamples& taken, const Stretch& stretch) const {
    return {taken,
            run_.find_vocabulary_of(*stretch.segment, taken.dataset().dataset(0).reader().prefix()),
            *names_};
  }

  ByLoss sorted_by_loss(const RunLosses& losses, RunSamples& samples, const TakenSamples& taken,
                        const Stretch& stretch) const {
    std::map<int64_t, SamplePlace> places;
    std::set<int64_t> iterations;
    PlaceFinder finder(stretch);
    for (int64_t sample = stretch.first; sample < stretch.last; ++sample) {
      const SamplePlace& place = places[sample] = finder.place_of(sample);
      if (place.iteration) iterations.insert(*place.iteration);
    }
    std::vector<int64_t> sample_idxs;
    for (const auto& [sample, place] : places) sample_idxs.push_back(sample);
    std::vector<JudgedBatch> batches;
    for (const int64_t iteration : iterations) {
      std::optional<JudgedBatch> batch = losses.judge(iteration, SpikeOptions{});
      if (!batch) {
        throw UsageError(fmt::format(
            "the run has no losses of iteration {}: metrics.jsonl does not tell of it", iteration));
      }
      batches.push_back(std::move(*batch));
    }
    return {.places = std::move(places),
            .batches = std::move(batches),
            .visits = VisitLosses(samples, losses, taken, sample_idxs, threads_.resolved())};
  }

  void print_by_loss(const ByLoss& by_loss, const TakenSamples& taken,
                     const Stretch& stretch) const {
    SampleRecords records = records_of(taken, stretch);
    for (const JudgedBatch& batch : by_loss.batches) {
      for (const JudgedSample& sample : batch.samples) {
        const auto place = by_loss.places.find(sample.sample);
        if (place == by_loss.places.end()) continue;  // of the iteration, but not asked for
        const LossNote note = note_of(batch, sample, taken, by_loss.visits);
        records.print(format_, selection_.split.name(), sample.sample, place->second, &note);
      }
    }
  }

  static LossNote note_of(const JudgedBatch& batch, const JudgedSample& sample,
                          const TakenSamples& taken, const VisitLosses& visits) {
    LossNote note{.sample = {{"loss", sample.loss}}, .parts = {}};
    if (batch.has_usual) {
      note.sample["usual_loss"] = batch.usual.median;
      note.sample["loss_z"] = sample.z;
      note.sample["run_loss_before"] = batch.usual_iteration_loss;
    }
    note.sample["~note"] = filled(
        "loss {loss:.4g}[[ (usual {usual_loss:.4g}, z {loss_z:.1f}); the run's loss before: "
        "{run_loss_before:.4g}]]",
        note.sample);
    const std::string prefix = taken.reader(sample.sample).prefix().string();
    for (const SamplePart& part : taken.parts(sample.sample)) {
      const OtherVisits others = visits.of(sample.sample, prefix, part);
      Record& record = note.parts.emplace_back(Record{{"other_samples", others.num_samples}});
      if (others.num_samples == 0) {
        record["~note"] = "in no other sample so far";
        continue;
      }
      record["other_mean_loss"] = others.mean_loss;
      record["other_largest_loss"] = others.largest_loss;
      record["~note"] = filled(
          "in {other_samples#other sample} so far: mean loss "
          "{other_mean_loss:.4g}, largest {other_largest_loss:.4g}",
          record);
    }
    return note;
  }

  void print(const TakenSamples& taken, const Stretch& stretch) const {
    SampleRecords records = records_of(taken, stretch);
    PlaceFinder places(stretch);
    for (int64_t sample = stretch.first; sample < stretch.last; ++sample)
      records.print(format_, selection_.split.name(), sample, places.place_of(sample));
  }

  RunOptions run_;
  SampleSelection selection_;
  Format format_ = Format::kText;
  bool by_loss_ = false;
  std::optional<DatasetNames> names_;  // of the run
  ThreadsOption threads_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_samples_command() {
  return std::make_unique<InspectSamplesCommand>();
}

}  // namespace weft
