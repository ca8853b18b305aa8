// Builds indexes that are not in their files yet, and writes them there (index_cache.h).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/lock_file.h"
#include "indexed_dataset/order/index_caches/index_cache.h"

namespace weft {

// Opens many indexes in one folder of caches. Those that it writes wait for the disk together,
// because a wait for a few small files is as long as one for many. Not thread-safe: each thread has
// a writer of its own. Until the indexes that it has written are complete it holds their locks; it
// waits for the lock of another writer only when it holds none.
class IndexCacheWriter {
 public:
  // `num_writers`: as many threads of this process have one at the same time.
  IndexCacheWriter(std::filesystem::path folder, int num_writers);
  // Removes what finish() was not called for.
  ~IndexCacheWriter();
  IndexCacheWriter(const IndexCacheWriter&) = delete;

  // Maps an index that is there. Else builds it, writes it and returns nothing: map_written()
  // returns it after finish(). The reader must live until then. Throws as
  // build_gpt_index(), and std::system_error if the folder or its files cannot be written.
  std::optional<CachedIndex> find_or_write(const IndexDescription& description,
                                           const DatasetReader& reader,
                                           const GptIndexOptions& options);
  // Completes what was written. Throws std::system_error.
  void finish();
  // Maps an index that was written and finished. Throws std::runtime_error if another process has
  // put one of other data in its place meanwhile.
  CachedIndex map_written(const IndexDescription& description, const DatasetReader& reader,
                          const GptIndexOptions& options) const;

 private:
  struct Written;
  void write(const CacheNames& names, std::unique_ptr<LockFile> lock, const GptIndex& index,
             std::string stamp);
  std::unique_ptr<LockFile> lock(const CacheNames& names);

  const std::filesystem::path folder_;
  const size_t max_indexes_;
  const int num_sync_threads_;
  std::vector<Written> written_;
  int64_t num_bytes_ = 0;
};

}  // namespace weft
