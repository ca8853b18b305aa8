// weft-data inspect spikes finds the iterations of a run whose loss or gradient norm jumps, and
// names the samples and documents that carry each jump.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/run_record/sample_query.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/sample_record.h"
#include "preprocess/inspect/lookup/run_readings.h"
#include "preprocess/inspect/losses/run_losses.h"
#include "preprocess/inspect/text/prefix_options.h"

namespace weft {
namespace {

// An iteration, and its samples, each with its documents on one line.
constexpr Layout kIteration = {
    "iteration {iteration}[[: lm loss {lm_loss:.4g} (usual {usual_loss:.4g}, z {loss_z:.1f}), grad norm "
    "{grad_norm:.4g} (usual {usual_grad_norm:.4g}, z {grad_norm_z:.1f})]]"
    "[[{jumps!} does not jump, but has samples that stand out: lm loss {lm_loss:.4g} (usual "
    "{usual_loss:.4g})]], samples {first_sample} to {end_sample}\n"
    "[[  its samples are not told: {unknown}\n]]"
    "[[  {~num_standing_out} of the {~num_samples} samples of iteration {suspects_of_iteration} stand "
    "out at once: rather the update before it than the text is the likely cause, so no document is "
    "named (weft-data inspect samples --run {~run} --iteration {suspects_of_iteration} --sort loss "
    "shows the samples)\n]]"
    "[[{~none!}  no sample stands out, nor in the iteration before (weft-data inspect samples --run "
    "{~run} --iteration {suspects_of_iteration} --sort loss shows the largest losses)\n]]"
    "[[{~before!}  none of its samples stands out, but these of iteration {suspects_of_iteration}, "
    "whose update came before:\n]]"
    "[[@samples:  sample {sample}: loss {loss:.4g}, z {z:.1f}[[, {~percent:.0f} % of the jump]]"
    "[[@documents:[[{~is_shown!}; document {document}, tokens {begin_token} to {~end_token} of "
    "{~length}[[, of {~dataset}]][[, {~source}]][[: {~text\"}]]]]]][[; and {~num_more} more]]\n]]"};
constexpr Layout kDocuments = {
    "text that stands out: [[@documents:[[{follows!}; ]]document {document}[[, of {~dataset}]]"
    "[[, {~source}]] ({num_samples#sample}, loss up to {worst_loss:.4g})]][[; and {num_more} more]]\n"};

struct SpikesOptions {
  std::string run_folder;
  VocabularyOptions vocabulary;
  SpikeOptions spikes;
  ThreadsOption threads;
  int64_t first = 10, num_samples = 3;
  Format format = Format::kText;

  void declare(OptionSet& options) {
    options.text("--run", run_folder, "the training run's folder; the run may go on meanwhile");
    options.integer("--window", spikes.window, "so many iterations before one say what is usual",
                    kFewestBefore);
    options.integer("--threshold", spikes.threshold,
                    "a number this many robust standard deviations above the usual one jumps", 1);
    options.integer("--first", first, "so many iterations at most, the largest jumps first", 1);
    options.integer("--samples", num_samples, "so many samples of each, the largest losses first",
                    1);
    vocabulary.declare(options, "the one in the run's or the dataset's manifest");
    threads.declare(options);
    declare_format(options, format);
  }
  void validate(OptionSet& options) const {
    if (run_folder.empty()) options.problem("--run is required: the folder of a training run");
    vocabulary.validate(options);
  }
};

// The records of samples of each part of a run.
class RunRecords {
 public:
  RunRecords(const RunLosses& run, const VocabularyOptions& vocabulary)
      : run_(run),
        samples_(run.timeline(), print_message),
        names_(dataset_names_of(run.timeline().segments())),
        vocabulary_(vocabulary) {}

  // Throws as RunSamples::find().
  SampleRecords& of_iteration(int64_t iteration) {
    const RunSegment& segment = run_.timeline().segment_of(iteration);
    const std::string& group = find_group(segment.order.blends, Split::kTrain, "").name;
    const TakenSamples* samples = samples_.find(segment, Split::kTrain, group);
    const auto known = records_.find(samples);
    if (known != records_.end()) return known->second;
    const SampleOrder& data = segment.order;
    TokenizerFiles files = vocabulary_.files();
    if (files.empty()) files = data.tokenizer;
    auto vocabulary = find_vocabulary(samples->dataset().dataset(0).reader().prefix(), files);
    SampleRecords records(*samples, std::move(vocabulary), names_);
    return records_.emplace(samples, std::move(records)).first->second;
  }

