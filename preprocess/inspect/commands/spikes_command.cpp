// weft-data inspect spikes finds the iterations of a run whose loss or gradient norm jumps, and
// names the samples and documents that carry each jump.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/run_record/sample_query.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/commands/sample_documents.h"
#include "preprocess/inspect/lookup/run_readings.h"
#include "preprocess/inspect/losses/run_losses.h"
#include "preprocess/inspect/text/prefix_options.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

struct SpikesOptions {
  std::string run_folder;
  VocabularyOptions vocabulary;
  SpikeOptions spikes;
  ThreadsOption threads;
  int64_t first = 10, num_samples = 3;
  bool as_json = false;

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
    declare_format(options, as_json);
  }
  void validate(OptionSet& options) const {
    if (run_folder.empty()) options.problem("--run is required: the folder of a training run");
    vocabulary.validate(options);
  }
};

// "9.81 (usual 6.02, z 38.1)"
std::string number_text(double value, double usual, double z) {
  return fmt::format("{:.4g} (usual {:.4g}, z {:.1f})", value, usual, z);
}

// Words for the samples of each part of a run.
class RunDocuments {
 public:
  RunDocuments(const RunLosses& run, const VocabularyOptions& vocabulary)
      : run_(run),
        samples_(run.timeline(), print_message),
        names_(dataset_names_of(run.timeline().segments())),
        vocabulary_(vocabulary) {}

  // Throws as RunSamples::find().
  SampleDocuments& of_iteration(int64_t iteration) {
    const RunSegment& segment = run_.timeline().segment_of(iteration);
    const std::string& group = find_group(segment.order.blends, Split::kTrain, "").name;
    const TakenSamples* samples = samples_.find(segment, Split::kTrain, group);
    const auto known = documents_.find(samples);
    if (known != documents_.end()) return known->second;
    const SampleOrder& data = segment.order;
    TokenizerFiles files = vocabulary_.files();
    if (files.empty()) files = gpt2_files(data.vocab_file, data.merge_file);
    auto vocabulary = find_vocabulary(samples->dataset().dataset(0).reader().prefix(), files);
    SampleDocuments documents(*samples, std::move(vocabulary), names_);
    return documents_.emplace(samples, std::move(documents)).first->second;
  }

 private:
  const RunLosses& run_;
  RunSamples samples_;
  DatasetNames names_;
  const VocabularyOptions& vocabulary_;
  std::map<const TakenSamples*, SampleDocuments> documents_;
};

// A jump and what is known about its samples.
struct Finding {
  Spike spike;
  std::optional<Suspects> suspects;
  std::string unknown;  // why there are none
};

class InspectSpikesCommand final : public Command {
 public:
  InspectSpikesCommand()
      : Command("inspect spikes",
                "find the iterations whose loss or gradient norm jumps, and the text that did it") {
  }
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const RunLosses run(options_.run_folder);
    RunDocuments documents(run, options_.vocabulary);
    const std::vector<Spike> spikes =
        find_spikes(run.steps(), options_.spikes, options_.threads.resolved());
    print_counts(std::ssize(run.steps()), std::ssize(spikes));
    ExitCode code = ExitCode::kDone;
    std::vector<Finding> findings;
    for (int64_t i = 0; i < std::min(std::ssize(spikes), options_.first); ++i)
      findings.push_back(finding_of(run, documents, spikes[static_cast<size_t>(i)], code));
    if (!options_.as_json) print_documents(documents, findings);
    for (const Finding& finding : findings)
      options_.as_json ? print_json(documents, finding) : print_text(documents, finding);
    return static_cast<int>(code);
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

  // A jump about which something cannot be known does not hide the others: `code` gets its exit
  // code.
  Finding finding_of(const RunLosses& run, RunDocuments& documents, const Spike& spike,
                     ExitCode& code) const {
    Finding finding{.spike = spike, .suspects = {}, .unknown = {}};
    try {
      finding.suspects = run.suspects_of(spike.step.iteration, options_.spikes);
      documents.of_iteration(finding.suspects->iteration);
    } catch (const LossesNotKept& error) {
      finding.unknown = error.what();
    } catch (const std::exception& error) {
      code = exit_code_for(error);
      finding.suspects.reset();
      finding.unknown = error.what();
    }
    return finding;
  }

  // Returns the samples that stand out. The documents of others are not named, as --unsee would
  // mask all that are.
  std::vector<JudgedSample> shown_of(const Suspects& suspects) const {
    std::vector<JudgedSample> shown;
    if (!suspects.stand_out) return shown;
    for (const JudgedSample& sample : suspects.batch.samples) {
      if (std::ssize(shown) == options_.num_samples || sample.z < kStandsOut) break;
      shown.push_back(sample);
    }
    return shown;
  }

  using DocumentsBySample = std::map<int64_t, std::vector<SampleDocuments::Document>>;

