#!/usr/bin/env python3
"""Makes gpt.golden, llama.golden, bloom.golden, tr8.golden (bigscience's 104B), geglu.golden, reglu.golden, liglu.golden, erf.golden, d80.golden, d145.golden, llama31.golden,
qwen2.golden, qwen3.golden, nemotron.golden and opt.golden: a small model's logits, loss, gradients and 20 AdamW steps, by PyTorch on the CPU in fp32.

    python3 tests/golden/trainer/make_golden.py gpt tests/golden/trainer/gpt.golden      # needs torch and numpy
    python3 tests/golden/trainer/make_golden.py llama tests/golden/trainer/llama.golden
    python3 tests/golden/trainer/make_golden.py bloom tests/golden/trainer/bloom.golden
    python3 tests/golden/trainer/make_golden.py tr8 tests/golden/trainer/tr8.golden
    python3 tests/golden/trainer/make_golden.py geglu tests/golden/trainer/geglu.golden
    python3 tests/golden/trainer/make_golden.py reglu tests/golden/trainer/reglu.golden
    python3 tests/golden/trainer/make_golden.py liglu tests/golden/trainer/liglu.golden
    python3 tests/golden/trainer/make_golden.py erf tests/golden/trainer/erf.golden
    python3 tests/golden/trainer/make_golden.py d80 tests/golden/trainer/d80.golden
    python3 tests/golden/trainer/make_golden.py d145 tests/golden/trainer/d145.golden
    python3 tests/golden/trainer/make_golden.py muon tests/golden/trainer/muon.golden
    python3 tests/golden/trainer/make_golden.py muon-llama tests/golden/trainer/muon-llama.golden
    python3 tests/golden/trainer/make_golden.py llama31 tests/golden/trainer/llama31.golden     # and so on

geglu has --glu-activation geglu and turns the first quarter of each head (--rotary-percent 0.25); reglu and liglu have those activations, reglu
without biases and half a head that turns, liglu with a table of positions; erf has the exact GELU and heads that are
larger than C / H (--kv-channels), as all of them have; d80 and d145 have heads of those sizes (GPT-3 2.7B, bigscience's 104B), of which
the second, whose heads share a key, has no flash attention on a GPU. llama31 has Llama-3.1's scaled frequencies, qwen2 biases of
queries, keys and values alone, qwen3 an RMSNorm of each query and key, nemotron squared ReLU, LayerNorms (of queries and keys, too) whose
weights are stored less 1, and half a head that turns, opt ReLU.

muon and muon-llama are 20 steps of Muon with fp32 products; they also have the matrices after the first step, and the same with bf16
products. The second one has groups of queries, a gated fc1, Nesterov's momentum, another scale and other coefficients, and one matrix for
queries, keys and values.

The models are written out in plain PyTorch, in Megatron's parameter names and layouts (weights [out, in], QKV rows per head
[query, key, value], or per group [queries, key, value]; fc1 of a gated linear unit [gate, up]). Weights and tokens are not stored: both sides draw them from the generator below. H * D differs from C on
purpose, so that no size can stand in for another; D = 64 where nothing else is said, so that the GPU's fastest attention runs the same file.
"""
import math
import platform
import sys

import numpy as np
import torch
import torch.nn.functional as F

