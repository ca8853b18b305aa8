#include "trainer/profile/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "trainer/profile/nvtx_range.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// A line is an operation, or time of the step that belongs to none.
struct ReportLine {
  std::string what = {};
  ProfileLine line = {};
  std::optional<double> ceiling_ms = {}, gap_ms = {};

  double sort_key() const { return gap_ms.value_or(line.exposed_ms); }
  // Both are rates while the operation runs.
  double tflops() const { return line.calls * line.operation.flops / (line.ms * 1e9); }
  double gb_per_s() const { return line.calls * line.operation.bytes / (line.ms * 1e6); }
};

ReportLine line_without_operation(const char* what, double ms) {
  return {.what = what, .line = {.ms = ms, .exposed_ms = ms}, .ceiling_ms = 0.0, .gap_ms = ms};
}

std::vector<ReportLine> report_lines(const RankProfile& p) {
  std::vector<ReportLine> lines;
  for (const ProfileLine& line : p.profile.lines) {
    ReportLine& report = lines.emplace_back();
    report.what = to_string(line.operation);
    report.line = line;
    if (!p.ceilings && !line.operation.is_collective()) continue;
    report.ceiling_ms = p.ceilings ? line.calls * ceiling_ms(line.operation, *p.ceilings) : 0.0;
    report.gap_ms = line.exposed_ms - *report.ceiling_ms;
  }
  lines.push_back(
      line_without_operation("(idle: nothing to do on the compute stream)", p.profile.idle_ms));
  lines.push_back(line_without_operation("(waits for other streams, no collective ran)",
                                         p.profile.other_wait_ms));
  std::sort(lines.begin(), lines.end(),
            [](const ReportLine& a, const ReportLine& b) { return a.sort_key() > b.sort_key(); });
  return lines;
}

std::string ceilings_line(const RankProfile& p, const std::vector<ReportLine>& lines) {
  if (!p.ceilings) {
    return "  no ceilings: run `weft-train --measure-device` once on this machine; lines come by "
           "their time\n";
  }
  const DeviceCeilings& c = *p.ceilings;
  std::string text = fmt::format(
      "  ceilings of {} by --measure-device, {}: bf16 {:.4g} TF/s, fp32 {:.4g} TF/s, "
      "{}memory {:.4g} GB/s, launch {:.3g} us",
      c.device, c.measured_at, c.bf16_tflops, c.fp32_tflops,
      c.fp8_tflops > 0 ? fmt::format("fp8 {:.4g} TF/s, ", c.fp8_tflops) : "", c.memory_gb_per_s(),
      c.launch_us);
  if (c.power_w)
    text += fmt::format(", {:.0f} W of {:.0f} W", *c.power_w, c.power_limit_w.value_or(0));
  double ceiling_ms = 0;
  for (const ReportLine& line : lines) ceiling_ms += line.ceiling_ms.value_or(0);
  const bool has_fp8 = std::any_of(lines.begin(), lines.end(), [](const ReportLine& line) {
    return line.line.operation.flops > 0 && is_float8(line.line.operation.dtype);
  });
  if (has_fp8 && c.fp8_tflops == 0) {
    text +=
        "\n  the rate of fp8 products was not measured, so their bytes alone count: run "
        "`weft-train --measure-device` again";
  }
  return text + fmt::format("\n  at these ceilings a step would take {:.3f} ms\n", ceiling_ms);
}

std::string cost_of_profile(const RankProfile& p) {
  if (p.unprofiled_ms <= 0) {
    return "  what recording costs is unknown: no step before these could be compared; begin later\n";
  }
  return fmt::format(
      "  these steps took {:.3f} ms, those before them {:.3f} ms: recording costs {:+.1f} %\n",
      p.profiled_ms, p.unprofiled_ms, 100 * (p.profiled_ms / p.unprofiled_ms - 1));
}

double share(double ms, const RankProfile& p) { return 100 * ms / p.profile.step_ms; }

