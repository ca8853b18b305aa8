"""jobs/kubernetes/train.yaml is an MPIJob by its schema, its numbers agree, and weft-train takes its arguments."""
import copy
import json
import os
import pathlib
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"skipped: {error} (python3-yaml, python3-jsonschema)")
    sys.exit(77)

source = pathlib.Path(os.environ["WEFT_SOURCE_DIR"])
job = yaml.safe_load((source / "jobs/kubernetes/train.yaml").read_text())
schema = json.loads((source / "tests/jobs/mpijob.schema.json").read_text())
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(job)]
assert not errors, "\n".join(errors)

# The schema refuses what the API server would: a wrong name, type or choice.
for path, value in (("spec/slotPerWorker", 8), ("spec/slotsPerWorker", "8"), ("spec/runPolicy/cleanPodPolicy", "Sometimes"),
                    ("spec/mpiReplicaSpecs/Launcher/replicas", 2), ("spec/mpiReplicaSpecs/Worker/template/spec/container", [])):
    wrong = copy.deepcopy(job)
    *folders, name = path.split("/")
    at = wrong
    for folder in folders:
        at = at[folder]
    at[name] = value
    assert not validator.is_valid(wrong), f"{path}: {value!r} is not refused"

replicas = job["spec"]["mpiReplicaSpecs"]
(launcher,) = replicas["Launcher"]["template"]["spec"]["containers"]
(worker,) = replicas["Worker"]["template"]["spec"]["containers"]
slots = job["spec"]["slotsPerWorker"]
ranks = int(launcher["command"][launcher["command"].index("-n") + 1])
assert ranks == slots * replicas["Worker"]["replicas"], "mpirun starts another number of ranks than the workers have"
assert worker["resources"]["limits"]["nvidia.com/gpu"] == slots, "a worker has another number of GPUs than of ranks"
for replica in replicas.values():
    pod = replica["template"]["spec"]
    assert {m["name"] for m in pod["containers"][0]["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
assert launcher["command"][-1] == "weft-train"
arguments = [a for a in launcher["args"] if not a.startswith(("--data-path", "--save=", "--load", "--save-interval"))]
plan = subprocess.run([f"{os.environ['WEFT_BIN_DIR']}/weft-train", *arguments, "--vocab-size=50257", "--dry-run", "--device-profile=h100",
                       f"--world-size={ranks}"], capture_output=True, text=True)
assert plan.returncode == 0, plan.stdout + plan.stderr
print(plan.stdout.splitlines()[0])
