// Stands in for mpi_transport.cpp where no Open MPI was found at build time.
#include <stdexcept>

#include "preprocess/ledger/rank_transport.h"

namespace weft {

std::unique_ptr<RankTransport> make_mpi_transport() {
  throw std::invalid_argument(
      "several processes were started together, but this weft-data was built without MPI; give "
      "each a part of the work (--ranks off --shard I/N) and put the parts together with weft-data "
      "merge, or install libopenmpi-dev and build again");
}

}  // namespace weft
