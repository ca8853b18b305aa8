#include "indexed_dataset/base/process/out_of_memory.h"

#include <execinfo.h>

namespace weft {

void prepare_for_out_of_memory() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // its first call does it, as backtrace(3) says
}

}  // namespace weft
