// Stands in for mpi_transport.cpp where no Open MPI was found at build time.

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/ranks/rank_transport.h"

namespace weft {

std::unique_ptr<RankTransport> make_mpi_transport(std::string_view way_without_mpi,
                                                  const StartLimit& /*limit*/) {
  throw UsageError(
      "several processes were started together, but this program was built without MPI; " +
      std::string(way_without_mpi) + ", or install libopenmpi-dev and build again");
}

}  // namespace weft
