#!/usr/bin/env python3
"""Makes llama-hf/, llama31-hf/, mistral-hf/, qwen2-hf/, qwen3-hf/ and bloom-hf/: small models as transformers saves them, and the logits that they give, on the CPU
in fp32.

    python3 tests/golden/trainer/make_hf_models.py llama tests/golden/trainer/llama-hf      # needs torch and transformers
    python3 tests/golden/trainer/make_hf_models.py bloom tests/golden/trainer/bloom-hf      # and so on
    python3 tests/golden/trainer/make_hf_models.py --check bloom FOLDER                      # one that weft-model export wrote

logits.f32 has (2, 12, 60) little-endian fp32 numbers, for the tokens (7 i i + 3 i) % 60 with i = 0 ... 23. Weights are wider than
those of training, so that attention and activations are far from uniform. BLOOM's three heads have slopes of both of ALiBi's series.
"""
import sys

import torch
import transformers

TOKENS = torch.tensor([(7 * i * i + 3 * i) % 60 for i in range(24)]).view(2, 12)


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=False, initializer_range=0.2))


SHAPE = dict(vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, rms_norm_eps=1e-6, initializer_range=0.2)


def llama31():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **SHAPE, head_dim=64, tie_word_embeddings=True, rope_parameters=dict(
            rope_theta=500000.0, rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)))


def mistral():
    return transformers.MistralForCausalLM(transformers.MistralConfig(**SHAPE, head_dim=16, sliding_window=None, tie_word_embeddings=False))


def qwen2():
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SHAPE, tie_word_embeddings=True))


def qwen3():
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SHAPE, head_dim=16, tie_word_embeddings=False))


def bloom():
    return transformers.BloomForCausalLM(transformers.BloomConfig(
        vocab_size=60, hidden_size=24, n_layer=2, n_head=3, layer_norm_epsilon=1e-5, initializer_range=0.2, seq_length=64))


def logits_of(model):
    with torch.no_grad():
        return model.eval()(TOKENS).logits.float()


def main(make, folder):
    torch.manual_seed(1234)
    model = make()
    for name, p in model.named_parameters():
        if p.dim() == 1 and name.endswith('.bias'):
            p.data.uniform_(-0.5, 0.5)
        elif p.dim() == 1:
            p.data.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    logits_of(model).numpy().astype('<f4').tofile(folder + '/logits.f32')
    print('transformers', transformers.__version__, 'torch', torch.__version__, 'rms of logits', logits_of(model).square().mean().sqrt().item())


def check(name, folder):
    golden = torch.from_file(f'{sys.path[0]}/{name}-hf/logits.f32', size=2 * 12 * 60).view(2, 12, 60)
    print('largest difference of logits', (logits_of(transformers.AutoModelForCausalLM.from_pretrained(folder)) - golden).abs().max().item())


if __name__ == '__main__':
    check(sys.argv[2], sys.argv[3]) if sys.argv[1] == '--check' else main(globals()[sys.argv[1]], sys.argv[2])
