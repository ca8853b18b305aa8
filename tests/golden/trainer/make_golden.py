#!/usr/bin/env python3
"""Makes gpt.golden: a small GPT's logits, loss, gradients and 20 AdamW steps, by PyTorch on the CPU in fp32.

    python3 tests/golden/trainer/make_golden.py tests/golden/trainer/gpt.golden      # needs torch and numpy

The model is written out in plain PyTorch, in Megatron's parameter names and layouts (weights [out, in], QKV rows per head
[query, key, value]). Weights and tokens are not stored: both sides draw them from the generator below. H * D differs from C on
purpose, so that no size can stand in for another; D = 64 so that the GPU's attention runs the same file.
"""
import platform
import sys

import numpy as np
import torch
import torch.nn.functional as F

SHAPE = dict(num_layers=2, hidden_size=32, num_heads=2, head_size=64, ffn_size=64, seq_length=32, vocab_size=128,
             micro_batch_size=2, num_micro_batches=2, num_steps=20)
OPTIMIZER = dict(lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip_grad=0.5)
L, C, H, D, FF, T, V = (SHAPE[k] for k in (
    'num_layers', 'hidden_size', 'num_heads', 'head_size', 'ffn_size', 'seq_length', 'vocab_size'))
B, MICRO_BATCHES, STEPS = SHAPE['micro_batch_size'], SHAPE['num_micro_batches'], SHAPE['num_steps']


def words(name, count):
    """count 24-bit numbers: a 64-bit LCG (Knuth's MMIX) that starts from the FNV-1a hash of `name`."""
    state, mask = 0xcbf29ce484222325, (1 << 64) - 1
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001b3) & mask
    out = np.empty(count, dtype=np.int64)
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & mask
        out[i] = state >> 40
    return out


def weight(name, *shape):
    """Uniform in [-s, s), s a power of two: exact in fp32. Norm weights lie around 1."""
    u = (words(name, int(np.prod(shape))).astype(np.float32) / np.float32(2**24) - np.float32(0.5)).reshape(shape)
    if name.endswith('layernorm.weight'):
        return 1 + u * np.float32(0.5)
    return u * np.float32(0.25)


def tokens(step):
    """(samples, T + 1) token ids of one global batch."""
    samples = B * MICRO_BATCHES
    return (words(f'tokens {step}', samples * (T + 1)) % V).reshape(samples, T + 1)


def parameters():
    p = {'embedding.word_embeddings.weight': (V, C), 'embedding.position_embeddings.weight': (T, C)}
    for i in range(L):
        n = f'decoder.layers.{i}.'
        p |= {n + 'input_layernorm.weight': (C,), n + 'input_layernorm.bias': (C,),
              n + 'self_attention.linear_qkv.weight': (3 * H * D, C), n + 'self_attention.linear_qkv.bias': (3 * H * D,),
              n + 'self_attention.linear_proj.weight': (C, H * D), n + 'self_attention.linear_proj.bias': (C,),
              n + 'pre_mlp_layernorm.weight': (C,), n + 'pre_mlp_layernorm.bias': (C,),
              n + 'mlp.linear_fc1.weight': (FF, C), n + 'mlp.linear_fc1.bias': (FF,),
              n + 'mlp.linear_fc2.weight': (C, FF), n + 'mlp.linear_fc2.bias': (C,)}
    p |= {'decoder.final_layernorm.weight': (C,), 'decoder.final_layernorm.bias': (C,)}
    return {name: torch.nn.Parameter(torch.tensor(weight(name, *shape))) for name, shape in p.items()}


def logits_of(p, ids):
    x = p['embedding.word_embeddings.weight'][ids] + p['embedding.position_embeddings.weight']
    causal = torch.tril(torch.ones(T, T, dtype=torch.bool))
    for i in range(L):
        w = {k.removeprefix(f'decoder.layers.{i}.'): v for k, v in p.items() if k.startswith(f'decoder.layers.{i}.')}
        y = F.layer_norm(x, (C,), w['input_layernorm.weight'], w['input_layernorm.bias'], 1e-5)
        qkv = F.linear(y, w['self_attention.linear_qkv.weight'], w['self_attention.linear_qkv.bias'])
        q, k, v = qkv.view(-1, T, H, 3, D).permute(3, 0, 2, 1, 4)
        scores = (q @ k.transpose(-1, -2) / D**0.5).masked_fill(~causal, float('-inf'))
        att = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, T, H * D)
        x = x + F.linear(att, w['self_attention.linear_proj.weight'], w['self_attention.linear_proj.bias'])
        y = F.layer_norm(x, (C,), w['pre_mlp_layernorm.weight'], w['pre_mlp_layernorm.bias'], 1e-5)
        y = F.gelu(F.linear(y, w['mlp.linear_fc1.weight'], w['mlp.linear_fc1.bias']), approximate='tanh')
        x = x + F.linear(y, w['mlp.linear_fc2.weight'], w['mlp.linear_fc2.bias'])
    x = F.layer_norm(x, (C,), p['decoder.final_layernorm.weight'], p['decoder.final_layernorm.bias'], 1e-5)
    return x @ p['embedding.word_embeddings.weight'].T


def loss_of(p, batch):
    ids = torch.tensor(batch)
    logits = logits_of(p, ids[:, :-1])
    return logits, F.cross_entropy(logits.reshape(-1, V), ids[:, 1:].reshape(-1))


def main(path):
    out = {}
    p = parameters()
    logits, loss = loss_of(p, tokens(0))
    loss.backward()
    out['logits'] = logits[:B]  # of the first micro-batch
    out['loss'] = loss
    for name, q in p.items():
        out['gradient/' + name] = q.grad.clone()

    o = OPTIMIZER
    optimizer = torch.optim.AdamW(
        [dict(params=[q for q in p.values() if q.dim() > 1], weight_decay=o['weight_decay']),
         dict(params=[q for q in p.values() if q.dim() == 1], weight_decay=0.0)],
        lr=o['lr'], betas=(o['beta1'], o['beta2']), eps=o['eps'])
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        _, loss = loss_of(p, tokens(step))
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), o['clip_grad']))
        optimizer.step()
        losses.append(loss)
    out['step losses'], out['step norms'] = torch.stack(losses), torch.stack(norms)
    for name in ('embedding.word_embeddings.weight', 'embedding.position_embeddings.weight',
                 'decoder.layers.0.input_layernorm.weight', 'decoder.layers.0.mlp.linear_fc1.bias',
                 'decoder.layers.1.self_attention.linear_proj.weight', 'decoder.layers.1.mlp.linear_fc2.weight',
                 'decoder.final_layernorm.bias'):
        out['final/' + name] = p[name]

    header = ['# weft golden values of a small GPT; little-endian fp32 after the line "end"',
              f'# made by tests/golden/trainer/make_golden.py with PyTorch {torch.__version__}, NumPy {np.__version__}, '
              f'Python {platform.python_version()}, CPU, {torch.get_num_threads()} threads']
    header += [f'value {k} {v}' for k, v in (SHAPE | OPTIMIZER).items()]
    header += [f'tensor {t.numel()} {name}' for name, t in out.items()]
    with open(path, 'wb') as f:
        f.write(('\n'.join(header) + '\nend\n').encode())
        for t in out.values():
            f.write(t.detach().numpy().astype('<f4').tobytes())
    print('losses', [round(x.item(), 4) for x in losses], 'norms', [round(x.item(), 4) for x in norms])


if __name__ == '__main__':
    torch.manual_seed(0)
    main(sys.argv[1])
