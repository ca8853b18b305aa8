// Counts and progress of tasks as JSON: in the journal of a run and in messages between ranks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "preprocess/ledger/ledger_link.h"

namespace weft {

// The from_json functions take hostile input: they throw nlohmann::json::exception or
// std::runtime_error for anything that to_json does not write (a missing or negative number, more
// than kNumShownBadLines lines).
void to_json(nlohmann::json& json, const PipelineTotals& totals);
void from_json(const nlohmann::json& json, PipelineTotals& totals);
void to_json(nlohmann::json& json, const DatasetCounts& counts);
void from_json(const nlohmann::json& json, DatasetCounts& counts);
void to_json(nlohmann::json& json, const BadLine& bad_line);
void from_json(const nlohmann::json& json, BadLine& bad_line);
void to_json(nlohmann::json& json, const TaskCounts& counts);
void from_json(const nlohmann::json& json, TaskCounts& counts);
void to_json(nlohmann::json& json, const StageFile& file);
void from_json(const nlohmann::json& json, StageFile& file);
void to_json(nlohmann::json& json, const TaskProgress& progress);
void from_json(const nlohmann::json& json, TaskProgress& progress);

// The text of {"task": task, "progress": progress}, to the byte what dump_lenient() gives, in a
// fraction of the time: rank 0 writes it to the journal for every task, and each of its states.
std::string progress_json(int64_t task, const TaskProgress& progress);

// The text of a JSON value. Paths and messages may hold any bytes: those that are not UTF-8 are
// replaced, not refused.
std::string dump_lenient(const nlohmann::json& json);

}  // namespace weft
