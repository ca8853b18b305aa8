// The order in which blocks add to dQ, so that equal calls give equal bits.
//
// Backward's work items are tiles of keys of a (batch, head). Each adds its part to the sums of all
// queries that see its keys, for every 64 queries in the order of falling tiles: the tile on the
// diagonal stores its part, the others add theirs, and the last one reads the result. A counter for
// 64 queries tells whose turn it is.
//
// Blocks take items by a ticket, one head after the other and inside a head the last tile first. It has
// the fewest queries, and the tile before it reaches any query one tile later, so blocks that run side by
// side hardly wait ("shortest processing time first" of FlashAttention-3's deterministic mode; a schedule
// without stalls in the model of arXiv:2601.21824). An item waits for items of earlier tickets alone, so
// one of them can always proceed.
//
// Sums of later heads take the place of those of earlier ones, so that all stay in L2: head bh uses slot
// bh % num_slots, and the counters go on counting.
//
// The sums are only touched by bulk copies and additions, which work in the async proxy. A thread waits until its own
// are complete in memory before it releases the turn; completion also makes them visible to ordinary accesses. The
// thread that acquires the turn needs a proxy fence before its first copy, because an acquire orders ordinary
// accesses alone. So each addition of a block of queries comes after all earlier ones, and so does the reading of
// the result; the next head's first store comes after that reading. [PTX ISA, "Memory Consistency Model: Proxies"]
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention/params.h"

namespace weft::cuda::attention {

constexpr int kTurnQueries = 64;  // So many queries share a counter.
constexpr int kTurnKeys = 128;    // An item has so many keys.

// The memory behind lse2 and delta: counters, the first of which is the ticket, and sums. A head has num_blocks blocks
// of kTurnQueries queries. `D` is the number of columns of the tile.
struct TurnLayout {
  int num_slots;
  int64_t num_blocks, num_counters;
  int64_t counter_bytes, sum_bytes;

  TurnLayout(int64_t B, int64_t T, int64_t H, int64_t D) {
    constexpr int64_t kL2ShareBytes = 16 << 20;
    constexpr int64_t kItemsInFlight = 320;  // twice the multiprocessors of the largest Hopper GPU
    const int64_t num_tiles = (T + kTurnKeys - 1) / kTurnKeys;
    num_blocks = num_tiles * (kTurnKeys / kTurnQueries);
    const int64_t slot_bytes = num_blocks * kTurnQueries * D * 4;
    const int64_t wanted = std::max(kL2ShareBytes / slot_bytes, kItemsInFlight / num_tiles + 2);
    num_slots = static_cast<int>(std::min(wanted, B * H));
    num_counters = 1 + num_slots * num_blocks;
    counter_bytes = (num_counters * 4 + 255) / 256 * 256;
    sum_bytes = num_slots * slot_bytes;
  }
};

// A tile of keys of one (batch, head).
struct Item {
  int bh, tile;
};
__device__ inline Item item_of(const Params& p, int ticket) {
  const int num_tiles = (p.T + kTurnKeys - 1) / kTurnKeys;
  return {ticket / num_tiles, num_tiles - 1 - ticket % num_tiles};
}

// The turn of an item to add to the sums of `block`, which one thread waits for and passes on.
struct Turn {
  int* counter;
  // The counter's values when this head's first item, this item, the next head's first item may add.
  int begin, value, end;

  __device__ Turn(const Params& p, Item item, int block) {
    const int num_blocks = (p.T + kTurnKeys - 1) / kTurnKeys * (kTurnKeys / kTurnQueries);
    const int last_tile = block * kTurnQueries / kTurnKeys;  // the first to add
    counter = p.turns + 1 + item.bh % p.num_slots * num_blocks + block;
    begin = item.bh / p.num_slots * (last_tile + 1);
    value = begin + last_tile - item.tile;
    end = begin + last_tile + 1;
  }
  __device__ bool is_first() const { return value == begin; }
  __device__ void wait() const {
    int now;
    do {
      asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    } while (now != value);
    asm volatile("fence.proxy.async.global;" ::: "memory");
  }
  // With documents, a tile that is not the head's first can be the last to add.
  __device__ void pass(bool is_last) const {
    asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(counter),
                 "r"(is_last ? end : value + 1)
                 : "memory");
  }
};

}  // namespace weft::cuda::attention