SHAPES = dict(
    gpt=dict(num_layers=2, hidden_size=32, num_heads=2, head_size=64, ffn_size=64, seq_length=32, vocab_size=128,
             micro_batch_size=2, num_micro_batches=2, num_steps=20),
    llama=dict(num_layers=2, hidden_size=16, num_heads=4, head_size=64, ffn_size=40, seq_length=16, vocab_size=64,
               micro_batch_size=2, num_micro_batches=2, num_steps=20,
               uses_rms_norm=1, unties_head=1, has_biases=0, is_swiglu=1, rotary_base=10000, num_query_groups=2),
    bloom=dict(num_layers=2, hidden_size=16, num_heads=3, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
               micro_batch_size=2, num_micro_batches=2, num_steps=20, has_embedding_norm=1, has_alibi=1),
    tr8=dict(num_layers=2, hidden_size=16, num_heads=2, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
             micro_batch_size=2, num_micro_batches=2, num_steps=20, has_embedding_norm=1),
    geglu=dict(num_layers=2, hidden_size=16, num_heads=2, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
               micro_batch_size=2, num_micro_batches=2, num_steps=20, is_geglu=1, rotary_base=10000, rotary_size=16),
    reglu=dict(num_layers=2, hidden_size=16, num_heads=2, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
               micro_batch_size=2, num_micro_batches=2, num_steps=20, is_reglu=1, has_biases=0, rotary_base=10000, rotary_size=32),
    liglu=dict(num_layers=2, hidden_size=16, num_heads=2, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
               micro_batch_size=2, num_micro_batches=2, num_steps=20, is_liglu=1),
    erf=dict(num_layers=2, hidden_size=16, num_heads=3, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
             micro_batch_size=2, num_micro_batches=2, num_steps=20, has_exact_gelu=1),
    d80=dict(num_layers=2, hidden_size=16, num_heads=2, head_size=80, ffn_size=24, seq_length=12, vocab_size=48,
             micro_batch_size=2, num_micro_batches=2, num_steps=20),
    d145=dict(num_layers=2, hidden_size=16, num_heads=2, head_size=145, ffn_size=24, seq_length=12, vocab_size=48,
              micro_batch_size=2, num_micro_batches=2, num_steps=20, num_query_groups=1),
    muon=dict(num_layers=2, hidden_size=32, num_heads=2, head_size=16, ffn_size=64, seq_length=32, vocab_size=64,
              micro_batch_size=2, num_micro_batches=2, num_steps=20,
              has_muon=1, muon_momentum=0.95, muon_nesterov=0, muon_splits_qkv=1, muon_scale=0, muon_extra_scale=0.2, muon_polar_express=0,
              muon_iterations=5),
    llama31=dict(num_layers=2, hidden_size=16, num_heads=4, head_size=64, ffn_size=40, seq_length=16, vocab_size=64,
                 micro_batch_size=2, num_micro_batches=2, num_steps=20,
                 uses_rms_norm=1, unties_head=1, has_biases=0, is_swiglu=1, rotary_base=500000, rope_scaling_factor=8, num_query_groups=2),
    qwen2=dict(num_layers=2, hidden_size=16, num_heads=4, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
               micro_batch_size=2, num_micro_batches=2, num_steps=20,
               uses_rms_norm=1, has_biases=0, has_qkv_bias=1, is_swiglu=1, rotary_base=1000000, num_query_groups=2),
    qwen3=dict(num_layers=2, hidden_size=16, num_heads=4, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
               micro_batch_size=2, num_micro_batches=2, num_steps=20,
               uses_rms_norm=1, has_biases=0, is_swiglu=1, rotary_base=1000000, num_query_groups=2, has_qk_norm=1),
    nemotron=dict(num_layers=2, hidden_size=16, num_heads=4, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
                  micro_batch_size=2, num_micro_batches=2, num_steps=20, unties_head=1, has_biases=0, has_squared_relu=1,
                  stores_norms_less_one=1, rotary_base=10000, rotary_size=32, num_query_groups=2, has_qk_norm=1),
    opt=dict(num_layers=2, hidden_size=16, num_heads=2, head_size=64, ffn_size=24, seq_length=12, vocab_size=48,
             micro_batch_size=2, num_micro_batches=2, num_steps=20, has_relu=1))
SHAPES['muon-llama'] = SHAPES['llama'] | dict(
    num_heads=4, head_size=16, hidden_size=24, has_muon=1, muon_momentum=0.9, muon_nesterov=1, muon_splits_qkv=0, muon_scale=1,
    muon_extra_scale=1, muon_polar_express=1, muon_iterations=8)
NAME = sys.argv[1]
SHAPE = SHAPES[NAME]
RMS_NORM, UNTIED, BIASES = SHAPE.get('uses_rms_norm', 0), SHAPE.get('unties_head', 0), SHAPE.get('has_biases', 1)
ROTARY_BASE, GROUPS = SHAPE.get('rotary_base', 0), SHAPE.get('num_query_groups', SHAPE['num_heads'])
EMBEDDING_NORM = SHAPE.get('has_embedding_norm', 0)
ALIBI = SHAPE.get('has_alibi', 0)
QKV_BIAS, QK_NORM = SHAPE.get('has_qkv_bias', BIASES), SHAPE.get('has_qk_norm', 0)
NORMS_LESS_ONE, ROPE_SCALING = SHAPE.get('stores_norms_less_one', 0), SHAPE.get('rope_scaling_factor', 0)
ACTIVATION = next((act for name, act in dict(has_exact_gelu=F.gelu, has_relu=F.relu, has_squared_relu=lambda y: F.relu(y).square()).items() if name in SHAPE),
                  lambda y: F.gelu(y, approximate='tanh'))
