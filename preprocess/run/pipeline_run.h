// One run of the pipeline: what run_pipeline() does, in three files: pipeline.cpp (the ranks and
// their work), pipeline_work.cpp (finished and unfinished work of earlier runs),
// pipeline_commit.cpp (from written documents to datasets).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "preprocess/datasets/source_map.h"
#include "preprocess/ledger/journal.h"
#include "preprocess/ledger/local_ledger.h"
#include "preprocess/ledger/work_plan.h"
#include "preprocess/run/pipeline.h"
#include "preprocess/run/rank.h"
#include "preprocess/run/run_files.h"
#include "preprocess/run/work_folder.h"

namespace weft {

class PipelineRun {
 public:
  PipelineRun(const PipelineConfig& config, std::shared_ptr<const Vocabulary> vocabulary,
              const PipelineEvents& events)
      : config_(config),
        vocabulary_(std::move(vocabulary)),
        events_(events),
        work_prefix_(config.work_prefix.empty() ? config.output_prefixes.at(0)
                                                : config.work_prefix),
        folder_(work_folder(work_prefix_)) {}

  PipelineReport run();

 private:
  void plan();
  PipelineReport lead();
  PipelineReport follow();
  bool stop_requested() const { return events_.stop_requested && events_.stop_requested(); }
  void check_file_system() const;
  void resume_commit();
  bool find_finished();
  bool is_hash_of_finished(const std::string& hash) const;
  void check_outputs_are_free() const;
  std::string origin_of_finished(const std::filesystem::path& prefix) const;
  void compare_ranks() const;
  std::string publish_work_folder() const;
  void check_sees_work_folder(const std::string& word) const;
  std::optional<Journal::Content> find_work();
  bool is_work_of_use() const noexcept;
  void check_work_is_ours(const std::optional<Journal::Content>& work) const;
  int64_t need_bytes() const;
  Ledger::Limits ledger_limits() const;
  Ledger restored_ledger(const std::optional<Journal::Content>& work, const Ledger::Limits& limits);
  void work(RunFiles& files, const std::shared_ptr<LocalLedger>& local_ledger);
  void end_work_of_all(LocalLedger& local_ledger, RunFailure failure);
  void on_round(LocalLedger& ledger);
  void report_inputs(const Ledger& ledger);
  void note_input_parts(const Ledger& ledger);
  void check_any_document() const;
  void check_inputs_have_not_changed() const;
  void complete_last_passes(RunFiles& files, LocalLedger& local_ledger);
  void commit(RunFiles& files, LocalLedger& local_ledger);
  void check_stop_at_end() const;
  RankSettings rank_settings() const;
  std::vector<std::string> input_names() const;
  TokenType type() const { return token_type(config_.rules, vocabulary_->size()); }
  void note(const std::string& text) const {
    if (events_.on_note) events_.on_note(text);
  }

  const PipelineConfig& config_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  const PipelineEvents& events_;
  std::filesystem::path work_prefix_, folder_;
  WorkPlan plan_;
  std::string identity_;
  PipelineReport report_;
  InputParts input_parts_;  // of a part of the work
  int64_t num_inputs_begun_ = 0;
  bool has_prepared_files_ = false;
};

}  // namespace weft
