"""Times PyTorch's causal SDPA back ends on the shapes of weft_attention_bench (same counting of operations)."""

import statistics

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = [(64, 1024, 12, 64), (16, 1024, 25, 64), (8, 2048, 24, 96), (4, 2048, 32, 128), (1, 8192, 32, 128)]


def median_ms(call):
    times = []
    for i in range(35):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        stop.record()
        stop.synchronize()
        if i >= 5:
            times.append(start.elapsed_time(stop))
    return statistics.median(times)


def main():
    print(torch.__version__, torch.backends.cudnn.version(), torch.cuda.get_device_name())
    for batch, length, heads, size in SHAPES:
        qkv = torch.randn(batch, length, heads, 3, size, device="cuda", dtype=torch.bfloat16)
        q, k, v = (qkv[:, :, :, i].transpose(1, 2).detach().requires_grad_() for i in range(3))
        dout = torch.randn(batch, length, heads, size, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        tflop = 1e-12 * batch * heads * size * length * length
        for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            with sdpa_kernel(backend):
                forward = median_ms(lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
                out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                backward = median_ms(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))
            print(
                f"{name} B {batch:2} T {length:4} H {heads:2} D {size:3}"
                f"  forward {forward:7.3f} ms {2e3 * tflop / forward:6.1f} TF/s"
                f"  backward {backward:7.3f} ms {5e3 * tflop / backward:6.1f} TF/s"
            )


if __name__ == "__main__":
    main()