 private:
  const RunLosses& run_;
  RunSamples samples_;
  DatasetNames names_;
  const VocabularyOptions& vocabulary_;
  std::map<const TakenSamples*, SampleRecords> records_;
};

using Document = std::pair<std::string, int64_t>;  // dataset, number

// Returns the record of the document in most of these samples, with its "dataset"; of several the
// one that is longest in one of them.
Record commonest_of(const std::map<int64_t, Record>& samples) {
  std::map<Document, int64_t> counts;
  for (const auto& [sample_idx, sample] : samples) {
    for (const Record& document : sample["documents"])
      ++counts[{sample["dataset"], document["document"]}];
  }
  Record commonest;
  int64_t largest = 0;
  for (const auto& [sample_idx, sample] : samples) {
    for (const Record& document : sample["documents"]) {
      const int64_t count = counts[{sample["dataset"], document["document"]}];
      if (count <= largest) continue;
      commonest = document;
      commonest["dataset"] = sample["dataset"];
      largest = count;
    }
  }
  return commonest;
}

// Prints one line for the fewest documents that all of these samples have in common, by the greedy
// rule: the one in most of them, then the one in most of the rest. A harmless neighbour in a sample
// is left out.
void print_documents(std::map<int64_t, Record> rest) {
  Record named = Record::array();
  while (!rest.empty()) {
    Record document = commonest_of(rest);
    int64_t num_samples = 0;
    double worst_loss = 0;
    std::erase_if(rest, [&](const auto& entry) {
      const Record& sample = entry.second;
      const bool holds_it = sample["dataset"] == document["dataset"] &&
                            std::ranges::any_of(sample["documents"], [&](const Record& other) {
                              return other["document"] == document["document"];
                            });
      if (!holds_it) return false;
      ++num_samples;
      worst_loss = std::max(worst_loss, sample["loss"].get<double>());
      return true;
    });
    document["num_samples"] = num_samples;
    document["worst_loss"] = worst_loss;
    named.push_back(std::move(document));
  }
  if (named.empty()) return;
  constexpr size_t kMostNamed = 5;
  Record record;
  if (named.size() > kMostNamed) {
    record["num_more"] = named.size() - kMostNamed;
    named.erase(named.begin() + kMostNamed, named.end());
  }
  for (size_t i = 1; i < named.size(); ++i) named[i]["follows"] = true;
  record["documents"] = std::move(named);
  print_record(Format::kText, std::move(record), kDocuments);
}

class InspectSpikesCommand final : public Command {
 public:
  InspectSpikesCommand()
      : Command("inspect spikes",
                "find the iterations whose loss or gradient norm jumps, and the text that did it",
                "weft-data inspect spikes --run checkpoints") {}
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const RunLosses run(options_.run_folder);
    RunRecords records(run, options_.vocabulary);
    const std::vector<Spike> spikes =
        find_spikes(run.steps(), options_.spikes, options_.threads.resolved());
    print_counts(std::ssize(run.steps()), std::ssize(spikes));
    std::vector<Record> jumps;
    for (int64_t i = 0; i < std::min(std::ssize(spikes), options_.first); ++i)
      jumps.push_back(record_of(run, records, spikes[static_cast<size_t>(i)]));
    if (options_.format == Format::kText) print_documents(samples_of(jumps));
    for (Record& jump : jumps) print_record(options_.format, std::move(jump), kIteration);
    std::fflush(stdout);  // the search for other samples may take a while
    std::set<int64_t> told;
    for (const Spike& spike : spikes) told.insert(spike.step.iteration);
    print_others(run, records, told);
    return static_cast<int>(code_);
  }

 private:
  void print_counts(int64_t num_steps, int64_t num_spikes) const {
    if (num_steps <= kFewestBefore) {
      print_message(fmt::format("the run has {} so far; one is judged by {} before it",
                                counted(num_steps, "iteration"), kFewestBefore));
      return;
    }
    print_message(
        fmt::format("{} of {} jump by {:.0f} or more robust standard deviations{}", num_spikes,
                    counted(num_steps, "iteration"), options_.spikes.threshold,
                    num_spikes > options_.first
                        ? fmt::format("; the {} largest are shown (--first)", options_.first)
                        : ""));
  }

  // Returns the samples in these records by their numbers.
  static std::map<int64_t, Record> samples_of(const std::vector<Record>& jumps) {
    std::map<int64_t, Record> samples;
    for (const Record& jump : jumps) {
      for (const Record& sample : jump.value("samples", Record::array()))
        samples[sample["sample"]] = sample;
    }
    return samples;
  }

