"""The sentences about injected noise, against its raw results read by hand."""

from __future__ import annotations

import numpy as np

from reproduction import raw, words

PAGE = words("corrected/README.md")


def test_how_well_normal_finds_each_kind_of_noise():
    for kind, name in (("uniform", "Uniform"), ("popularity", "Popularity-driven"), ("user", "User-dependent")):
        by_rate = {}
        for line in raw("corrected/injected.jsonl", dataset="ml-100k", model="gmf", method="normal"):
            if line["injected"]["kind"] == kind:
                by_rate.setdefault(line["injected"]["rate"], []).append(line["noise"]["auc"])
        means = [float(np.mean(values)) for values in by_rate.values()]
        sentence = PAGE[PAGE.index(f"**{name} noise**") :]
        told = f"Normal {min(means):.2f} to {max(means):.2f}".replace(" 0.", " .")
        assert told in sentence[: sentence.index("- **")]


def test_in_how_many_cells_a_fifth_of_noise_changes_more_than_the_seeds():
    clean, noisy = {}, {}
    for line in raw("corrected/injected.jsonl", dataset="ml-100k"):
        if line["method"] == "none":
            continue
        found = line["injected"]
        if found["kind"] == "none":
            clean.setdefault((line["model"], line["method"]), []).append((line["metrics"]["ndcg@20"], found["ndcg@20"]))
        elif found["rate"] <= 0.2:
            key = (line["model"], line["method"]), f"{found['kind']} {found['rate']:.4g}"
            noisy.setdefault(key, []).append(line["metrics"]["ndcg@20"])
    over = 0
    for (method, name), values in noisy.items():
        alone = np.array([ndcg for ndcg, _ in clean[method]])
        change = np.mean(np.array(values) / np.array([rivals[name] for _, rivals in clean[method]]) - 1)
        over += abs(change) > alone.std(ddof=1) / alone.mean()
    assert f"in {over} of {len(noisy)} cells" in PAGE
