// The order in which blocks add to dQ, so that equal calls give equal bits.
//
// Backward's work items are tiles of keys of a (batch, head). Each adds its part to the sums of all
// queries that see its keys, for every 64 queries in the order of falling tiles: the tile on the
// diagonal stores its part, the others add theirs, and the last one reads their sum and adds its own part in registers.
// A counter for 64 queries tells whose turn it is.
//
// Blocks take items by a ticket, a few heads together, the last tile of each first. It has the fewest
// queries, and the tile before it reaches any query one tile later, so blocks that run side by
// side hardly wait ("shortest processing time first" of FlashAttention-3's deterministic mode; a schedule
// without stalls in the model of arXiv:2601.21824). With several heads together a tile begins later than the one that
// it waits for. An item waits for items of earlier tickets alone, so one of them can always proceed.
//
// Sums of later heads take the place of those of earlier ones, so that all stay in L2: head bh uses slot
// bh % num_slots, and the counters go on counting. Where heads share slots there are more of these than heads taken
// together, so the head that had the slot before has earlier tickets. kernels/flash_attention.h has these numbers.
//
// The sums are written by bulk copies and additions, which work in the async proxy. A thread waits until its own
// are complete in memory before it releases the turn; completion also makes them visible to ordinary accesses, as those
// that read the sums in the end. The thread that acquires the turn needs a proxy fence before its first copy, because
// an acquire orders ordinary accesses alone. So each addition of a block of queries comes after all earlier ones, and
// so does the reading of the sums; the next head's first store comes after that reading. [PTX ISA, "Memory
// Consistency Model: Proxies"]
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/arguments/params.h"
#include "kernels/flash_attention.h"

namespace weft::cuda::attention {

// A tile of keys of one (batch, head). Behind the last item stands one without a tile. `round` heads have had the
// head's slot before.
struct Item {
  int bh, tile, slot, round;

  __device__ bool exists() const { return tile >= 0; }
};
// Returns the item of a ticket: tile after tile of p.heads_together heads, then those of the next heads.
__device__ inline Item item_of(const Params& p, int ticket) {
  const int num_tiles = (p.T + kTurnKeys - 1) / kTurnKeys;
  if (ticket >= num_tiles * p.B * p.H) return {0, -1, 0, 0};
  const int first_head = ticket / (p.heads_together * num_tiles) * p.heads_together;
  const int num_heads = min(p.heads_together, p.B * p.H - first_head);
  const int rest = ticket - first_head * num_tiles;
  const int bh = first_head + rest % num_heads;
  return {bh, num_tiles - 1 - rest / num_heads, bh % p.num_slots, bh / p.num_slots};
}

// The turns of an item to add to the sums of its blocks of queries. One thread waits for a turn and passes it on. Little is
// computed for a block, because the warpgroups that multiply wait for the threads that add.
struct Turns {
  int* counters;  // of the head's slot
  int tile, round;

  __device__ Turns(const Params& p, Item item)
      : counters(p.turns + 1 + item.slot * num_blocks(p)), tile(item.tile), round(item.round) {}
  __device__ static int num_blocks(const Params& p) {  // of queries
    return (p.T + kTurnKeys - 1) / kTurnKeys * (kTurnKeys / kTurnQueries);
  }
  // Returns how many items of a head add to a block, without documents.
  __device__ static int num_items(int block) { return block * kTurnQueries / kTurnKeys + 1; }
  __device__ bool is_first(int block) const { return num_items(block) == tile + 1; }
  // Returns the counter's value when this item may add. Each head takes it from round * num_items to
  // (round + 1) * num_items.
  __device__ int value(int block) const { return (round + 1) * num_items(block) - 1 - tile; }
  __device__ void wait(int block) const {
    const int wanted = value(block);
    int now;
    do {
      asm volatile("ld.acquire.gpu.global.b32 %0, [%1];"
                   : "=r"(now)
                   : "l"(counters + block)
                   : "memory");
    } while (now != wanted);
    asm volatile("fence.proxy.async.global;" ::: "memory");
  }
  __device__ void pass(int block) const {
    asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(counters + block),
                 "r"(value(block) + 1)
                 : "memory");
  }
  // Ends the head's turns, after a fence. With documents, a tile that is not the head's first can be the last to add.
  __device__ void end(int block) const {
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(counters + block),
                 "r"((round + 1) * num_items(block))
                 : "memory");
  }
};

// The sums of dQ of a block of queries.
template <int D>
__device__ inline float* sums_of(const Params& p, Item item, int block) {
  const int64_t number = static_cast<int64_t>(item.slot) * Turns::num_blocks(p) + block;
  return p.dq_sums + number * (kTurnQueries * D);
}

}  // namespace weft::cuda::attention