GLU = next((act for name, act in dict(is_swiglu=F.silu, is_geglu=F.gelu, is_reglu=F.relu, is_liglu=lambda gate: gate).items() if name in SHAPE), None)
OPTIMIZER = dict(lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip_grad=0.5)
L, C, H, D, FF, T, V = (SHAPE[k] for k in (
    'num_layers', 'hidden_size', 'num_heads', 'head_size', 'ffn_size', 'seq_length', 'vocab_size'))
ROTARY = SHAPE.get('rotary_size', D)  # elements of a head that are turned; the others stay
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
    """Uniform in [-s, s), s a power of two: exact in fp32. Norm weights lie around 1, or as they are stored less 1."""
    u = (words(name, int(np.prod(shape))).astype(np.float32) / np.float32(2**24) - np.float32(0.5)).reshape(shape)
    if name.endswith('layernorm.weight'):
        return 1 - NORMS_LESS_ONE + u * np.float32(0.5)
    return u * np.float32(0.25)


def tokens(step):
    """(samples, T + 1) token ids of one global batch."""
    samples = B * MICRO_BATCHES
    return (words(f'tokens {step}', samples * (T + 1)) % V).reshape(samples, T + 1)


def parameters():
    p = {'embedding.word_embeddings.weight': (V, C)}
    if EMBEDDING_NORM:
        p |= {'embedding.word_embeddings_layernorm.weight': (C,), 'embedding.word_embeddings_layernorm.bias': (C,)}
    if not ROTARY_BASE and not ALIBI:
        p['embedding.position_embeddings.weight'] = (T, C)
    qkv, fc1 = (H + 2 * GROUPS) * D, (2 if GLU else 1) * FF
    for i in range(L):
        n = f'decoder.layers.{i}.'
        p |= {n + 'input_layernorm.weight': (C,), n + 'input_layernorm.bias': (C,),
              n + 'self_attention.linear_qkv.weight': (qkv, C), n + 'self_attention.linear_qkv.bias': (qkv,),
              n + 'self_attention.linear_proj.weight': (C, H * D), n + 'self_attention.linear_proj.bias': (C,),
              n + 'pre_mlp_layernorm.weight': (C,), n + 'pre_mlp_layernorm.bias': (C,),
              n + 'mlp.linear_fc1.weight': (fc1, C), n + 'mlp.linear_fc1.bias': (fc1,),
              n + 'mlp.linear_fc2.weight': (C, FF), n + 'mlp.linear_fc2.bias': (C,)}
        if QK_NORM:
            p |= {f'{n}self_attention.{x}_layernorm.{y}': (D,) for x in 'kq' for y in ('weight', 'bias')}
    p |= {'decoder.final_layernorm.weight': (C,), 'decoder.final_layernorm.bias': (C,)}
    if UNTIED:
        p['output_layer.weight'] = (V, C)
    p = {name: shape for name, shape in p.items()
         if not (name.endswith('layernorm.bias') and RMS_NORM)
         and not ('linear' in name and name.endswith('.bias') and not (QKV_BIAS if 'linear_qkv' in name else BIASES))}
    return {name: torch.nn.Parameter(torch.tensor(weight(name, *shape))) for name, shape in p.items()}


def norm(x, weights, name):
    """LayerNorm or RMSNorm, whose weights and biases are `name`.weight and `name`.bias."""
    weight = weights[name + '.weight'] + NORMS_LESS_ONE
    if RMS_NORM:
        return F.rms_norm(x, weight.shape, weight, 1e-5)
    return F.layer_norm(x, weight.shape, weight, weights[name + '.bias'], 1e-5)


def linear(x, weights, name):
    return F.linear(x, weights[name + '.weight'], weights.get(name + '.bias'))


def frequencies():
    """Llama-3.1 divides those that turn less than once in 8192 positions, keeps those that turn four times, and blends the others
    (transformers, modeling_rope_utils.py _compute_llama3_parameters)."""
    f = float(ROTARY_BASE) ** (-torch.arange(0, ROTARY, 2) / ROTARY)
    if not ROPE_SCALING:
        return f
    kept = ((8192 * f / (2 * math.pi) - 1) / (4 - 1)).clamp(0, 1)
    return kept * f + (1 - kept) * f / ROPE_SCALING


