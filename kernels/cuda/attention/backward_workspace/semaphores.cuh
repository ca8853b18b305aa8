// The order in which blocks add to dQ, so that equal calls give equal bits.
//
// A work tile of backward is 128 keys of a (batch, head). Its block adds its part to the sums of
// all queries that see the keys, for every 64 queries in the order of falling tiles: the tile on
// the diagonal stores its part, the others add theirs, and the last one reads the sums and adds its
// own part in registers. Every 64 queries of a head have a semaphore, a counter that says whose
// turn it is. For queries that three tiles of keys see, and a later head that has the same slot:
//
//   semaphore        0           1                2                       3
//   block of tile 2  store sums | next queries ...
//   block of tile 1  spins ..... | add to sums    | next queries ...
//   block of tile 0  spins ...................... | dQ = sums + own part | finish
//   later head       spins .............................................. | store sums ...
//
//   acquire: wait for the value, proxy fence    release: wait for own copies, value + 1
//
// Blocks draw work tiles from a counter, the tile scheduler: a few heads together, the last tile of
// each first. It has the fewest queries, and the tile before it reaches any query one tile later,
// so blocks that run side by side hardly wait ("shortest processing time first" of
// FlashAttention-3's deterministic mode; a schedule without stalls in the model of
// arXiv:2601.21824). With several heads together a tile begins later than the one that it waits
// for. A tile waits for tiles that were drawn earlier alone, so one of them can always proceed.
//
// Sums of later heads take the place of those of earlier ones, so that all stay in L2: head bh uses
// slot bh % num_slots, and the semaphores go on counting. Where heads share slots there are more of
// these than heads taken together, so the tiles of the head that had the slot before were drawn
// earlier. kernels/flash_attention.h has these numbers.
//
// The sums are written by bulk copies and additions, which work in the async proxy. A thread waits
// until its own are complete in memory before it releases the semaphore; completion also makes them
// visible to ordinary accesses, as those that read the sums in the end. The thread that acquires it
// needs a proxy fence before its first copy, because an acquire orders ordinary accesses alone. So
// each addition of a block of queries comes after all earlier ones, and so does the reading of the
// sums; the next head's first store comes after that reading. [PTX ISA, "Memory Consistency Model:
// Proxies"]
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/arguments/params.h"
#include "kernels/cuda/device/order_checks.cuh"
#include "kernels/flash_attention.h"

namespace weft::cuda::attention {

// A tile of keys of one (batch, head). Behind the last work tile stands one without a tile. `round`
// heads have had the head's slot before.
struct WorkTile {
  int bh, tile, slot, round;

  __device__ bool exists() const { return tile >= 0; }
};
// Returns the work tile of a number that the scheduler's counter gave: tile after tile of
// p.heads_together heads, then those of the next heads.
__device__ inline WorkTile work_tile_of(const Params& p, int drawn) {
  const int num_tiles = (p.T + kTileKeys - 1) / kTileKeys;
  if (drawn >= num_tiles * p.B * p.H) return {0, -1, 0, 0};
  const int first_head = drawn / (p.heads_together * num_tiles) * p.heads_together;
  const int num_heads = min(p.heads_together, p.B * p.H - first_head);
  const int rest = drawn - first_head * num_tiles;
  const int bh = first_head + rest % num_heads;
  return {bh, num_tiles - 1 - rest / num_heads, bh % p.num_slots, bh / p.num_slots};
}

// The semaphores of a work tile's head, one for each block of queries. One thread acquires and
// releases them. Little is computed for a block, because the warpgroups that multiply wait for the
// threads that add.
struct Semaphores {
  int* counters;  // those of the head's slot
  int tile, round;

  __device__ Semaphores(const Params& p, WorkTile work)
      : counters(p.semaphores + 1 + work.slot * num_blocks(p)),
        tile(work.tile),
        round(work.round) {}
  __device__ static int num_blocks(const Params& p) {  // blocks of queries
    return (p.T + kTileKeys - 1) / kTileKeys * (kTileKeys / kSemaphoreQueries);
  }
  // Returns how many work tiles of a head add to a block, without documents.
  __device__ static int num_work_tiles(int block) {
    return block * kSemaphoreQueries / kTileKeys + 1;
  }
  __device__ bool is_first(int block) const { return num_work_tiles(block) == tile + 1; }
  // Returns the semaphore's value when this work tile may add. Each head takes it from
  // round * num_work_tiles to (round + 1) * num_work_tiles.
  __device__ int value(int block) const { return (round + 1) * num_work_tiles(block) - 1 - tile; }
  __device__ void acquire(int block) const {
    const int wanted = value(block);
    WaitLimit limit;
    for (;;) {
      int now;
      asm volatile("ld.acquire.gpu.global.b32 %0, [%1];"
                   : "=r"(now)
                   : "l"(counters + block)
                   : "memory");
      if (now == wanted) break;
      if (kChecksOrder && now > wanted) __trap();  // It would never come back.
      limit.check();
    }
    asm volatile("fence.proxy.async.global;" ::: "memory");
  }
  __device__ void release(int block) const {
    asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(counters + block),
                 "r"(value(block) + 1)
                 : "memory");
  }
  // Ends the head's use of the semaphore, after a fence. With documents, a tile that is not the
  // head's first can be the last to add.
  __device__ void finish(int block) const {
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(counters + block),
                 "r"((round + 1) * num_work_tiles(block))
                 : "memory");
  }
};

// The sums of dQ of a block of queries.
template <int D>
__device__ inline float* sums_of(const Params& p, WorkTile work, int block) {
  const int64_t number = static_cast<int64_t>(work.slot) * Semaphores::num_blocks(p) + block;
  return p.dq_sums + number * (kSemaphoreQueries * D);
}

}  // namespace weft::cuda::attention
