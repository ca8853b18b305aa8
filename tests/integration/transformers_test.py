"""transformers_test.py DUMP_LOGITS WEFT_MODEL WORK_DIR [cuda]

A random model of each family, saved by transformers, is imported; Weft's logits, transformers' logits of the original and of the
exported model must agree to 1e-4 in fp32, and the exported tensors must be the original bytes.
"""
import subprocess, sys
import numpy as np, torch, transformers
from safetensors.torch import load_file

dump, weft_model, work, *device = sys.argv[1:]
LLAMA = dict(vocab_size=1000, hidden_size=128, intermediate_size=192, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             head_dim=64, max_position_embeddings=128)
SCALED = dict(rope_theta=500000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
FAMILIES = dict(
    gpt2=transformers.GPT2Config(vocab_size=1000, n_positions=128, n_embd=128, n_layer=3, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
                                 attn_pdrop=0.0),
    llama31=transformers.LlamaConfig(**LLAMA, rope_parameters=SCALED), mistral=transformers.MistralConfig(**LLAMA, sliding_window=None),
    qwen2=transformers.Qwen2Config(**{**LLAMA, "head_dim": 32}), qwen3=transformers.Qwen3Config(**LLAMA))
tokens = torch.randint(0, 1000, (1, 128), generator=torch.Generator().manual_seed(1))
tokens.numpy().astype(np.int32).tofile(f"{work}/tokens")

for family, config in FAMILIES.items():
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    folder = f"{work}/{family}"
    with torch.no_grad():   # larger than at the start of training, so that logits are too
        for p in model.parameters():
            p.add_(0.05 * torch.randn_like(p))
    model.save_pretrained(f"{folder}/hf")
    subprocess.check_call([weft_model, "import", "--input", f"{folder}/hf", "--save", f"{folder}/ckpt"])
    subprocess.check_call([weft_model, "export", "--load", f"{folder}/ckpt", "--output", f"{folder}/out", "--no-tokenizer"])
    subprocess.check_call([dump, f"{folder}/ckpt", f"{work}/tokens", f"{folder}/logits", *device])
    ours = torch.from_numpy(np.fromfile(f"{folder}/logits", np.float32).reshape(128, 1000))
    exported = transformers.AutoModelForCausalLM.from_pretrained(f"{folder}/out").eval()
    with torch.no_grad():
        original_logits, exported_logits = model(tokens).logits[0], exported(tokens).logits[0]
    print(family, "largest logit", ours.abs().max().item())
    for name, logits in (("original", original_logits), ("exported", exported_logits)):
        difference = (ours - logits).abs().max().item()
        print(f"largest difference to {name}: {difference:.2e}")
        assert difference <= 1e-4, (family, name)
    before, after = load_file(f"{folder}/hf/model.safetensors"), load_file(f"{folder}/out/model.safetensors")
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    for name in before:
        assert before[name].numpy().tobytes() == after[name].numpy().tobytes(), name
    print(len(before), "tensors byte-identical")
