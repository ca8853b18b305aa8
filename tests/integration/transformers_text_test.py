"""transformers_text_test.py WEFT_MODEL WORK_DIR [cpu|cuda]

Random models of GPT-2, BLOOM, LLaMA (with grouped queries, and with Llama-3.1's frequencies), Mistral, Qwen2 and Qwen3, saved by transformers: weft-model generate writes the tokens that
transformers' greedy generation writes, and weft-model evaluate gives the log-likelihoods and accuracies that lm-evaluation-harness
defines (lm_eval/api/model.py, _encode_pair; lm_eval/utils.py, get_rolling_token_windows), here on transformers' logits, in fp32.
"""
import json, math, random, subprocess, sys
import torch, transformers

weft_model, work, *device = sys.argv[1:]
END = 256  # <|endoftext|>; the other tokens are the bytes
NUM_TOKENS, NUM_PROMPTS, POSITIONS = 200, 20, 256


def byte_characters():
    """The characters that stand for bytes in vocab.json [GPT-2, encoder.py, bytes_to_unicode]."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}


CHARACTERS = byte_characters()
ID_OF_BYTE = {b: i for i, b in enumerate(sorted(CHARACTERS, key=lambda b: CHARACTERS[b]))}


def ids_of(text):
    return [ID_OF_BYTE[b] for b in text.encode()]


def write_tokenizer(folder):
    vocabulary = {CHARACTERS[b]: i for b, i in ID_OF_BYTE.items()} | {"<|endoftext|>": END}
    with open(f"{folder}/vocab.json", "w") as out:
        json.dump(vocabulary, out)
    with open(f"{folder}/merges.txt", "w") as out:
        out.write("#version: 0.2\n")


def models():
    common = dict(vocab_size=257, bos_token_id=END, eos_token_id=END, pad_token_id=END)
    gpt2 = transformers.GPT2Config(n_positions=POSITIONS, n_embd=64, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                                   attn_pdrop=0.0, **common)
    bloom = transformers.BloomConfig(hidden_size=64, n_layer=3, n_head=4, seq_length=POSITIONS, **common)
    common |= dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                   max_position_embeddings=POSITIONS, tie_word_embeddings=False)
    scaled = dict(rope_theta=10000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=8192)
    for name, config in (("gpt2", gpt2), ("bloom", bloom), ("llama", transformers.LlamaConfig(**common)),
                         ("llama31", transformers.LlamaConfig(**common, rope_parameters=scaled)),
                         ("mistral", transformers.MistralConfig(**common, sliding_window=None)),
                         ("qwen2", transformers.Qwen2Config(**common)), ("qwen3", transformers.Qwen3Config(**common))):
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():  # large, so that what a model writes depends on all that it has read
            for weight_name, p in model.named_parameters():
                # More in the layers than in the embedding: a head that is tied to it would repeat the last word.
                p.add_((0.15 if "embed" in weight_name or "wte" in weight_name else 0.3 if name == "bloom" else 0.15) * torch.randn_like(p))
        yield name, model


def weft(command, folder, *options):
    options = [weft_model, command, "--load", folder, "--device", *(device or ["cpu"]), "--dtype", "fp32", *options]
    return subprocess.run(options, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def check_generation(name, model, folder):
    rng = random.Random(2)
    prompts = ["".join(rng.choice("etaoin shrdlu,.") for _ in range(rng.randint(1, 50))).strip() or "x" for _ in range(NUM_PROMPTS)]
    with open(f"{work}/prompts", "w") as out:
        out.write("\n".join(prompts) + "\n")
    lines = weft("generate", folder, "--prompts", f"{work}/prompts", "--tokens", str(NUM_TOKENS), "--temperature", "0",
                 "--format", "jsonl", "--batch-size", "7")
    ours = [json.loads(line) for line in lines]
    assert [line["prompt"] for line in ours] == prompts
    words = set()
    for prompt, line in zip(prompts, ours):
        inputs = torch.tensor([ids_of(prompt)])
        with torch.no_grad():
            theirs = model.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False, max_new_tokens=NUM_TOKENS)
        theirs = [i for i in theirs[0, inputs.shape[1]:].tolist() if i != END]
        assert line["ids"] == theirs, (name, prompt, line["ids"], theirs)
        words |= set(theirs)
    print(name, len(words), 'different tokens')
    assert len(words) > 10, "a model that repeats a few words tells little"
    print(name, "generates as transformers:", sum(len(line["ids"]) for line in ours), "tokens")


def log_probabilities(model, inputs):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([inputs])).logits[0].float(), -1)


def log_likelihood(model, context, ending):
    """lm_eval.api.model.TemplateLM._encode_pair and HFLM._loglikelihood_tokens."""
    if context == "":
        context_ids, ending_ids = [END], ids_of(ending)
    else:
        num_spaces = len(context) - len(context.rstrip())
        if num_spaces > 0:
            ending, context = context[-num_spaces:] + ending, context[:-num_spaces]
        whole, context_ids = ids_of(context + ending), ids_of(context)
        ending_ids = whole[len(context_ids):]
    inputs = (context_ids + ending_ids)[-(POSITIONS + 1):][:-1]
    logs = log_probabilities(model, inputs)[-len(ending_ids):]
    targets = torch.tensor(ending_ids)
    return logs.gather(-1, targets[:, None]).sum().item(), bool((logs.argmax(-1) == targets).all())


def mean_with_error(values):  # lm_eval.api.metrics.mean_stderr
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)) / math.sqrt(len(values))


def check_tasks(name, model, folder):
    rng = random.Random(3)
    text = lambda low, high: "".join(rng.choice("etaoin shrdlu") for _ in range(rng.randint(low, high)))
    examples = [{"context": "x" + text(0, 60).strip() + rng.choice(["", " "]), "endings": [" " + text(1, 20).strip() + "e" for _ in range(4)],
                 "label": rng.randrange(4)} for _ in range(30)]
    examples += [{"context": "", "endings": ["one", "t\u00e4\u00e4"], "label": 1}, {"context": text(400, 500), "endings": [" a", " bee"], "label": 0}]
    path = f"{work}/choices.jsonl"
    with open(path, "w") as out:
        out.writelines(json.dumps(example) + "\n" for example in examples)
    summary = json.loads(weft("evaluate", folder, "--tasks", path, "--output", f"{work}/scores", "--format", "json")[0])
    correct, normalised, worst = [], [], 0
    for example, line in zip(examples, map(json.loads, open(f"{work}/scores")), strict=True):
        scores = [log_likelihood(model, example["context"], ending) for ending in example["endings"]]
        worst = max([worst] + [abs(ours - theirs) for ours, (theirs, _) in zip(line["log_likelihoods"], scores, strict=True)])
        assert line["is_greedy"] == [greedy for _, greedy in scores], (name, example)
        likelihoods = [score for score, _ in scores]
        per_character = [score / len(ending.removeprefix(" ")) for score, ending in zip(likelihoods, example["endings"])]
        correct.append(float(max(range(len(scores)), key=likelihoods.__getitem__) == example["label"]))
        normalised.append(float(max(range(len(scores)), key=per_character.__getitem__) == example["label"]))
    print(name, f"largest difference of a log-likelihood: {worst:.1e}")
    assert worst <= 1e-4, name
    for key, values in (("accuracy", correct), ("accuracy_normalised", normalised)):
        mean, error = mean_with_error(values)
        assert abs(summary[key] - mean) < 1e-9 and abs(summary[key + "_stderr"] - error) < 1e-9, (name, summary, mean, error)


def check_text(name, model, folder):
    """lm_eval.utils.get_rolling_token_windows with make_disjoint_window: windows of POSITIONS tokens behind END."""
    text = "".join(random.Random(4).choice("etaoin shrdlu\n") for _ in range(700)) + "\u20ac"
    with open(f"{work}/text", "w") as out:
        out.write(text)
    ids, predicted, total = ids_of(text), 0, 0.0
    while predicted < len(ids):
        count = min(POSITIONS, len(ids) - predicted)
        end = predicted + count
        inputs = [END] + ids[:count - 1] if predicted == 0 else ids[end - POSITIONS - 1:end - 1]
        logs = log_probabilities(model, inputs)[-count:]
        total += logs.gather(-1, torch.tensor(ids[predicted:end])[:, None]).sum().item()
        predicted = end
    result = json.loads(weft("evaluate", folder, "--text", f"{work}/text", "--format", "json")[0])
    bits = -total / len(text.encode()) / math.log(2)
    assert abs(result["loss"] + total / len(ids)) < 1e-5 and abs(result["bits_per_byte"] - bits) < 1e-5, (name, result, total, bits)
    print(name, "bits per byte:", result["bits_per_byte"])


for name, model in models():
    folder = f"{work}/{name}"
    model.save_pretrained(folder)
    write_tokenizer(folder)
    check_generation(name, model, folder)
    check_tasks(name, model, folder)
    check_text(name, model, folder)
