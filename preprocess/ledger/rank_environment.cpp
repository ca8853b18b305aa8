#include "preprocess/ledger/rank_environment.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace weft {
namespace {

// More ranks than any machine has cores: a larger number is a mistake.
constexpr int64_t kMaxRanks = 1'000'000;

constexpr const char* kHint =
    "; unset what does not belong to this run, or give --ranks off for a process of its own";

struct Value {
  const char* name;
  int64_t number;
  std::string shown() const { return std::string(name) + "=" + std::to_string(number); }
};

// One launcher's word.
struct Claim {
  Value rank;
  Value num_ranks;
  std::string shown() const { return rank.shown() + " with " + num_ranks.shown(); }
};

// The variable as a number of at least `least`; nothing when it is unset or empty.
std::optional<Value> find_number(const FindVariable& find_variable, const char* name,
                                 int64_t least) {
  const std::optional<std::string> text = find_variable(name);
  if (!text || text->empty()) return std::nullopt;
  int64_t number = 0;
  const char* end = text->data() + text->size();
  const auto [stopped_at, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || stopped_at != end || number < least || number > kMaxRanks) {
    throw std::invalid_argument(std::string(name) + "='" + *text + "' in the environment is no " +
                                (least == 0 ? "rank" : "number of ranks") + kHint);
  }
  return Value{name, number};
}

std::optional<Value> first_number(const FindVariable& find_variable,
                                  std::initializer_list<const char*> names, int64_t least) {
  for (const char* name : names) {
    if (const auto value = find_number(find_variable, name, least)) return value;
  }
  return std::nullopt;
}

Claim checked(const Value& rank, const std::optional<Value>& num_ranks) {
  if (!num_ranks) {
    throw std::invalid_argument(
        rank.shown() + " is in the environment, but no variable says of how many ranks" + kHint);
  }
  if (rank.number >= num_ranks->number) {
    throw std::invalid_argument(rank.shown() + " is not below " + num_ranks->shown() + kHint);
  }
  return Claim{rank, *num_ranks};
}

// Slurm numbers the steps of an allocation from 0; batch scripts and interactive shells have ids at
// the upper end of 32 bits, if any (slurm.h: SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP).
bool is_srun_step(const FindVariable& find_variable) {
  const std::optional<std::string> step = find_variable("SLURM_STEP_ID");
  uint64_t id = 0;
  if (!step || step->empty()) return false;
  const char* end = step->data() + step->size();
  const auto [stopped_at, error] = std::from_chars(step->data(), end, id);
  return error == std::errc() && stopped_at == end && id < 0xFFFFFF00u;
}

std::optional<Claim> slurm_claim(const FindVariable& find_variable) {
  if (!is_srun_step(find_variable)) return std::nullopt;
  const auto rank = find_number(find_variable, "SLURM_PROCID", 0);
  if (!rank) return std::nullopt;
  return checked(*rank, first_number(find_variable, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1));
}

// All that launchers say, the innermost first: mpirun inside srun inside a job has the last word.
std::vector<Claim> all_claims(const FindVariable& find_variable) {
  std::vector<Claim> claims;
  const std::optional<Claim> slurm = slurm_claim(find_variable);
  if (const auto rank = find_number(find_variable, "OMPI_COMM_WORLD_RANK", 0)) {
    claims.push_back(checked(*rank, find_number(find_variable, "OMPI_COMM_WORLD_SIZE", 1)));
  }
  if (const auto rank = find_number(find_variable, "PMIX_RANK", 0)) {
    auto size = first_number(find_variable, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1);
    if (!size && slurm) size = slurm->num_ranks;
    claims.push_back(checked(*rank, size));
  }
  if (const auto rank = find_number(find_variable, "PMI_RANK", 0)) {
    claims.push_back(checked(*rank, find_number(find_variable, "PMI_SIZE", 1)));
  }
  if (slurm) claims.push_back(*slurm);
  // Too common as names to be an error on their own.
  if (find_variable("RANK") && find_variable("WORLD_SIZE")) {
    const auto rank = find_number(find_variable, "RANK", 0);
    const auto size = find_number(find_variable, "WORLD_SIZE", 1);
    if (rank && size) claims.push_back(checked(*rank, size));
  }
  return claims;
}

std::string find_launch_id(const FindVariable& find_variable, std::string_view source) {
  const auto text = [&](const char* name) { return find_variable(name).value_or(""); };
  std::string id;
  if (!text("PMIX_NAMESPACE").empty()) {
    id = text("PMIX_NAMESPACE");
  } else if (source.starts_with("RANK")) {
    // Elastic restarts of torchrun keep the id: nothing better is there.
    id = text("TORCHELASTIC_RUN_ID");
  }
  // A requeued job keeps its number and begins its steps anew.
  if (!text("SLURM_JOB_ID").empty()) {
    if (!id.empty()) id += '/';
    id += text("SLURM_JOB_ID");
    // Ranks of mpirun are in a step on the other nodes, but in none on the node of the batch
    // script.
    if (source.starts_with("SLURM")) id.append(".").append(text("SLURM_STEP_ID"));
    if (!text("SLURM_RESTART_COUNT").empty())
      id.append(".restart").append(text("SLURM_RESTART_COUNT"));
  }
  return id;
}

}  // namespace

RankEnvironment find_rank_environment(const FindVariable& find_variable) {
  const std::vector<Claim> claims = all_claims(find_variable);
  if (claims.empty()) return {};
  const Claim& chosen = claims.front();
  for (const Claim& other : claims) {
    // Nested launchers count differently (mpirun's daemons are tasks of Slurm's); the same number
    // of ranks means the same ranks.
    if (other.num_ranks.number == chosen.num_ranks.number && chosen.num_ranks.number > 1 &&
        other.rank.number != chosen.rank.number) {
      throw std::invalid_argument("the environment contradicts itself: " + chosen.shown() +
                                  ", but " + other.shown() + kHint);
    }
  }
  RankEnvironment found;
  found.rank = static_cast<int>(chosen.rank.number);
  found.num_ranks = static_cast<int>(chosen.num_ranks.number);
  found.source = std::string(chosen.rank.name) + " and " + chosen.num_ranks.name;
  found.launch_id = find_launch_id(find_variable, found.source);
  return found;
}

RankEnvironment find_rank_environment() {
  return find_rank_environment([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  });
}

}  // namespace weft