  // Numbers that are not finite become null in JSON.
  Record record_of(const RunLosses& run, RunRecords& records, const Spike& spike) {
    const LoggedStep& step = spike.step;
    Record record = {
        {"iteration", step.iteration},         {"first_sample", step.first_sample()},
        {"end_sample", step.consumed_samples}, {"lm_loss", step.lm_loss},
        {"usual_loss", spike.usual_loss},      {"loss_z", spike.loss_z},
        {"grad_norm", step.grad_norm},         {"usual_grad_norm", spike.usual_grad_norm},
        {"grad_norm_z", spike.grad_norm_z},    {"~run", options_.run_folder}};
    add_or_tell(record, [&] {
      const Suspects suspects = run.suspects_of(step.iteration, options_.spikes);
      Record samples = Record::array();
      // The documents of others are not named, as --unsee would mask all that are.
      if (!suspects.is_unstable) samples = samples_in(records, suspects, kStandsOut);
      record["suspects_of_iteration"] = suspects.iteration;
      record["suspects_stand_out"] = suspects.stand_out;
      if (suspects.is_unstable) {
        record["likely_cause"] = "update";
        record["~num_standing_out"] = suspects.batch.num_standing_out();
        record["~num_samples"] = suspects.batch.samples.size();
      } else if (!suspects.stand_out) {
        record["~none"] = true;
      } else if (suspects.iteration != step.iteration) {
        record["~before"] = true;
      }
      record["samples"] = std::move(samples);
    });
    return record;
  }

  // Calls `add`, which adds the samples to the record of an iteration. What cannot be known about
  // one iteration does not hide the others: code_ gets its exit code.
  template <typename Add>
  void add_or_tell(Record& record, Add add) {
    try {
      add();
    } catch (const LossesNotKept& error) {
      record["unknown"] = error.what();
    } catch (const std::exception& error) {
      code_ = exit_code_for(error);
      record["unknown"] = error.what();
    }
  }

  // Returns records of the samples that stand out by `least`, with their documents.
  Record samples_in(RunRecords& records, const Suspects& suspects, double least) const {
    SampleRecords& of_run = records.of_iteration(suspects.iteration);
    Record samples = Record::array();
    for (const JudgedSample& sample : suspects.batch.samples) {
      if (!suspects.stand_out || std::ssize(samples) == options_.num_samples ||
          !sample.stands_out(least))
        break;
      Record& record = samples.emplace_back(
          Record{{"sample", sample.sample}, {"loss", sample.loss}, {"z", sample.z}});
      if (sample.share) {
        record["share"] = *sample.share;
        record["~percent"] = 100 * *sample.share;
      }
      of_run.add_documents(record, sample.sample);
    }
    return samples;
  }

  // Prints samples that stand out although their iteration does not jump.
  void print_others(const RunLosses& run, RunRecords& records, const std::set<int64_t>& told) {
    const std::vector<Suspects> others = run.standing_out(
        options_.spikes, told, options_.threads.resolved(), [this](const std::exception& error) {
          code_ = exit_code_for(error);
          print_message(fmt::format("not all samples were looked at: {}", error.what()));
        });
    if (others.empty()) return;
    print_message(
        fmt::format("{} without a jump {} samples that stand out{}",
                    counted(std::ssize(others), "iteration"), others.size() == 1 ? "has" : "have",
                    std::ssize(others) > options_.first
                        ? fmt::format("; the {} largest are shown (--first)", options_.first)
                        : ""));
    for (int64_t i = 0; i < std::min(std::ssize(others), options_.first); ++i) {
      const Suspects& suspects = others[static_cast<size_t>(i)];
      const LoggedStep& step = *run.find_step(suspects.iteration);
      Record record = {{"iteration", step.iteration},
                       {"jumps", false},
                       {"first_sample", step.first_sample()},
                       {"end_sample", step.consumed_samples},
                       {"lm_loss", step.lm_loss},
                       {"usual_loss", suspects.batch.usual_iteration_loss}};
      add_or_tell(record, [&] {
        record["samples"] = samples_in(records, suspects, options_.spikes.threshold);
      });
      print_record(options_.format, std::move(record), kIteration);
    }
  }

  SpikesOptions options_;
  ExitCode code_ = ExitCode::kDone;
};

}  // namespace

std::unique_ptr<Command> make_inspect_spikes_command() {
  return std::make_unique<InspectSpikesCommand>();
}

}  // namespace weft