std::string rate_text(double flops, double bytes, bool is_collective, double ms) {
  if (ms <= 0 || (flops == 0 && bytes == 0)) return "";
  if (flops > 0) return fmt::format("{:.4g} TF/s", flops / (ms * 1e9));
  return fmt::format("{:.4g} GB/s{}", bytes / (ms * 1e6), is_collective ? " bus" : "");
}

std::string optional_ms(const std::optional<double>& ms) {
  return ms ? fmt::format("{:.3f}", *ms) : "-";
}

std::string text_of(const ReportLine& line, const RankProfile& p) {
  const Operation& operation = line.line.operation;
  return fmt::format("{:>9} {:>9.3f} {:>6.1f} % {:>10} {:>16} {:>6.5g} {:>9.3f} {:>9.3f}  {}\n",
                     optional_ms(line.gap_ms), line.line.exposed_ms, share(line.line.exposed_ms, p),
                     optional_ms(line.ceiling_ms),
                     rate_text(line.line.calls * operation.flops, line.line.calls * operation.bytes,
                               operation.is_collective(), line.line.ms),
                     line.line.calls, line.line.ms, line.line.idle_before_ms, line.what);
}

// Lines that take less are of no use for what to do next; the JSON has them all.
constexpr double kSmallestShare = 0.1;  // percent

Json json_of(const ReportLine& report, const RankProfile& p) {
  const ProfileLine& line = report.line;
  const auto or_null = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  return {{"operation", report.what},
          {"collective", line.operation.is_collective()},
          {"calls", line.calls},
          {"ms", line.ms},
          {"exposed_ms", line.exposed_ms},
          {"share_percent", share(line.exposed_ms, p)},
          {"idle_before_ms", line.idle_before_ms},
          {"flops", line.calls * line.operation.flops},
          {"bytes", line.calls * line.operation.bytes},
          {"tflops", line.operation.flops > 0 ? Json(report.tflops()) : Json()},
          {"gb_per_s", line.operation.bytes > 0 ? Json(report.gb_per_s()) : Json()},
          {"ceiling_ms", or_null(report.ceiling_ms)},
          {"gap_ms", or_null(report.gap_ms)}};
}

}  // namespace

std::string to_text(const RankProfile& p) {
  const StepProfile& profile = p.profile;
  std::string text = fmt::format(
      "profile of iterations {} to {} on {}: {:.3f} ms a step, {:.3f} ms between steps\n",
      p.first_step, p.last_step, p.device, profile.step_ms, profile.between_steps_ms);
  const std::vector<ReportLine> lines = report_lines(p);
  text += cost_of_profile(p) + ceilings_line(p, lines);
  text +=
      fmt::format("{:>9} {:>9} {:>8} {:>10} {:>16} {:>6} {:>9} {:>9}  {}\n", "gap ms", "of step",
                  "share", "ceiling ms", "rate", "calls", "ms", "idle bef.", "operation");
  ReportLine rest{.ceiling_ms = 0.0, .gap_ms = 0.0};
  int num_small = 0;
  for (const ReportLine& line : lines) {
    if (share(line.line.exposed_ms, p) >= kSmallestShare || line.line.operation.is_collective()) {
      text += text_of(line, p);
      continue;
    }
    ++num_small;
    rest.line.calls += line.line.calls;
    rest.line.ms += line.line.ms;
    rest.line.exposed_ms += line.line.exposed_ms;
    rest.line.idle_before_ms += line.line.idle_before_ms;
    *rest.ceiling_ms += line.ceiling_ms.value_or(0);
    *rest.gap_ms += line.sort_key();
  }
  if (num_small > 0) {
    rest.what =
        fmt::format("({} lines of less than {} % of a step each)", num_small, kSmallestShare);
    text += text_of(rest, p);
  }
  return text;
}

std::string to_json_text(const RankProfile& p) {
  Json json = {{"rank", p.rank},
               {"first_iteration", p.first_step},
               {"last_iteration", p.last_step},
               {"device", p.device},
               {"num_steps", p.profile.num_steps},
               {"step_ms", p.profile.step_ms},
               {"between_steps_ms", p.profile.between_steps_ms},
               {"profiled_ms", p.profiled_ms},
               {"unprofiled_ms", p.unprofiled_ms > 0 ? Json(p.unprofiled_ms) : Json()},
               {"nvtx_ranges", has_nvtx()},
               {"ceilings", p.ceilings ? Json::parse(to_json_text(*p.ceilings)) : Json()},
               {"operations", Json::array()}};
  for (const ReportLine& line : report_lines(p)) json["operations"].push_back(json_of(line, p));
  return json.dump();
}

