// Runs bodies of tests on threads, each of which is a rank.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/indexed_dataset/thread_network.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/ranks/transport_group.h"

namespace weft {

// Runs `body` on as many threads as there are ranks and waits for all of them.
inline void run_ranks(int num_ranks, const std::function<void(HostGroup&)>& body,
                      std::chrono::milliseconds timeout = std::chrono::minutes(5)) {
  ThreadNetwork network(num_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      TransportGroup group(std::make_unique<ThreadTransport>(network, rank),
                           {timeout, [](const std::string& message) {
                              std::fprintf(stderr, "error: %s\n", message.c_str());
                            }});
      body(group);
      group.end();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The same with the communicators of a topology.
inline void run_topology(const Topology& topology,
                         const std::function<void(ProcessGroups&)>& body) {
  run_ranks(topology.world_size(), [&](HostGroup& host) {
    ProcessGroups groups = create_host_process_groups(host, topology);
    body(groups);
  });
}

}  // namespace weft
