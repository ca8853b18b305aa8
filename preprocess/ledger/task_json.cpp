#include "preprocess/ledger/task_json.h"

#include <array>
#include <charconv>
#include <concepts>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "preprocess/datasets/json_integer.h"

namespace weft {
namespace {

using Json = nlohmann::json;

int64_t count_at(const Json& json, const char* name) {
  const auto value = json_integer(json.at(name));
  if (value < 0) throw std::runtime_error(std::string(name) + " is negative");
  return value;
}

}  // namespace

void to_json(Json& json, const PipelineTotals& totals) {
  json = {{"file_bytes", totals.num_file_bytes},
          {"bytes", totals.num_bytes},
          {"lines", totals.num_lines},
          {"documents", totals.num_documents},
          {"empty", totals.num_empty_documents},
          {"tokens", totals.num_tokens},
          {"surrogates", totals.num_replaced_surrogates},
          {"bad", totals.bad_lines.by_problem}};
}

void from_json(const Json& json, PipelineTotals& totals) {
  totals.num_file_bytes = count_at(json, "file_bytes");
  totals.num_bytes = count_at(json, "bytes");
  totals.num_lines = count_at(json, "lines");
  totals.num_documents = count_at(json, "documents");
  totals.num_empty_documents = count_at(json, "empty");
  totals.num_tokens = count_at(json, "tokens");
  totals.num_replaced_surrogates = count_at(json, "surrogates");
  const Json& bad = json.at("bad");
  if (!bad.is_array() || bad.size() != kNumLineProblems) {
    throw std::runtime_error("bad lines are not counted by reason");
  }
  for (size_t i = 0; i < kNumLineProblems; ++i) {
    totals.bad_lines.by_problem[i] = json_integer(bad[i]);
    if (totals.bad_lines.by_problem[i] < 0) throw std::runtime_error("a count is negative");
  }
}

void to_json(Json& json, const DatasetCounts& counts) {
  json = {counts.num_documents, counts.num_sequences, counts.num_tokens};
}

void from_json(const Json& json, DatasetCounts& counts) {
  if (!json.is_array() || json.size() != 3) throw std::runtime_error("no counts of a dataset");
  counts = {json_integer(json[0]), json_integer(json[1]), json_integer(json[2])};
  if (counts.num_documents < 0 || counts.num_sequences < 0 || counts.num_tokens < 0) {
    throw std::runtime_error("a count is negative");
  }
}

void to_json(Json& json, const BadLine& bad_line) {
  json = {{"line", bad_line.line_number},
          {"offset", bad_line.offset_bytes},
          {"problem", static_cast<int>(bad_line.outcome.problem)},
          {"detail", bad_line.outcome.detail},
          {"position", bad_line.outcome.position},
          {"hint", bad_line.hint}};
}

void from_json(const Json& json, BadLine& bad_line) {
  bad_line.line_number = count_at(json, "line");
  bad_line.offset_bytes = count_at(json, "offset");
  const int64_t problem = count_at(json, "problem");
  if (problem >= kNumLineProblems) throw std::runtime_error("a line problem that is none");
  bad_line.outcome.problem = static_cast<LineProblem>(problem);
  bad_line.outcome.detail = json.at("detail").get<std::string>();
  bad_line.outcome.position = static_cast<size_t>(count_at(json, "position"));
  bad_line.hint = json.value("hint", "");
}

void to_json(Json& json, const TaskCounts& counts) {
  json = {{"totals", counts.totals},
          {"datasets", counts.datasets},
          {"bad_lines", counts.bad_lines},
          {"range_bytes", counts.num_range_bytes}};
}

void from_json(const Json& json, TaskCounts& counts) {
  counts.totals = json.at("totals").get<PipelineTotals>();
  counts.datasets = json.at("datasets").get<std::vector<DatasetCounts>>();
  counts.bad_lines = json.at("bad_lines").get<std::vector<BadLine>>();
  if (counts.bad_lines.size() > kNumShownBadLines) {
    throw std::runtime_error("more bad lines than are shown");
  }
  counts.num_range_bytes = count_at(json, "range_bytes");
}

void to_json(Json& json, const StageFile& file) { json = {file.writer, file.num_bytes}; }

void from_json(const Json& json, StageFile& file) {
  if (!json.is_array() || json.size() != 2) throw std::runtime_error("no stage file");
  file = {json_integer(json[0]), json_integer(json[1])};
  if (file.writer < 0 || file.num_bytes < 0 || file.num_bytes > kMaxStageBytes) {
    throw std::runtime_error("no stage file");
  }
}

void to_json(Json& json, const TaskProgress& progress) {
  json = {{"counts", progress.counts},
          {"next_offset", progress.next_offset_bytes},
          {"stage", progress.stage},
          {"before_stage", progress.before_stage},
          {"is_read", progress.is_read}};
}

void from_json(const Json& json, TaskProgress& progress) {
  progress.counts = json.at("counts").get<TaskCounts>();
  progress.next_offset_bytes = count_at(json, "next_offset");
  progress.stage = json.at("stage").get<std::vector<StageFile>>();
  progress.before_stage = json.at("before_stage").get<std::vector<DatasetCounts>>();
  progress.is_read = json.at("is_read").get<bool>();
}

std::string dump_lenient(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

// Numbers and names one after another: a tree of nlohmann's is slower by an order of magnitude.
class JsonText {
 public:
  JsonText& operator<<(std::string_view text) {
    text_ += text;
    return *this;
  }
  template <std::integral T>
  JsonText& operator<<(T number) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    text_.append(digits.data(), end);
    return *this;
  }
  // Each of `values`, with commas between them.
  template <typename Values, typename Use>
  JsonText& list(const Values& values, const Use& use) {
    *this << "[";
    bool is_first = true;
    for (const auto& value : values) {
      if (!is_first) *this << ",";
      is_first = false;
      use(value);
    }
    return *this << "]";
  }
  JsonText& operator<<(const std::vector<DatasetCounts>& datasets) {
    return list(datasets, [this](const DatasetCounts& counts) {
      *this << "[" << counts.num_documents << "," << counts.num_sequences << ","
            << counts.num_tokens << "]";
    });
  }
  JsonText& operator<<(const PipelineTotals& totals) {
    *this << R"({"bad":)";
    list(totals.bad_lines.by_problem, [this](int64_t count) { *this << count; });
    return *this << R"(,"bytes":)" << totals.num_bytes << R"(,"documents":)" << totals.num_documents
                 << R"(,"empty":)" << totals.num_empty_documents << R"(,"file_bytes":)"
                 << totals.num_file_bytes << R"(,"lines":)" << totals.num_lines
                 << R"(,"surrogates":)" << totals.num_replaced_surrogates << R"(,"tokens":)"
                 << totals.num_tokens << "}";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string progress_json(int64_t task, const TaskProgress& progress) {
  const TaskCounts& counts = progress.counts;
  JsonText text;
  text << R"({"progress":{"before_stage":)" << progress.before_stage
       << R"(,"counts":{"bad_lines":)";
  // Few, and of any text.
  text.list(counts.bad_lines, [&](const BadLine& line) { text << dump_lenient(Json(line)); });
  text << R"(,"datasets":)" << counts.datasets << R"(,"range_bytes":)" << counts.num_range_bytes
       << R"(,"totals":)" << counts.totals << R"(},"is_read":)"
       << (progress.is_read ? "true" : "false") << R"(,"next_offset":)"
       << progress.next_offset_bytes << R"(,"stage":)";
  text.list(progress.stage, [&](const StageFile& file) {
    text << "[" << file.writer << "," << file.num_bytes << "]";
  });
  text << R"(},"task":)" << task << "}";
  return text.take();
}

}  // namespace weft