  // One line for the fewest documents that all samples which stand out have in common, by the
  // greedy rule: the one in most of them, then the one in most of the rest. A harmless neighbour in
  // a sample is left out.
  void print_documents(RunDocuments& run, const std::vector<Finding>& findings) const {
    std::map<int64_t, double> losses;  // by sample
    DocumentsBySample rest;
    for (const Finding& finding : findings) {
      if (!finding.suspects || !finding.suspects->stand_out) continue;
      SampleDocuments& documents = run.of_iteration(finding.suspects->iteration);
      for (const JudgedSample& sample : shown_of(*finding.suspects)) {
        losses[sample.sample] = sample.loss;
        rest[sample.sample] = documents.documents_of(sample.sample);
      }
    }
    std::vector<std::string> named;
    while (!rest.empty()) {
      const SampleDocuments::Document document = commonest_of(rest);
      int64_t num_samples = 0;
      double worst_loss = 0;
      std::erase_if(rest, [&](const auto& sample) {
        const auto& [sample_idx, documents] = sample;
        if (std::find(documents.begin(), documents.end(), document) == documents.end())
          return false;
        ++num_samples;
        worst_loss = std::max(worst_loss, losses.at(sample_idx));
        return true;
      });
      named.push_back(fmt::format("{} ({}, loss up to {:.4g})", document.text,
                                  counted(num_samples, "sample"), worst_loss));
    }
    constexpr size_t kMostNamed = 5;
    const size_t num_more = named.size() - std::min(named.size(), kMostNamed);
    named.resize(named.size() - num_more);
    if (num_more > 0) named.push_back(fmt::format("and {} more", num_more));
    if (!named.empty()) fmt::print("text that stands out: {}\n", fmt::join(named, "; "));
  }

  // Returns the document in most of the samples; of several the one that is longest in one of them.
  static SampleDocuments::Document commonest_of(const DocumentsBySample& samples) {
    std::map<std::pair<std::string, int64_t>, int64_t> counts;
    for (const auto& [sample_idx, documents] : samples) {
      for (const SampleDocuments::Document& document : documents)
        ++counts[{document.prefix, document.document_idx}];
    }
    const SampleDocuments::Document* commonest = nullptr;
    int64_t largest = 0;
    for (const auto& [sample_idx, documents] : samples) {
      for (const SampleDocuments::Document& document : documents) {
        const int64_t count = counts[{document.prefix, document.document_idx}];
        if (count <= largest) continue;
        commonest = &document;
        largest = count;
      }
    }
    return *commonest;
  }

  void print_text(RunDocuments& run, const Finding& finding) const {
    print_numbers(finding.spike);
    if (!finding.suspects) {
      fmt::print("  its samples are not told: {}\n", escape_for_terminal(finding.unknown));
      return;
    }
    const Suspects& suspects = *finding.suspects;
    if (!suspects.stand_out) {
      fmt::print(
          "  no sample stands out, nor in the iteration before (weft-data inspect samples --run {} "
          "--iteration {} --sort loss shows the largest losses)\n",
          escape_for_terminal(options_.run_folder), suspects.iteration);
    } else if (suspects.iteration != finding.spike.step.iteration) {
      fmt::print(
          "  none of its samples stands out, but these of iteration {}, whose update came "
          "before:\n",
          suspects.iteration);
    }
    SampleDocuments& documents = run.of_iteration(suspects.iteration);
    for (const JudgedSample& sample : shown_of(suspects))
      fmt::print("  {}; {}\n", text_of(sample), documents.line_of(sample.sample));
  }

  void print_json(RunDocuments& run, const Finding& finding) const {
    Json json = json_of(finding.spike);
    if (!finding.suspects) {
      json["unknown"] = finding.unknown;
      return print_line(json);
    }
    json["suspects_of_iteration"] = finding.suspects->iteration;
    json["suspects_stand_out"] = finding.suspects->stand_out;
    json["samples"] = Json::array();
    for (const JudgedSample& sample : shown_of(*finding.suspects)) {
      json["samples"].push_back(json_of(sample));
      run.of_iteration(finding.suspects->iteration).add_to(json["samples"].back(), sample.sample);
    }
    print_line(json);
  }

  static std::string text_of(const JudgedSample& sample) {
    std::string text =
        fmt::format("sample {}: loss {:.4g}, z {:.1f}", sample.sample, sample.loss, sample.z);
    if (sample.share) text += fmt::format(", {:.0f} % of the jump", 100 * *sample.share);
    return text;
  }
  static Json json_of(const JudgedSample& sample) {
    Json json = {{"sample", sample.sample}, {"loss", sample.loss}, {"z", sample.z}};
    if (sample.share) json["share"] = *sample.share;
    return json;
  }
  static void print_numbers(const Spike& spike) {
    const LoggedStep& step = spike.step;
    fmt::print("iteration {}: lm loss {}, grad norm {}, samples {} to {}\n", step.iteration,
               number_text(step.lm_loss, spike.usual_loss, spike.loss_z),
               number_text(step.grad_norm, spike.usual_grad_norm, spike.grad_norm_z),
               step.first_sample(), step.consumed_samples);
  }
  // Numbers that are not finite become null.
  static Json json_of(const Spike& spike) {
    const LoggedStep& step = spike.step;
    return {{"iteration", step.iteration},         {"first_sample", step.first_sample()},
            {"end_sample", step.consumed_samples}, {"lm_loss", step.lm_loss},
            {"usual_loss", spike.usual_loss},      {"loss_z", spike.loss_z},
            {"grad_norm", step.grad_norm},         {"usual_grad_norm", spike.usual_grad_norm},
            {"grad_norm_z", spike.grad_norm_z}};
  }

  SpikesOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_spikes_command() {
  return std::make_unique<InspectSpikesCommand>();
}

}  // namespace weft
