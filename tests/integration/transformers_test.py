"""transformers_test.py DUMP_LOGITS WEFT_MODEL WORK_DIR [cuda]

A random GPT-2 saved by transformers is imported; Weft's logits, transformers' logits of the original and of the exported model
must agree to 1e-4 in fp32, and the exported tensors must be the original bytes.
"""
import subprocess, sys
import numpy as np, torch, transformers
from safetensors.torch import load_file

dump, weft_model, work, *device = sys.argv[1:]
torch.manual_seed(1)
config = transformers.GPT2Config(vocab_size=1000, n_positions=128, n_embd=128, n_layer=3, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
                                 attn_pdrop=0.0)
model = transformers.GPT2LMHeadModel(config).eval()
with torch.no_grad():   # larger than at the start of training, so that logits are too
    for p in model.parameters():
        p.add_(0.05 * torch.randn_like(p))
model.save_pretrained(f"{work}/hf")
tokens = torch.randint(0, 1000, (1, 128))
tokens.numpy().astype(np.int32).tofile(f"{work}/tokens")
subprocess.check_call([weft_model, "import", "--input", f"{work}/hf", "--save", f"{work}/ckpt"])
subprocess.check_call([weft_model, "export", "--load", f"{work}/ckpt", "--output", f"{work}/out", "--no-tokenizer"])
subprocess.check_call([dump, f"{work}/ckpt", f"{work}/tokens", f"{work}/logits", *device])
ours = torch.from_numpy(np.fromfile(f"{work}/logits", np.float32).reshape(128, 1000))
exported = transformers.GPT2LMHeadModel.from_pretrained(f"{work}/out").eval()
with torch.no_grad():
    original_logits, exported_logits = model(tokens).logits[0], exported(tokens).logits[0]
print("largest logit", ours.abs().max().item())
for name, logits in (("original", original_logits), ("exported", exported_logits)):
    difference = (ours - logits).abs().max().item()
    print(f"largest difference to {name}: {difference:.2e}")
    assert difference <= 1e-4, name
before, after = load_file(f"{work}/hf/model.safetensors"), load_file(f"{work}/out/model.safetensors")
assert before.keys() == after.keys(), before.keys() ^ after.keys()
for name in before:
    assert before[name].numpy().tobytes() == after[name].numpy().tobytes(), name
print(len(before), "tensors byte-identical")
