#include "indexed_dataset/base/storage/unsynced_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/storage/io_call.h"

namespace weft {

using namespace io_call;

void rename_unsynced(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (is_made_to_fail() || ::rename(from.c_str(), to.c_str()) != 0)
    throw_errno("cannot rename " + quoted(from) + " to " + quoted(to));
}

void sync_files(const std::vector<std::filesystem::path>& files, int num_threads) {
  parallel_for(std::ssize(files), num_threads, [&](int64_t i) {
    const std::filesystem::path& path = files[static_cast<size_t>(i)];
    // A descriptor that is opened later still gets an error of writing that nobody has been told
    // of.
    const FdGuard guard{open_file(path, O_RDONLY | O_NOFOLLOW)};
    if (is_made_to_fail() || ::fdatasync(guard.fd) != 0) throw_errno("cannot sync " + quoted(path));
  });
}

}  // namespace weft
