"""make.py: what lm-evaluation-harness makes of the made-up rows NAME.rows.jsonl beside this file, as NAME.jsonl, and its samples_*.jsonl.

Made with lm_eval 0.4.13 and datasets 5.2.0:   pip install "lm_eval==0.4.13" "datasets==5.2.0" && python3 make.py
"""
import json
import pathlib

import lm_eval
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

TASKS = {
    "hellaswag": "hellaswag/hellaswag.yaml", "lambada_openai": "lambada/lambada_openai.yaml", "arc_easy": "arc/arc_easy.yaml",
    "piqa": "piqa/piqa.yaml", "winogrande": "winogrande/default.yaml", "mmlu": "mmlu/default/mmlu_{subject}.yaml",
}
here = pathlib.Path(__file__).parent
folder = pathlib.Path(lm_eval.__file__).parent / "tasks"


def task_of(yaml, rows):
    config = load_yaml(folder / yaml, resolve_func=True)
    path = here / "some.rows"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    splits = {config[key] for key in ("test_split", "validation_split", "training_split", "fewshot_split") if config.get(key)}
    config.update(dataset_path="json", dataset_name=None, dataset_kwargs={"data_files": {split: str(path) for split in splits}})
    task = ConfigurableTask(config=config)
    path.unlink()
    return task


def example_of(task, doc):
    requests = task.construct_requests(doc, task.fewshot_context(doc, num_fewshot=0), metadata=("", 0, 1))
    if not isinstance(requests, list):
        context, ending = requests.args
        return {"context": context, "endings": [ending]}
    contexts, endings = zip(*(request.args for request in requests))
    if task.multiple_input:
        return {"contexts": contexts, "ending": endings[0], "label": task.doc_to_text(doc)}
    assert len(set(contexts)) == 1
    return {"context": contexts[0], "endings": endings, "label": int(task.doc_to_target(doc))}


def sample_of(task, number, doc):
    """As evaluator.py and loggers/evaluation_tracker.py write it, as far as it is read."""
    requests = task.construct_requests(doc, task.fewshot_context(doc, num_fewshot=0), metadata=("", 0, 1))
    requests = requests if isinstance(requests, list) else [requests]
    arguments = {f"gen_args_{i}": {f"arg_{j}": text for j, text in enumerate(request.args)} for i, request in enumerate(requests)}
    return {"doc_id": number, "doc": doc, "target": str(task.doc_to_target(doc)), "arguments": arguments}


for name, yaml in TASKS.items():
    rows = [json.loads(line) for line in (here / f"{name}.rows.jsonl").read_text().splitlines()]
    lines, samples = [], []
    for number, row in enumerate(rows):
        task = task_of(yaml.format(**row), [row])
        doc = next(iter(task.eval_docs))
        lines.append(json.dumps(example_of(task, doc), ensure_ascii=False, separators=(",", ":")) + "\n")
        samples.append(json.dumps(sample_of(task, number, doc), ensure_ascii=False) + "\n")
    (here / f"{name}.jsonl").write_text("".join(lines))
    if name in ("arc_easy", "lambada_openai"):
        (here / f"samples_{name}_2026-11-28T09-00-00.000000.jsonl").write_text("".join(samples))
