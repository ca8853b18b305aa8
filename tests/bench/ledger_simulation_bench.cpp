// How far one ledger reaches: runs of 1 to 1600 machines in virtual time, with the ledger's real
// processor time (ledger_simulation.h). Prints the tables of
// results/2026-11-22-last-passes.md.
//
//   weft_ledger_sim [--quick] [--only CASE]
//
// --only runs the cases of that name.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "tests/bench/ledger_simulation.h"

namespace weft {
namespace {

struct Case {
  std::string name;
  SimulatedCluster cluster;
  std::vector<SimulatedTask> tasks;
};

std::string only_case;  // empty: all

void print_case(const Case& each) {
  if (!only_case.empty() && each.name != only_case) return;
  const SimulationResult result = simulate(each.cluster, each.tasks);
  const auto number = [](double value, int digits) {
    return fmt::format("{:.{}f}", value, digits);
  };
  const std::vector<std::string> cells = {
      each.name,
      std::to_string(each.cluster.num_ranks),
      std::to_string(each.tasks.size()),
      number(result.makespan_s, 1),
      number(result.tail_s, 2),
      number(100 * result.tail_s / result.makespan_s, 1),
      number(result.limit_s, 1),
      number(100 * result.idle_share, 0),
      number(100 * result.leader_busy_share, 1),
      number(100 * result.journal_busy_share, 1),
      number(1e6 * result.leader_s_per_task, 1),
      number(1e6 * result.leader_s_per_message, 1),
      number(result.messages_per_s, 0),
      number(1e-6 * static_cast<double>(result.message_bytes) / result.makespan_s, 1),
      number(1e-6 * static_cast<double>(result.journal_bytes), 0),
      number(1e-9 * static_cast<double>(result.spilled_bytes), 0)};
  fmt::print("| {} |\n", fmt::join(cells, " | "));
  std::fflush(stdout);
  for (size_t i = 0; i < std::min<size_t>(result.mistakes.size(), 5); ++i) {
    fmt::print("MISTAKE: {}\n", result.mistakes[i]);
  }
}

std::vector<SimulatedTask> shards(int count, int64_t bytes_each) {
  std::vector<SimulatedTask> tasks;
  for (int i = 0; i < count; ++i) tasks.push_back({{i, i, 0, bytes_each}, bytes_each});
  return tasks;
}

void run_all(bool quick) {
  const int64_t corpus = quick ? 100'000'000'000 : 10'000'000'000'000;
  SimulatedCluster base;
  base.measure_leader = true;
  const auto zstd = [](SimulatedCluster cluster) {
    cluster.decompress_bytes_per_s = 700e6;
    cluster.num_readers = 24;
    return cluster;
  };
  const auto shared = [](SimulatedCluster cluster, double bytes_per_s) {
    cluster.file_system_bytes_per_s = bytes_per_s;
    return cluster;
  };
  const auto with_ranks = [](SimulatedCluster cluster, int count) {
    cluster.num_ranks = count;
    return cluster;
  };
  const auto plain_tasks = even_tasks(corpus, int64_t{32} << 20);
  const auto zstd_tasks = even_tasks(corpus, 3 * (int64_t{32} << 20));  // 32 MiB compressed

  fmt::print(
      "| case | machines | tasks | s | tail s | tail % | limit s | cores idle % | server thread % | journal % | us a "
      "task | us a message | messages/s | MB/s of messages | journal MB | GB spilled |\n|");
  for (int i = 0; i < 16; ++i) fmt::print(" --- |");
  fmt::print("\n");
  print_case({"plain", base, plain_tasks});
  print_case({"plain, file system of 1 TB/s", shared(base, 1e12), plain_tasks});
  print_case({"plain, file system of 100 GB/s", shared(base, 1e11), plain_tasks});
  print_case({"zstd, many frames", zstd(base), zstd_tasks});
  print_case({"zstd, 30 shards of one frame", zstd(base), shards(30, corpus / 30)});
  print_case({"zstd, 3000 shards of one frame", zstd(base), shards(3000, corpus / 3000)});
  for (const int count : {2, 8, 30}) {
    print_case({"the Pile: 30 shards of 28 GB in one zstd frame", zstd(with_ranks(base, count)),
                shards(30, 28'000'000'000)});
  }
  for (const int count : {1, 10, 50, 200, 400, 800, 1600}) {
    if (quick && count > 100) break;
    print_case({"plain", with_ranks(base, count), plain_tasks});
  }
  for (const int64_t mib : {8, 128, 512}) {
    print_case({fmt::format("plain, tasks of {} MiB", mib), with_ranks(base, 400),
                even_tasks(corpus, mib << 20)});
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      weft::only_case = argv[++i];
    } else {
      fmt::print(stderr, "usage: weft_ledger_sim [--quick] [--only CASE]\n");
      return 2;
    }
  }
  weft::run_all(quick);
  return 0;
}