namespace {

// A RanksLine sums up one operation over all ranks that have it.
struct RanksLine {
  int num_ranks = 0;
  bool is_collective = false, has_gap = true;
  double flops = 0, bytes = 0, gap_ms = 0, exposed_ms = 0;  // sums
  double least_ms = 0, most_ms = 0, sum_ms = 0;
  double sort_key() const { return (has_gap ? gap_ms : exposed_ms) / num_ranks; }

  void add(const Json& json) {
    const double ms = json.at("ms");
    least_ms = num_ranks == 0 ? ms : std::min(least_ms, ms);
    most_ms = std::max(most_ms, ms);
    sum_ms += ms;
    is_collective = json.at("collective");
    has_gap = has_gap && !json.at("gap_ms").is_null();
    if (has_gap) gap_ms += json.at("gap_ms").get<double>();
    exposed_ms += json.at("exposed_ms").get<double>();
    flops += json.at("flops").get<double>();
    bytes += json.at("bytes").get<double>();
    ++num_ranks;
  }
  // A rank that comes late makes a collective longer on the others, so the shortest tells its rate.
  std::string rate() const {
    const double ms = is_collective ? least_ms : sum_ms / num_ranks;
    return rate_text(flops / num_ranks, bytes / num_ranks, is_collective, ms);
  }
};

}  // namespace

std::string to_text_of_ranks(const std::vector<std::string>& ranks) {
  std::map<std::string, RanksLine> by_name;
  RanksLine step;
  int slowest = 0;
  for (const std::string& text : ranks) {
    const Json json = Json::parse(text);
    const double ms = json.at("step_ms");
    if (ms > step.most_ms) slowest = json.at("rank");
    step.least_ms = step.num_ranks == 0 ? ms : std::min(step.least_ms, ms);
    step.most_ms = std::max(step.most_ms, ms);
    step.sum_ms += ms;
    ++step.num_ranks;
    for (const Json& line : json.at("operations")) by_name[line.at("operation")].add(line);
  }
  std::vector<std::pair<std::string, RanksLine>> lines(by_name.begin(), by_name.end());
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
    return a.second.sort_key() > b.second.sort_key();
  });
  const double mean_step_ms = step.sum_ms / step.num_ranks;
  std::string text = fmt::format(
      "profile of {} ranks: {:.3f} ms a step in the mean, {:.3f} to {:.3f} ms, rank {} is the slowest\n",
      step.num_ranks, mean_step_ms, step.least_ms, step.most_ms, slowest);
  text += fmt::format("{:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>16}  {}\n", "gap ms", "of step",
                      "share", "least ms", "mean ms", "most ms", "rate", "operation");
  for (const auto& [name, line] : lines) {
    const double exposed_ms = line.exposed_ms / line.num_ranks;
    if (100 * exposed_ms / mean_step_ms < kSmallestShare && !line.is_collective) continue;
    text += fmt::format(
        "{:>9} {:>9.3f} {:>6.1f} % {:>9.3f} {:>9.3f} {:>9.3f} {:>16}  {}{}\n",
        line.has_gap ? fmt::format("{:.3f}", line.gap_ms / line.num_ranks) : "-", exposed_ms,
        100 * exposed_ms / mean_step_ms, line.least_ms, line.sum_ms / line.num_ranks, line.most_ms,
        line.rate(), name,
        line.num_ranks == step.num_ranks ? "" : fmt::format(" (on {} ranks)", line.num_ranks));
  }
  return text;
}

std::string to_json_document(const std::vector<std::string>& ranks) {
  Json json = {{"format", "weft-profile 1"}, {"ranks", Json::array()}};
  for (const std::string& rank : ranks) json["ranks"].push_back(Json::parse(rank));
  return json.dump(1) + "\n";
}

}  // namespace weft
