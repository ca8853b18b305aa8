#!/usr/bin/env bash
# Prints the architectures of this machine's GPUs as CMake lists them ("80;90a"); nothing without one. Hopper's own instructions
# are only in 90a.
set -euo pipefail
{ nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
  grep -E '^[0-9]+\.[0-9]$' | sort -u | sed 's/\.//; s/^90$/90a/' | paste -sd ';' || true
