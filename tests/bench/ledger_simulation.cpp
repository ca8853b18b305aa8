#include "tests/bench/ledger_simulation.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include "preprocess/ledger/journal.h"
#include "preprocess/ledger/ledger.h"
#include "preprocess/ledger/ledger_messages.h"
#include "tests/preprocess/ledger/zeros_crc.h"

namespace weft {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;
// GPT-2's ids take 2 bytes, and English text 4.3 bytes a token.
int64_t token_bytes(int64_t text_bytes) { return text_bytes / 2; }
// One plain stream: about what one reader thread copies and cuts.
constexpr double kPlainStreamBytesPerS = 2.4e9;
// A byte of text is read, and half a byte of tokens is written for it.
constexpr double kFileSystemBytesPerTextByte = 1.5;
// Completing the index reads and writes so many bytes a document.
constexpr int64_t kIndexReadBytes = 4 + 8 + 12, kIndexWrittenBytes = 16;

// Everything that is written is zeros. Most tasks are of one size.
WrittenChecksums written_of(const DatasetCounts& counts) {
  static std::map<int64_t, WrittenChecksums> known;
  const auto [at, is_new] = known.try_emplace(counts.num_tokens);
  if (is_new) {
    at->second = {crc_of_zeros(2 * counts.num_tokens), crc_of_zeros(4 * counts.num_sequences),
                  crc_of_zeros(4 * counts.num_documents), crc_of_zeros(12 * counts.num_documents)};
  }
  return at->second;
}

LastPassResult result_of(const LastPassPart& part) {
  LastPassResult result{part.number, {}, {}};
  if (part.kind != LastPassPart::Kind::kIndex) {
    int64_t begin = part.begin_bytes;
    for (const int64_t cut : part.cuts) {
      result.checksums.push_back(crc_of_zeros(cut - std::exchange(begin, cut)));
    }
    result.checksums.push_back(crc_of_zeros(part.end_bytes - begin));
    result.block_hashes.resize(static_cast<size_t>(
        (part.end_bytes - part.begin_bytes + kChecksumBlockBytes - 1) / kChecksumBlockBytes));
    return result;
  }
  const auto between = [](const DatasetOffset& from, const DatasetOffset& to) {
    return DatasetCounts{to.before.num_documents - from.before.num_documents,
                         to.before.num_sequences - from.before.num_sequences,
                         to.before.num_tokens - from.before.num_tokens};
  };
  for (size_t i = 0; i + 1 < part.offsets.size(); ++i) {
    const WrittenChecksums written = written_of(between(part.offsets[i], part.offsets[i + 1]));
    for (const Crc32& crc : {written.lengths, written.documents, written.sources}) {
      result.checksums.push_back(crc);
    }
  }
  const DatasetCounts all = between(part.offsets.front(), part.offsets.back());
  for (const int64_t num_bytes :
       {8 * all.num_sequences, 8 * all.num_documents, 12 * all.num_documents}) {
    result.checksums.push_back(crc_of_zeros(num_bytes));
  }
  return result;
}

TaskCounts counts_of(int64_t text_bytes) {
  TaskCounts counts;
  const int64_t num_documents = text_bytes / 4096, num_tokens = text_bytes / 4;
  counts.totals.num_bytes = counts.num_range_bytes = text_bytes;
  counts.totals.num_lines = counts.totals.num_documents = num_documents;
  counts.totals.num_tokens = num_tokens;
  counts.datasets = {{num_documents, num_documents, num_tokens}};
  counts.written = {written_of(counts.datasets[0])};
  return counts;
}

double thread_cpu_s() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A task that a rank has not finished.
struct OpenTask {
  int64_t size_bytes = 0;
  double done_bytes = 0;      // tokenized, from the task's begin
  int64_t synced_bytes = 0;   // told as durable
  int64_t spilled_bytes = 0;  // of tokens, told or not
  bool is_reading = false, is_spilling = false, has_offset = false, is_unspilling = false;
  bool is_dirty = false;

