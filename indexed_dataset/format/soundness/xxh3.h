// XXH3 from libxxhash. On x86 its dispatcher takes AVX-512, AVX2 or SSE2, whichever the processor
// has (Debian and Ubuntu build the library with it). The hashes are the same everywhere.
#pragma once

#define XXH_STATIC_LINKING_ONLY  // so that XXH3_state_t can lie on the stack
#include <xxhash.h>

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // macros that replace XXH3_64bits and the like
#endif
