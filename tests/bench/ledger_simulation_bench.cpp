// How far one ledger reaches: runs of 1 to 1600 machines in virtual time, with the ledger's real
// processor time (ledger_simulation.h). Prints the tables of
// results/2026-11-21-ledger-simulation.md.
//
//   weft_ledger_sim [--sockets] [--quick] [--only CASE]
//
// --sockets first measures what a request costs rank 0's server thread beside the ledger itself: 32
// clients over loopback, in a process of their own. --only runs the cases of that name.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "preprocess/ledger/coordinator_file.h"
#include "preprocess/ledger/ledger_client.h"
#include "preprocess/ledger/ledger_server.h"
#include "tests/bench/ledger_simulation.h"

namespace weft {
namespace {

constexpr int kNumClients = 32;

double processor_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Seconds of processor a request takes, with an `answer` that does nothing.
double socket_cost_s() {
  constexpr int kRequestsEach = 2000;
  std::string folder = (std::filesystem::temp_directory_path() / "weft-sim.XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp");
  // Forked before there are threads; it waits for the address as any rank does.
  const pid_t clients = ::fork();
  if (clients == 0) {
    std::vector<std::thread> threads;
    for (int rank = 1; rank <= kNumClients; ++rank) {
      threads.emplace_back([&, rank] {
        LedgerClientOptions options;
        options.folder = folder;
        options.rank = rank;
        options.num_ranks = kNumClients + 1;
        LedgerClient client(options);
        LedgerRequest request;
        while (++request.number <= kRequestsEach) client.exchange(request);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ::_exit(0);
  }
  LedgerServerOptions options;
  options.secret = make_run_secret();
  options.address = "127.0.0.1";
  options.num_ranks = kNumClients + 1;
  options.answer = [](int, const LedgerRequest&) { return LedgerReply{}; };
  options.rank_lost = [](int) {};
  double spent_s = 0;
  {
    LedgerServer server(options);
    publish_coordinator(folder, {"", "", server.addresses(), server.port(), options.secret});
    const double before_s = processor_s();
    server.wait_until_all_left(std::chrono::steady_clock::now() + std::chrono::minutes(5));
    spent_s = processor_s() - before_s;
  }
  ::waitpid(clients, nullptr, 0);
  std::filesystem::remove_all(folder);
  return spent_s / (kNumClients * kRequestsEach);
}

struct Case {
  std::string name;
  SimulatedCluster cluster;
  std::vector<SimulatedTask> tasks;
  std::vector<SimulatedFailure> failures;
};

std::string only_case;  // empty: all

void print_case(const Case& each) {
  if (!only_case.empty() && each.name != only_case) return;
  const SimulationResult result = simulate(each.cluster, each.tasks, each.failures);
  const auto number = [](double value, int digits) {
    return fmt::format("{:.{}f}", value, digits);
  };
  const std::vector<std::string> cells = {
      each.name,
      std::to_string(each.cluster.num_ranks),
      std::to_string(each.tasks.size()),
      number(result.makespan_s, 1),
      number(result.limit_s, 1),
      number(100 * result.idle_share, 0),
      number(100 * result.leader_busy_share, 1),
      number(100 * result.journal_busy_share, 1),
      number(1e6 * result.leader_s_per_task, 1),
      number(1e6 * result.leader_s_per_message, 1),
      number(result.messages_per_s, 0),
      number(1e-6 * static_cast<double>(result.message_bytes) / result.makespan_s, 1),
      number(1e-6 * static_cast<double>(result.journal_bytes), 0),
      number(1e-9 * static_cast<double>(result.staged_bytes), 0),
      number(1e-9 * result.bytes_done_twice, 1)};
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

void run_all(double socket_s, bool quick) {
  const int64_t corpus = quick ? 100'000'000'000 : 10'000'000'000'000;
  SimulatedCluster base;
  base.measure_leader = true;
  base.leader_message_s = socket_s;
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
  std::vector<SimulatedFailure> failures;
  for (int i = 1; i <= 10; ++i) failures.push_back({8.0 * i, 7 * i, i % 2 == 0 ? 60.0 : 10.0});

  fmt::print(
      "| case | machines | tasks | s | limit s | cores idle % | server thread % | journal % | us a "
      "task | us a message | messages/s | MB/s of messages | journal MB | GB staged | GB done "
      "twice "
      "|\n|");
  for (int i = 0; i < 15; ++i) fmt::print(" --- |");
  fmt::print("\n");
  print_case({"plain", base, plain_tasks, {}});
  print_case({"plain, file system of 1 TB/s", shared(base, 1e12), plain_tasks, {}});
  print_case({"plain, file system of 100 GB/s", shared(base, 1e11), plain_tasks, {}});
  print_case({"zstd, many frames", zstd(base), zstd_tasks, {}});
  print_case({"zstd, 30 shards of one frame", zstd(base), shards(30, corpus / 30), {}});
  print_case({"zstd, 3000 shards of one frame", zstd(base), shards(3000, corpus / 3000), {}});
  print_case(
      {"plain, 100 GB/s, 5 machines killed, 5 frozen", shared(base, 1e11), plain_tasks, failures});
  print_case({"zstd frames, 100 GB/s, the same", shared(zstd(base), 1e11), zstd_tasks, failures});
  for (const int count : {2, 8, 30}) {
    print_case({"the Pile: 30 shards of 28 GB in one zstd frame",
                zstd(with_ranks(base, count)),
                shards(30, 28'000'000'000),
                {}});
  }
  for (const int count : {1, 10, 50, 200, 400, 800, 1600}) {
    if (quick && count > 100) break;
    print_case({"plain", with_ranks(base, count), plain_tasks, {}});
  }
  for (const int64_t mib : {8, 128, 512}) {
    print_case({fmt::format("plain, tasks of {} MiB", mib),
                with_ranks(base, 400),
                even_tasks(corpus, mib << 20),
                {}});
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  bool sockets = false, quick = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--sockets") == 0) {
      sockets = true;
    } else if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      weft::only_case = argv[++i];
    } else {
      fmt::print(stderr, "usage: weft_ledger_sim [--sockets] [--quick] [--only CASE]\n");
      return 2;
    }
  }
  double socket_s = 20e-6;
  if (sockets) socket_s = weft::socket_cost_s();
  fmt::print("sockets: {:.1f} us of processor a request ({})\n\n", 1e6 * socket_s,
             sockets ? "measured, 32 clients" : "assumed");
  weft::run_all(socket_s, quick);
  return 0;
}