  int64_t whole_chunks() const {
    const auto bytes = static_cast<int64_t>(done_bytes);
    return bytes >= size_bytes ? size_bytes : bytes / kChunkBytes * kChunkBytes;
  }
  int64_t held_bytes() const {
    return has_offset || is_spilling ? 0 : token_bytes(whole_chunks() - synced_bytes);
  }
};

// A part of the last passes in a worker's hands.
struct OpenPart {
  LastPassPart part;
  double bytes_left = 0;
};

struct SimulatedRank {
  bool is_waiting = false, is_done = false;
  bool may_be_given_tasks = true;
  double advanced_to_s = 0, last_exchange_s = -1, last_sync_s = 0, disk_free_at_s = 0;
  int64_t version = 0;  // of the rates: an event of an older one is void
  std::map<int64_t, OpenTask> open;
  std::deque<OpenPart> parts;
  bool may_be_given_parts = false;
  double exchange_interval_s = 0, idle_interval_s = 1e-3, part_rate = 0;
  int num_reading = 0;
  double rate = 0;  // bytes of text a second, of each task that is being read
  double bytes_since_exchange = 0, tokenized_bytes = 0;
  LedgerRequest request;
};

struct Event {
  enum class Kind : uint8_t {
    kTick,
    kPoll,
    kRead,
    kUnspilled,
    kRequest,
    kReply,
    kJournal,
    kPrepared
  } kind;
  double time_s = 0;
  int rank = 0;
  int64_t number = 0;   // version or task
  std::string message;  // of a request or reply
  int64_t order = 0;    // of creation: equal times keep it, so that runs are repeatable
  bool operator<(const Event& other) const {
    return time_s != other.time_s ? time_s > other.time_s : order > other.order;
  }
};

class Simulation {
 public:
  Simulation(const SimulatedCluster& cluster, const std::vector<SimulatedTask>& tasks)
      : cluster_(cluster),
        tasks_(tasks),
        ledger_(plain(tasks), names(tasks), 1, limits(cluster, tasks)) {
    ranks_.resize(static_cast<size_t>(cluster.num_ranks));
    expected_offset_.push_back({});
    for (const SimulatedTask& task : tasks) {
      DatasetCounts next = expected_offset_.back();
      next.add(counts_of(task.text_bytes).datasets[0]);
      expected_offset_.push_back(next);
      total_bytes_ += static_cast<double>(task.text_bytes);
    }
    durable_bytes_.resize(tasks.size());
    num_times_done_.resize(tasks.size());
  }

  SimulationResult run() {
    for (int rank = 0; rank < cluster_.num_ranks; ++rank) {
      push({Event::Kind::kTick, 1e-4 * rank / cluster_.num_ranks, rank, 0, "", 0});
    }
    push({Event::Kind::kJournal, 0, 0, 0, "", 0});
    while (!events_.empty() && !all_ended() && now_s_ < cluster_.give_up_after_s) {
      Event event = events_.top();
      events_.pop();
      now_s_ = event.time_s;
      handle(event);
    }
    return result();
  }

