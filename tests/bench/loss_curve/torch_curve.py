"""PyTorch's loss curve for the configuration that weft-train runs: same initial weights, data order and schedule.

usage:
  torch_curve.py init HF_DIR                             a GPT-2 124M with N(0, 0.02) weights, as transformers saves it
  torch_curve.py train HF_DIR DATASET STEPS CURVE.jsonl  trains it: bf16 autocast, fp32 master weights
  torch_curve.py compare WEFT_METRICS.jsonl CURVE.jsonl  relative differences at every 20th step; exit 1 above 0.5 %

Independent of Weft's code: the dataset is read and ordered here from the description of Megatron-Core's GPTDataset.
"""
import json, math, sys
import numpy as np

BATCH, SEQ, SEED, SPLIT = 64, 1024, 1234, (0.99, 0.01, 0.0)
LR, MIN_LR, WARMUP, DECAY_STEPS = 3e-4, 3e-5, 60, 300   # steps; the rate of step i is that of i-1 finished steps
LAYERS, HIDDEN, HEADS, VOCAB, PADDED = 12, 768, 12, 50257, 50304


def learning_rate(done):
    if done <= WARMUP:
        return LR * done / WARMUP
    if done > DECAY_STEPS:
        return MIN_LR
    r = (done - WARMUP) / (DECAY_STEPS - WARMUP)
    return MIN_LR + 0.5 * (1 + math.cos(math.pi * r)) * (LR - MIN_LR)


def samples(prefix, num_samples):
    """Yields the num_samples first training samples, (SEQ + 1) tokens each."""
    idx = open(prefix + ".idx", "rb").read()
    assert idx[:9] == b"MMIDIDX\x00\x00" and idx[17] == 8
    n = int.from_bytes(idx[18:26], "little")
    lengths = np.frombuffer(idx, np.int32, n, 34)
    offsets = np.frombuffer(idx, np.int64, n, 34 + 4 * n)
    tokens = np.memmap(prefix + ".bin", np.uint16, "r")
    docs = np.arange(round(SPLIT[0] / sum(SPLIT) * n), dtype=np.int32)
    total = int(lengths[docs].astype(np.int64).sum())
    epochs = 1
    while epochs * total < num_samples * SEQ + 1:
        epochs += 1
    rng = np.random.RandomState(SEED)
    separate = False
    if epochs > 1:
        before = ((epochs - 1) * total - 1) // SEQ
        separate = num_samples - before < int(0.80 * ((total - 1) // SEQ))
    if separate:
        first = np.tile(docs, epochs - 1); rng.shuffle(first)
        last = docs.copy(); rng.shuffle(last)
        order = np.concatenate([first, last])
    else:
        order = np.tile(docs, epochs); rng.shuffle(order)
    built = (epochs * total - 1) // SEQ
    if separate:
        a = np.arange(before, dtype=np.uint32); rng.shuffle(a)
        b = np.arange(before, built, dtype=np.uint32); rng.shuffle(b)
        shuffle = np.concatenate([a, b])
    else:
        shuffle = np.arange(built, dtype=np.uint32); rng.shuffle(shuffle)
    stream = np.concatenate([tokens[offsets[d] // 2: offsets[d] // 2 + lengths[d]] for d in order])
    for i in range(num_samples):
        at = int(shuffle[i]) * SEQ
        yield stream[at:at + SEQ + 1].astype(np.int64)


def init(hf_dir):
    import torch, transformers
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=SEQ, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS,
        activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2:
                p.normal_(0, 0.02 / math.sqrt(2 * LAYERS) if name.endswith("c_proj.weight") else 0.02)
    model.save_pretrained(hf_dir)


def train(hf_dir, prefix, steps, out):
    import torch, torch.nn.functional as F, time
    from safetensors.torch import load_file
    torch.backends.cuda.matmul.allow_tf32 = False
    w = load_file(hf_dir + "/model.safetensors")
    p = {k.removeprefix("transformer."): v.cuda().float() for k, v in w.items() if "lm_head" not in k}
    p["wte.weight"] = F.pad(p["wte.weight"], (0, 0, 0, PADDED - VOCAB))
    for v in p.values():
        v.requires_grad_(True)
    optimizer = torch.optim.AdamW(
        [{"params": [v for v in p.values() if v.dim() == 2], "weight_decay": 0.1},
         {"params": [v for v in p.values() if v.dim() == 1], "weight_decay": 0.0}], lr=LR, betas=(0.9, 0.95), eps=1e-8, fused=True)

    def ln(x, name):
        return F.layer_norm(x, (HIDDEN,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def block(x, i):
        B, T, C = x.shape
        h = f"h.{i}."
        qkv = F.linear(ln(x, h + "ln_1"), p[h + "attn.c_attn.weight"].t(), p[h + "attn.c_attn.bias"])
        q, k, v = [t.view(B, T, HEADS, C // HEADS).transpose(1, 2) for t in qkv.split(C, 2)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        x = x + F.linear(y, p[h + "attn.c_proj.weight"].t(), p[h + "attn.c_proj.bias"])
        y = F.gelu(F.linear(ln(x, h + "ln_2"), p[h + "mlp.c_fc.weight"].t(), p[h + "mlp.c_fc.bias"]), approximate="tanh")
        return x + F.linear(y, p[h + "mlp.c_proj.weight"].t(), p[h + "mlp.c_proj.bias"])

    def loss_of(tokens):
        inputs, labels = tokens[:, :-1], tokens[:, 1:]
        x = p["wte.weight"][inputs] + p["wpe.weight"]
        for i in range(LAYERS):
            x = block(x, i)
        logits = F.linear(ln(x, "ln_f"), p["wte.weight"])
        return F.cross_entropy(logits.float().view(-1, PADDED), labels.reshape(-1))

    loss_of = torch.compile(loss_of)
    it = samples(prefix, steps * BATCH)
    with open(out, "w") as f:
        for step in range(1, steps + 1):
            started = time.time()
            batch = torch.from_numpy(np.stack([next(it) for _ in range(BATCH)])).cuda()
            with torch.autocast("cuda", torch.bfloat16):
                loss = loss_of(batch)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step - 1)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            f.write(json.dumps({"iteration": step, "lm_loss": loss.item(), "grad_norm": norm.item(),
                                "ms": round(1e3 * (time.time() - started), 1)}) + "\n")


def compare(ours_file, theirs_file):
    read = lambda name: {r["iteration"]: r for r in map(json.loads, open(name)) if r.get("lm_loss") is not None}
    ours, theirs = read(ours_file), read(theirs_file)
    worst = 0.0
    print("step     weft  pytorch  difference")
    for step in [1] + list(range(20, max(theirs) + 1, 20)):
        a, b = ours[step]["lm_loss"], theirs[step]["lm_loss"]
        worst = max(worst, abs(a - b) / b)
        print(f"{step:4d} {a:8.5f} {b:8.5f} {100 * (a - b) / b:+9.4f} %")
    print(f"largest difference {100 * worst:.4f} % (bound 0.5 %)")
    return 0 if worst <= 0.005 else 1


if __name__ == "__main__":
    command, *args = sys.argv[1:]
    if command == "train":
        args[2] = int(args[2])
    sys.exit({"init": init, "train": train, "compare": compare}[command](*args))
