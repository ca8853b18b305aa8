// A run of many ranks in virtual time: the real Ledger and the real bytes of its messages, with
// readers, workers, disks and networks as rates. Ranks follow preprocess/rank/rank.cpp: so many
// readers, one task each; results without a place are held, then spilled; progress is synced and
// told once a second; requests go out when there is news, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "preprocess/ledger/ledger_link.h"

namespace weft {

struct SimulatedCluster {
  int num_ranks = 100;
  int num_workers = 96;                   // cores of a rank
  double tokenize_bytes_per_s = 200e6;    // of text, one core
  double decompress_bytes_per_s = 0;      // of text, one core, one stream; 0: plain text
  double rank_read_bytes_per_s = 12.5e9;  // of text: network of one machine
  double rank_write_bytes_per_s = 5e9;    // for spilled tokens to their places
  // The bytes of all ranks together: text that is read, tokens that are written and read back.
  double file_system_bytes_per_s = 1e18;
  double one_way_s = 50e-6;  // of a message
  double leader_message_s =
      20e-6;                    // of rank 0's thread that answers, for one request, MPI included
  bool measure_leader = false;  // add the time that the ledger really took (else not deterministic)
  int64_t max_held_bytes_per_worker = int64_t{24} << 20;
  int64_t max_spilled_bytes = INT64_MAX;  // Ledger::Limits::max_spill_bytes
  double sync_interval_s = 1, exchange_interval_s = 0.1, journal_interval_s = 2;
  int num_readers = 8;
  double check_bytes_per_s = 2e9;   // read back, hashed and compared by one core
  double index_sync_s = 0.02;       // of a part of the index, when it is complete
  double prepare_s = 0.05;          // rank 0 behind the last task: sizes, headers, syncs
  double commit_s = 0.05;           // rank 0 at the end: checksums' file, manifest, names
  double give_up_after_s = 20'000;  // a run that is not done by then never will be: a mistake
};

struct SimulatedTask {
  Task task;
  int64_t text_bytes = 0;
};

struct SimulationResult {
  double makespan_s = 0;  // with the commit
  double tail_s = 0;      // from when the last task is durable
  // The time if the most loaded of cores, network cards and file system were busy throughout.
  double limit_s = 0;
  double idle_share = 0;          // of the cores of living ranks
  double leader_busy_share = 0;   // of one core of rank 0: its server thread
  double journal_busy_share = 0;  // likewise: making the journal's lines, in another thread
  double leader_s_per_task = 0, leader_s_per_message = 0;
  double messages_per_s = 0;
  int64_t num_messages = 0, message_bytes = 0, journal_bytes = 0;
  int64_t spilled_bytes = 0, peak_spilled_bytes = 0;  // written in all; at a time
  // Checks: every task done once, all offsets right, the end as if one rank had done everything.
  std::vector<std::string> mistakes;
};

SimulationResult simulate(const SimulatedCluster& cluster, const std::vector<SimulatedTask>& tasks);

// Plain text, or files with many frames: cut into tasks of `task_bytes` of text.
std::vector<SimulatedTask> even_tasks(int64_t corpus_bytes, int64_t task_bytes);

}  // namespace weft
