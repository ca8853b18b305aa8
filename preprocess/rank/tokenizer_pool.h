// From chunks to batches: the worker threads of a rank, each with a tokenizer of its own. They also
// do the work on files that others want done.
#pragma once

#include <functional>
#include <memory>

#include "indexed_dataset/base/process/thread_group.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/rank/chunk.h"
#include "preprocess/stream/queue.h"

namespace weft {

// Thread-safe, but for start() and end().
class TokenizerPool {
 public:
  // The pool's threads call `use` with every chunk that they have tokenized, or could not (its
  // error). `rules` and `inbox` must outlive the pool.
  TokenizerPool(std::shared_ptr<const Vocabulary> vocabulary, const TokenizeRules& rules,
                int num_workers, Inbox& inbox, std::function<void(ChunkPtr)> use);
  ~TokenizerPool() { end(); }

  int num_workers() const { return num_workers_; }
  void start();
  // Waits for the jobs that are being done, and drops those that are queued.
  void end();
  // Throws what a thread has ended by (out of memory, mostly).
  void check() const { threads_.check(); }

  void tokenize(ChunkPtr chunk);
  // work_and_tell() in a thread of the pool. It goes before all tokenizing: what is written frees
  // memory, and others may wait for it.
  void run(std::function<void()> work, std::function<void()> then);

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  const TokenizeRules& rules_;
  const int num_workers_;
  Inbox& inbox_;
  const std::function<void(ChunkPtr)> use_;
  Queue<std::function<void(ChunkTokenizer&)>> jobs_;
  ThreadGroup threads_;
};

}  // namespace weft
