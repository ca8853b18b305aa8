"""Builds datasets with Megatron-Core's own code, which leaves its index caches, and prints the tokens of its first samples.

    python megatron_cache_peer.py CACHE_DIR NUM_SAMPLES SPLIT SEQUENCE_LENGTH SEED [WEIGHT] PREFIX ...

Needs what megatron_peer.py needs. A line is a sample: its token ids with spaces between them.
"""
import sys

import megatron_peer
from megatron_peer import BlendedMegatronDatasetBuilder, GPTDataset, make_config


def main():
    cache, num_samples, split, sequence_length, seed, *blend = sys.argv[1:]
    weights = [float(word) for word in blend[::2]] if len(blend) > 1 else None
    prefixes = blend[1::2] if weights else blend
    config = make_config(
        random_seed=int(seed),
        sequence_length=int(sequence_length),
        blend=(prefixes, weights),
        split=split,
        path_to_cache=cache,
        tokenizer=megatron_peer.Tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
    )
    train = BlendedMegatronDatasetBuilder(GPTDataset, (int(num_samples), 1, 1), lambda: True, config).build()[0]
    for i in range(int(num_samples)):
        part, idx = train, i
        if weights:
            part, idx = train.datasets[train.dataset_index[i]], train.dataset_sample_index[i]
        print(*part._query_document_sample_shuffle_indices(idx)[0])


if __name__ == "__main__":
    main()