 private:
  static std::vector<Task> plain(const std::vector<SimulatedTask>& tasks) {
    std::vector<Task> list;
    for (const SimulatedTask& task : tasks) list.push_back(task.task);
    return list;
  }
  static std::vector<std::string> names(const std::vector<SimulatedTask>& tasks) {
    const int32_t last = tasks.empty() ? 0 : tasks.back().task.input_idx;
    return std::vector<std::string>(static_cast<size_t>(last) + 1, "corpus.jsonl");
  }
  static Ledger::Limits limits(const SimulatedCluster& cluster,
                               const std::vector<SimulatedTask>& tasks) {
    Ledger::Limits limits;
    limits.num_ranks = cluster.num_ranks;
    limits.written_files = WrittenFiles{{"out"}, TokenType::kUInt16, false};
    limits.max_spill_bytes = cluster.max_spilled_bytes;
    for (const SimulatedTask& task : tasks) {
      limits.output_bytes.push_back(token_bytes(task.text_bytes));
    }
    return limits;
  }
  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const SimulatedRank& rank) { return rank.is_done; });
  }
  SimulatedRank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  void push(Event event) {
    event.order = ++num_events_;
    events_.push(std::move(event));
  }
  void mistake(const std::string& what) { mistakes_.push_back(what); }

  void handle(const Event& event) {
    SimulatedRank& rank = at(event.rank);
    if (event.kind == Event::Kind::kRequest) return answer(event.rank, event.message);
    if (event.kind == Event::Kind::kJournal) return write_journal();
    if (event.kind == Event::Kind::kPrepared) return complete_last_passes();
    if (rank.is_done) return;
    if (event.kind == Event::Kind::kRead && event.number != rank.version) return;
    advance(rank);
    if (event.kind == Event::Kind::kUnspilled) {
      OpenTask& task = rank.open.at(event.number);
      task.is_spilling = task.is_unspilling = false;
      spilled_now_bytes_ -= task.spilled_bytes;
      task.spilled_bytes = 0;
      task.is_dirty = true;
    } else if (event.kind == Event::Kind::kReply) {
      take_reply(event.rank, event.message);
    }
    if (rank.is_done) return;
    end_reading(event.rank);
    spill(rank);
    sync(rank);
    send_request(event.rank);
    if (event.kind == Event::Kind::kTick) {
      push({Event::Kind::kTick, now_s_ + cluster_.exchange_interval_s, event.rank, 0, "", 0});
    }
  }

  // --- a rank ---

  double core_s_per_byte() const {
    return 1 / cluster_.tokenize_bytes_per_s +
           (cluster_.decompress_bytes_per_s > 0 ? 1 / cluster_.decompress_bytes_per_s : 0);
  }
  void advance(SimulatedRank& rank) {
    const double time_s = now_s_ - rank.advanced_to_s;
    rank.advanced_to_s = now_s_;
    for (size_t i = 0; i < num_active_parts(rank); ++i) {
      rank.parts[i].bytes_left -= rank.part_rate * time_s;
    }
    if (rank.num_reading == 0) return;
    for (auto& [number, task] : rank.open) {
      if (!task.is_reading) continue;
      const double more =
          std::min(rank.rate * time_s, static_cast<double>(task.size_bytes) - task.done_bytes);
      task.done_bytes += more;
      rank.tokenized_bytes += more;
      rank.bytes_since_exchange += more;
      task.is_dirty = true;
    }
  }
  // As many as there are threads; while text is read, not more than RankWorker asks for.
  size_t num_active_parts(const SimulatedRank& rank) const {
    return std::min(rank.parts.size(), static_cast<size_t>(cluster_.num_workers));
  }
  void plan_reading(int rank_idx) {
    SimulatedRank& rank = at(rank_idx);
    ++rank.version;
    const auto num_parts = static_cast<double>(num_active_parts(rank));
    if (rank.num_reading == 0 && num_parts == 0) return;
    // Every stream has the same share of the network and of the file system.
    const double network = cluster_.rank_read_bytes_per_s / (rank.num_reading + num_parts);
    const double file_system = cluster_.file_system_bytes_per_s / cluster_.num_ranks /
                               (kFileSystemBytesPerTextByte * rank.num_reading + num_parts);
    const double stream = cluster_.decompress_bytes_per_s > 0 ? cluster_.decompress_bytes_per_s
                                                              : kPlainStreamBytesPerS;
    const double cores = cluster_.num_workers / core_s_per_byte() / std::max(rank.num_reading, 1);
    rank.rate = std::min({stream, cores, network, file_system});
    rank.part_rate = std::min({cluster_.check_bytes_per_s, network, file_system});
    double least = 1e18;  // seconds
    for (const auto& [number, task] : rank.open) {
      if (!task.is_reading) continue;
      least = std::min(least, (static_cast<double>(task.size_bytes) - task.done_bytes) / rank.rate);
    }
    for (size_t i = 0; i < num_active_parts(rank); ++i) {
      least = std::min(least, rank.parts[i].bytes_left / rank.part_rate);
    }
    least = std::max(least, 0.0);
    push({Event::Kind::kRead, now_s_ + least + 1e-9, rank_idx, rank.version, "", 0});
  }
  void end_reading(int rank_idx) {
    SimulatedRank& rank = at(rank_idx);
    bool has_changed = false;
    for (auto& [number, task] : rank.open) {
      if (!task.is_reading || task.done_bytes < static_cast<double>(task.size_bytes) - 0.5)
        continue;
      task.done_bytes = static_cast<double>(task.size_bytes);
      task.is_reading = false;
      --rank.num_reading;
      rank.request.read_tasks.push_back({number, counts_of(task.size_bytes)});
      has_changed = true;
    }
    const size_t num_active = num_active_parts(rank);
    for (size_t i = num_active; i-- > 0;) {
      if (rank.parts[i].bytes_left > 0.5) continue;
      rank.request.part_results.push_back(result_of(rank.parts[i].part));
      rank.parts.erase(rank.parts.begin() + static_cast<std::ptrdiff_t>(i));
      has_changed = true;
    }
    if (has_changed) plan_reading(rank_idx);
  }
  void spill(SimulatedRank& rank) {
    int64_t held = 0;
    for (const auto& [number, task] : rank.open) held += task.held_bytes();
    for (auto each = rank.open.rbegin(); each != rank.open.rend(); ++each) {
      if (held <= cluster_.max_held_bytes_per_worker * cluster_.num_workers) break;
      if (each->second.held_bytes() == 0) continue;
      held -= each->second.held_bytes();
      each->second.is_spilling = each->second.is_dirty = true;
    }
  }
  void sync(SimulatedRank& rank) {
    const bool is_idle = rank.num_reading == 0;
    if (!is_idle && now_s_ - rank.last_sync_s < cluster_.sync_interval_s) return;
    rank.last_sync_s = now_s_;
    for (auto each = rank.open.begin(); each != rank.open.end();) {
      OpenTask& task = each->second;
      const bool is_at_its_place = task.has_offset && !task.is_spilling;
      if (!task.is_dirty || task.is_unspilling || !(is_at_its_place || task.is_spilling)) {
        ++each;
        continue;
      }
      task.is_dirty = false;
      const int64_t bytes = task.whole_chunks();
      if (task.is_spilling) {
        spilled_bytes_ += token_bytes(bytes) - task.spilled_bytes;
        spilled_now_bytes_ += token_bytes(bytes) - task.spilled_bytes;
        peak_spilled_bytes_ = std::max(peak_spilled_bytes_, spilled_now_bytes_);
        task.spilled_bytes = token_bytes(bytes);
      }
      task.synced_bytes = bytes;
      TaskProgress progress;
      progress.counts = counts_of(bytes);
      progress.next_offset_bytes = bytes;
      if (task.spilled_bytes > 0) progress.spill = {{1, task.spilled_bytes}};
      progress.is_read = bytes == task.size_bytes;
      rank.request.durable.push_back({each->first, progress});
      const bool is_finished = progress.is_done();
      each = is_finished ? rank.open.erase(each) : std::next(each);
    }
  }
  void send_request(int rank_idx) {
    SimulatedRank& rank = at(rank_idx);
    const bool has_news = !rank.request.durable.empty() || !rank.request.read_tasks.empty() ||
                          (rank.may_be_given_tasks && rank.num_reading < cluster_.num_readers) ||
                          (rank.may_be_given_parts && rank.num_reading == 0 &&
                           std::ssize(rank.parts) <= cluster_.num_workers) ||
                          (!rank.request.part_results.empty() && rank.parts.empty());
    const bool is_due = now_s_ - rank.last_exchange_s >= rank.exchange_interval_s - 1e-9;
    if (rank.is_waiting || !(has_news || is_due)) return;
    rank.is_waiting = true;
    rank.last_exchange_s = now_s_;
    rank.request.num_tasks_wanted = std::max(0, cluster_.num_readers - rank.num_reading);
    const int most_parts =
        rank.num_reading == 0 ? 2 * cluster_.num_workers : 1 + cluster_.num_workers / 4;
    rank.request.num_parts_wanted = std::max<int64_t>(0, most_parts - std::ssize(rank.parts));
    rank.request.newly_seen = counts_of(static_cast<int64_t>(rank.bytes_since_exchange)).totals;
    rank.bytes_since_exchange = 0;
    push({Event::Kind::kRequest, now_s_ + cluster_.one_way_s, rank_idx, 0, to_message(rank.request),
          0});
    rank.request = {};
  }
  void take_reply(int rank_idx, const std::string& message) {
    SimulatedRank& rank = at(rank_idx);
    const LedgerReply reply = ledger_reply_from(message);
    rank.is_waiting = false;
    if (reply.failure) mistake("rank " + std::to_string(rank_idx) + ": " + reply.failure->message);
    rank.may_be_given_tasks = !reply.assigned.empty();
    for (const LedgerReply::Assigned& given : reply.assigned) take_task(rank, given);
    for (const LedgerReply::OffsetKnown& based : reply.offsets_known) {
      OpenTask& task = rank.open.at(based.task);
      task.has_offset = task.is_dirty = true;
      if (!(based.offset.datasets.at(0) == expected_offset_[static_cast<size_t>(based.task)])) {
        mistake("wrong offset of task " + std::to_string(based.task));
      }
    }
    for (auto& [number, task] : rank.open) {
      // A second pass at the disk's speed, once the task is whole and its place is known.
      if (!task.is_spilling || !task.has_offset || task.is_unspilling || task.is_reading) continue;
      if (task.is_dirty) continue;  // spilled, but not synced yet
      task.is_unspilling = true;
      rank.disk_free_at_s =
          std::max(rank.disk_free_at_s, now_s_) +
          static_cast<double>(task.spilled_bytes) / cluster_.rank_write_bytes_per_s;
      push({Event::Kind::kUnspilled, rank.disk_free_at_s, rank_idx, number, "", 0});
    }
    for (const LastPassPart& part : reply.parts) {
      rank.parts.push_back({part, part_bytes(part)});
    }
    rank.may_be_given_parts = !reply.parts.empty();
    if (!reply.assigned.empty() || !reply.parts.empty()) plan_reading(rank_idx);
    const bool is_idle = rank.num_reading == 0 && rank.open.empty() && rank.parts.empty();
    if (!is_idle) rank.idle_interval_s = 1e-3;
    rank.exchange_interval_s = is_idle ? rank.idle_interval_s : cluster_.exchange_interval_s;
    if (is_idle) {
      rank.idle_interval_s = std::min(2 * rank.idle_interval_s, cluster_.exchange_interval_s);
      push({Event::Kind::kPoll, now_s_ + rank.exchange_interval_s, rank_idx, 0, "", 0});
    }
    rank.is_done = reply.all_done || reply.failure;
    if (reply.all_done) makespan_s_ = std::max(makespan_s_, now_s_);
  }
  // Returns the bytes that a worker reads for the part, or could read in the time it takes.
  double part_bytes(const LastPassPart& part) const {
    if (part.kind != LastPassPart::Kind::kIndex) {
      return static_cast<double>(part.end_bytes - part.begin_bytes);
    }
    const int64_t num_documents =
        part.offsets.back().before.num_documents - part.offsets.front().before.num_documents;
    return static_cast<double>(num_documents * (kIndexReadBytes + kIndexWrittenBytes)) +
           cluster_.index_sync_s * cluster_.check_bytes_per_s;
  }
  void take_task(SimulatedRank& rank, const LedgerReply::Assigned& given) {
    const auto number = static_cast<size_t>(given.task.number);
    OpenTask task;
    task.size_bytes = tasks_[number].text_bytes;
    task.synced_bytes = given.progress.next_offset_bytes;
    task.done_bytes = static_cast<double>(task.synced_bytes);
    task.spilled_bytes = num_bytes_of(given.progress.spill);
    task.is_spilling = task.spilled_bytes > 0;
    task.is_reading = !given.progress.is_read;
    if (task.synced_bytes != durable_bytes_[number]) {
      mistake("task " + std::to_string(number) + " goes on at another place than it got to");
    }
    rank.num_reading += task.is_reading;
    rank.open[given.task.number] = task;
  }

  // --- rank 0's server thread ---

  void answer(int rank_idx, const std::string& message) {
    const double before_s = cluster_.measure_leader ? thread_cpu_s() : 0;
    const LedgerRequest request = ledger_request_from(message);
    const LedgerReply reply = ledger_.answer(rank_idx, request);
    std::string answer_message = to_message(reply);
    double cost_s = cluster_.leader_message_s;
    if (cluster_.measure_leader) cost_s += thread_cpu_s() - before_s;

    leader_busy_s_ += cost_s;
    leader_free_at_s_ = std::max(leader_free_at_s_, now_s_) + cost_s;
    ++num_messages_;
    message_bytes_ += std::ssize(message) + std::ssize(answer_message);
    for (const auto& each : request.durable) record_durable(each);
    if (ledger_.tasks_done() && tasks_done_s_ < 0) {
      tasks_done_s_ = now_s_;
      push({Event::Kind::kPrepared, now_s_ + cluster_.prepare_s, 0, 0, "", 0});
    }
    push({Event::Kind::kReply, leader_free_at_s_ + cluster_.one_way_s, rank_idx, 0,
          std::move(answer_message), 0});
  }
  void complete_last_passes() {
    const double before_s = cluster_.measure_leader ? thread_cpu_s() : 0;
    ledger_.complete_last_passes({{crc_of_zeros(34), crc_of_zeros(64), crc_of_zeros(50)}});
    if (!cluster_.measure_leader) return;
    const double cost_s = thread_cpu_s() - before_s;
    leader_busy_s_ += cost_s;
    leader_free_at_s_ = std::max(leader_free_at_s_, now_s_) + cost_s;
  }
  void write_journal() {
    const double before_s = cluster_.measure_leader ? thread_cpu_s() : 0;
    for (const auto& each : ledger_.take_changed()) {
      journal_bytes_ += std::ssize(Journal::line(each));
    }
    if (cluster_.measure_leader) journal_busy_s_ += thread_cpu_s() - before_s;
    push({Event::Kind::kJournal, now_s_ + cluster_.journal_interval_s, 0, 0, "", 0});
  }
  void record_durable(const LedgerRequest::Durable& durable) {
    const auto number = static_cast<size_t>(durable.task);
    if (durable.progress.next_offset_bytes < durable_bytes_[number]) {
      mistake("task " + std::to_string(number) + " goes backwards");
    }
    durable_bytes_[number] = durable.progress.next_offset_bytes;
    if (durable.progress.is_done()) {
      ++num_times_done_[number];
    }
  }

  SimulationResult result() {
    if (!ledger_.all_done()) mistake("not all is done");
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (num_times_done_[i] != 1 || durable_bytes_[i] != tasks_[i].text_bytes) {
        mistake("task " + std::to_string(i) + " was done " + std::to_string(num_times_done_[i]) +
                " times");
      }
    }
    if (!(ledger_.end().datasets.at(0) == expected_offset_.back()))
      mistake("wrong sums at the end");
    if (ledger_.failure()) mistake(ledger_.failure()->message);
    if (ledger_.all_done()) {
      const double before_s = cluster_.measure_leader ? thread_cpu_s() : 0;
      (void)ledger_.last_passes().checksums(0);
      makespan_s_ += cluster_.commit_s;
      if (cluster_.measure_leader) makespan_s_ += thread_cpu_s() - before_s;
    }
    SimulationResult found;
    double rank_seconds = 0, tokenized = 0;
    for (const SimulatedRank& rank : ranks_) {
      rank_seconds += makespan_s_;
      tokenized += rank.tokenized_bytes;
    }
    found.makespan_s = makespan_s_;
    found.tail_s = makespan_s_ - tasks_done_s_;
    found.limit_s =
        std::max({total_bytes_ * core_s_per_byte() / cluster_.num_workers / cluster_.num_ranks,
                  1.5 * total_bytes_ / cluster_.rank_read_bytes_per_s / cluster_.num_ranks,
                  2 * total_bytes_ / cluster_.file_system_bytes_per_s});
    found.idle_share = 1 - tokenized * core_s_per_byte() / (rank_seconds * cluster_.num_workers);
    found.leader_busy_share = leader_busy_s_ / makespan_s_;
    found.journal_busy_share = journal_busy_s_ / makespan_s_;
    found.leader_s_per_task = leader_busy_s_ / static_cast<double>(tasks_.size());
    found.leader_s_per_message = leader_busy_s_ / static_cast<double>(num_messages_);
    found.messages_per_s = static_cast<double>(num_messages_) / makespan_s_;
    found.num_messages = num_messages_;
    found.message_bytes = message_bytes_;
    found.journal_bytes = journal_bytes_;
    found.spilled_bytes = spilled_bytes_;
    found.peak_spilled_bytes = peak_spilled_bytes_;
    found.mistakes = mistakes_;
    return found;
  }

  const SimulatedCluster& cluster_;
  const std::vector<SimulatedTask>& tasks_;
  Ledger ledger_;
  std::vector<SimulatedRank> ranks_;
  std::priority_queue<Event> events_;
  int64_t num_events_ = 0;
  double now_s_ = 0, leader_free_at_s_ = 0, leader_busy_s_ = 0, journal_busy_s_ = 0,
         makespan_s_ = 0, total_bytes_ = 0, tasks_done_s_ = -1;
  int64_t num_messages_ = 0, message_bytes_ = 0, journal_bytes_ = 0, spilled_bytes_ = 0;
  int64_t spilled_now_bytes_ = 0, peak_spilled_bytes_ = 0;
  std::vector<DatasetCounts> expected_offset_;  // of every task, and behind the last
  std::vector<int64_t> durable_bytes_;          // by task, as the ledger was told
  std::vector<int> num_times_done_;
  std::vector<std::string> mistakes_;
};

}  // namespace

SimulationResult simulate(const SimulatedCluster& cluster,
                          const std::vector<SimulatedTask>& tasks) {
  return Simulation(cluster, tasks).run();
}

std::vector<SimulatedTask> even_tasks(int64_t corpus_bytes, int64_t task_bytes) {
  std::vector<SimulatedTask> tasks;
  for (int64_t begin = 0; begin < corpus_bytes; begin += task_bytes) {
    const int64_t size = std::min(task_bytes, corpus_bytes - begin);
    tasks.push_back({{std::ssize(tasks), 0, begin, begin + size}, size});
  }
  return tasks;
}

}  // namespace weft
