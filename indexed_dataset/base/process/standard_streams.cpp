#include "indexed_dataset/base/process/standard_streams.h"

#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>

namespace weft {

void protect_standard_streams() {
  for (const int fd : {0, 1, 2}) {
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", O_WRONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace weft