def rotate(x):
    """Turns the pairs (i, R/2 + i) of the first R of (..., T, D) by position * base^(-2i/R) (Su et al. 2021, arXiv:2104.09864)."""
    if not ROTARY_BASE:
        return x
    angles = torch.arange(T)[:, None] * frequencies()
    a, b = x[..., :ROTARY].chunk(2, dim=-1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin(), x[..., ROTARY:]), dim=-1)


def alibi_slopes(n):
    """As in the authors' code (Press et al. 2022, arXiv:2108.12409)."""
    below = 2**int(math.log2(n))
    slopes = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    return slopes if below == n else slopes + alibi_slopes(2 * below)[0::2][:n - below]


def distances():
    """What ALiBi adds to the scores (H, T, T)."""
    if not ALIBI:
        return 0
    positions = torch.arange(T)
    return torch.tensor(alibi_slopes(H))[:, None, None] * (positions[None, :] - positions[:, None])


def activation(y):
    """GELU, ReLU, its square, or a gated linear unit (Shazeer 2020, arXiv:2002.05202); Megatron's GEGLU has the exact GELU."""
    if not GLU:
        return ACTIVATION(y)
    gate, up = y.chunk(2, dim=-1)
    return GLU(gate) * up


def logits_of(p, ids):
    x = p['embedding.word_embeddings.weight'][ids]
    if EMBEDDING_NORM:
        x = norm(x, p, 'embedding.word_embeddings_layernorm')
    if not ROTARY_BASE and not ALIBI:
        x = x + p['embedding.position_embeddings.weight']
    causal = torch.tril(torch.ones(T, T, dtype=torch.bool))
    for i in range(L):
        w = {k.removeprefix(f'decoder.layers.{i}.'): v for k, v in p.items() if k.startswith(f'decoder.layers.{i}.')}
        qkv = linear(norm(x, w, 'input_layernorm'), w, 'self_attention.linear_qkv')
        groups = qkv.view(-1, T, GROUPS, H // GROUPS + 2, D).permute(0, 2, 3, 1, 4)  # (B, G, R + 2, T, D)
        q, k, v = groups[:, :, :-2], groups[:, :, -2:-1], groups[:, :, -1:]
        if QK_NORM:
            q, k = norm(q, w, 'self_attention.q_layernorm'), norm(k, w, 'self_attention.k_layernorm')
        k = k.expand(-1, -1, H // GROUPS, -1, -1)
        q, k, v = (rotate(q).flatten(1, 2), rotate(k).flatten(1, 2), v.expand_as(k).flatten(1, 2))
        scores = (q @ k.transpose(-1, -2) / D**0.5 + distances()).masked_fill(~causal, float('-inf'))
        att = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, T, H * D)
        x = x + linear(att, w, 'self_attention.linear_proj')
        y = linear(norm(x, w, 'pre_mlp_layernorm'), w, 'mlp.linear_fc1')
        x = x + linear(activation(y), w, 'mlp.linear_fc2')
    head = p['output_layer.weight' if UNTIED else 'embedding.word_embeddings.weight']
    return norm(x, p, 'decoder.final_layernorm') @ head.T


def loss_of(p, batch):
    ids = torch.tensor(batch)
    logits = logits_of(p, ids[:, :-1])
    return logits, F.cross_entropy(logits.reshape(-1, V), ids[:, 1:].reshape(-1))


# Emerging-Optimizers, muon_utils.py
QUINTIC = [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)]
POLAR_EXPRESS = [(8.2051, -22.9019, 16.4607), (4.0664, -2.8612, 0.5184), (3.9096, -2.8234, 0.5250), (3.2856, -2.4153, 0.4853),
                 (2.2779, -1.6198, 0.3985), (1.8726, -1.2307, 0.3585), (1.8564, -1.2132, 0.3568), (1.8750, -1.2500, 0.3750)]


def orthogonal(x, dtype):
    """Newton-Schulz iterations on the smaller side (Jordan et al. 2024), and the scale of the matrix."""
    rows, cols = x.shape
    transposes = rows > cols
    x = F.normalize(x.mT if transposes else x, p=2, dim=(-2, -1), eps=1e-7).to(dtype)
    for a, b, c in (POLAR_EXPRESS if SHAPE['muon_polar_express'] else QUINTIC)[:SHAPE['muon_iterations']]:
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, alpha=c, beta=b), x, alpha=1.0, beta=a)
    x = (x.mT if transposes else x).float()
    scale = (max(rows, cols) if SHAPE['muon_scale'] == 0 else rows / cols) ** 0.5
    return x * scale * SHAPE['muon_extra_scale']


