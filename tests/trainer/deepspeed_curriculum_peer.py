"""Compares the lengths of weft-train's rows with DeepSpeed's own CurriculumScheduler, for random curricula.

usage: deepspeed_curriculum_peer.py WEFT_TRAIN DEEPSPEED_SOURCE --cases N --seed S

Runs in a folder with the dataset a_text_document and its vocabulary. The scheduler is loaded alone: the package as a whole needs PyTorch.
Arguments come by turns as flags and in DeepSpeed's own JSON file.
"""
import argparse
import importlib
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import types

NUM_ITERATIONS = 40
SEQUENCE_LENGTH = 64


def load_scheduler(source):
    package = types.ModuleType("data_pipeline")
    package.__path__ = [os.path.join(source, "deepspeed/runtime/data_pipeline")]
    utils = types.ModuleType("deepspeed.utils")
    utils.logger = logging.getLogger("deepspeed")
    logging.disable(logging.WARNING)  # it warns of lengths that are no multiples of 8
    sys.modules.update({"data_pipeline": package, "deepspeed": types.ModuleType("deepspeed"), "deepspeed.utils": utils})
    return importlib.import_module("data_pipeline.curriculum_scheduler").CurriculumScheduler


def random_curriculum(rng, kind):
    if kind == "fixed_discrete":
        lengths = sorted(rng.sample(range(2, SEQUENCE_LENGTH + 1), rng.randint(2, 5)))
        config = {"difficulty": lengths, "max_step": sorted(rng.sample(range(1, NUM_ITERATIONS), len(lengths) - 1))}
        return {"min_difficulty": lengths[0], "max_difficulty": lengths[-1], "schedule_type": kind, "schedule_config": config}
    step = rng.choice([1, 2, 4, 8])
    first = max(2, step * rng.randint(1, 16 // step))  # weft-train refuses sequences of one token
    config = {"total_curriculum_step": rng.randint(1, NUM_ITERATIONS + 10), "difficulty_step": step}
    if kind == "fixed_root":
        config["root_degree"] = rng.randint(1, 4)
    return {"min_difficulty": first, "max_difficulty": rng.randint(first + 1, SEQUENCE_LENGTH), "schedule_type": kind, "schedule_config": config}


def flags_of(curriculum):
    config = curriculum["schedule_config"]
    flags = ["--curriculum-learning", "--curriculum-schedule-type", curriculum["schedule_type"]]
    for name in ("min_difficulty", "max_difficulty"):
        flags += ["--curriculum-" + name.replace("_", "-"), str(curriculum[name])]
    names = {"total_curriculum_step": "total-step", "difficulty_step": "difficulty-step", "root_degree": "root-degree",
             "difficulty": "difficulty", "max_step": "max-step"}
    for name, value in config.items():
        flags += ["--curriculum-" + names[name], *map(str, value if isinstance(value, list) else [value])]
    return flags


def lengths_of_weft(weft_train, curriculum, by_file):
    more = flags_of(curriculum)
    if by_file:
        with open("deepspeed.json", "w") as file:
            json.dump({"train_micro_batch_size_per_gpu": 1, "curriculum_learning": {"enabled": True, "curriculum_type": "seqlen", **curriculum}}, file)
        more = ["--deepspeed_config", "deepspeed.json"]
    shutil.rmtree("run", ignore_errors=True)
    subprocess.run([weft_train, *"--num-layers 1 --hidden-size 16 --num-attention-heads 2 --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 "
                    "--eval-iters 0 --split 100,0,0 --data-path a_text_document --run-dir run --device cpu".split(),
                    "--seq-length", str(SEQUENCE_LENGTH), "--max-position-embeddings", str(SEQUENCE_LENGTH), "--train-iters", str(NUM_ITERATIONS), *more],
                   check=True, stdout=subprocess.DEVNULL)
    with open("run/metrics.jsonl") as file:
        return [step["curriculum_seqlen"] for step in map(json.loads, file) if "lm_loss" in step]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("weft_train")
    parser.add_argument("source")
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    scheduler = load_scheduler(args.source)
    rng = random.Random(args.seed)
    kinds = ("fixed_linear", "fixed_root", "fixed_discrete")
    for i in range(args.cases):
        curriculum = random_curriculum(rng, kinds[i % 3])
        theirs = scheduler(json.loads(json.dumps(curriculum)))
        expected = [theirs.update_difficulty(step) for step in range(1, NUM_ITERATIONS + 1)]
        ours = lengths_of_weft(args.weft_train, curriculum, by_file=i % 2 == 1)
        if ours != expected:
            sys.exit(f"error: case {i} of seed {args.seed}, {curriculum}:\n  DeepSpeed {expected}\n  weft      {ours}")
    print(f"seed {args.seed}: the lengths of {args.cases} curricula are DeepSpeed's")


main()
