// Loops that the compiler turns into vector code, once per generation of x86-64.
#pragma once

// A function with this attribute is compiled for AVX-512, AVX2 and any x86-64, and the loader takes
// the best one. The run times of the sanitizers are not yet loaded when the loader chooses, so the
// attribute is empty there.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WEFT_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WEFT_VECTOR_CLONES
#endif
