#pragma once

namespace weft {

// For `main`: loads what the C library needs to pass an exception on. It would do so when the first
// exception meets one of its frames; if that is std::bad_alloc it finds no memory, and aborts with
// "libgcc_s.so.1 must be installed for unwinding to work".
void prepare_for_out_of_memory();

}  // namespace weft