class Muon(torch.optim.Optimizer):
    """Megatron's: momentum as a moving average, decoupled weight decay, and queries, keys and values of all groups of heads apart."""

    def __init__(self, named, lr, weight_decay, dtype):
        self.names, self.dtype = {q: name for name, q in named}, dtype
        super().__init__(list(self.names), dict(lr=lr, weight_decay=weight_decay))

    def update_of(self, q, direction):
        if not (SHAPE['muon_splits_qkv'] and self.names[q].endswith('linear_qkv.weight')):
            return orthogonal(direction, self.dtype)
        groups = direction.view(GROUPS, H // GROUPS + 2, D, C)
        parts = [groups[:, :-2], groups[:, -2:-1], groups[:, -1:]]
        return torch.cat([orthogonal(part.reshape(-1, C), self.dtype).view(part.shape) for part in parts], dim=1).view(direction.shape)

    @torch.no_grad()
    def step(self):
        beta = SHAPE['muon_momentum']
        for group in self.param_groups:
            for q in group['params']:
                momentum = self.state[q].setdefault('momentum_buffer', torch.zeros_like(q))
                q.add_(q, alpha=-group['weight_decay'] * group['lr'])
                momentum.lerp_(q.grad, 1 - beta)
                direction = q.grad.lerp(momentum, beta) if SHAPE['muon_nesterov'] else momentum
                q.add_(self.update_of(q, direction), alpha=-group['lr'])


def is_muons(name):
    return SHAPE.get('has_muon', 0) and 'linear' in name and name.endswith('.weight')


def muon_after_one_step(dtype):
    """The matrices after the first step."""
    p, o = parameters(), OPTIMIZER
    loss_of(p, tokens(0))[1].backward()
    torch.nn.utils.clip_grad_norm_(p.values(), o['clip_grad'])
    matrices = {name: q for name, q in p.items() if is_muons(name)}
    Muon(matrices.items(), o['lr'], o['weight_decay'], dtype).step()
    return matrices


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
        [dict(params=[q for name, q in p.items() if q.dim() > 1 and not is_muons(name)], weight_decay=o['weight_decay']),
         dict(params=[q for q in p.values() if q.dim() == 1], weight_decay=0.0)],
        lr=o['lr'], betas=(o['beta1'], o['beta2']), eps=o['eps'])
    muon = None
    if SHAPE.get('has_muon', 0):
        muon = Muon([(name, q) for name, q in p.items() if is_muons(name)], o['lr'], o['weight_decay'], torch.float32)
        for kind, dtype in (('first/', torch.float32), ('first bf16/', torch.bfloat16)):
            out |= {kind + name: q for name, q in muon_after_one_step(dtype).items()}
    losses, norms = [], []
    for step in range(STEPS):
        for q in p.values():
            q.grad = None
        _, loss = loss_of(p, tokens(step))
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), o['clip_grad']))
        optimizer.step()
        if muon:
            muon.step()
        losses.append(loss)
    out['step losses'], out['step norms'] = torch.stack(losses), torch.stack(norms)
    for name in ('embedding.word_embeddings.weight', 'embedding.position_embeddings.weight',
                 'embedding.word_embeddings_layernorm.weight', 'embedding.word_embeddings_layernorm.bias',
                 'decoder.layers.0.input_layernorm.weight', 'decoder.layers.0.mlp.linear_fc1.bias',
                 'decoder.layers.1.self_attention.q_layernorm.weight', 'decoder.layers.1.self_attention.k_layernorm.weight',
                 'decoder.layers.1.self_attention.linear_proj.weight', 'decoder.layers.1.mlp.linear_fc2.weight',
                 'decoder.final_layernorm.bias', 'output_layer.weight',
                 'decoder.layers.0.self_attention.linear_qkv.bias' if QKV_BIAS > BIASES else ''):
        if name in p:
            out['final/' + name] = p[name]

    header = [f'# weft golden values of a small {NAME.upper()}; little-endian fp32 after the line "end"',
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
    main(sys.argv[2])
