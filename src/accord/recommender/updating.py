"""New interactions for a trained run: the log that it then has, and the method on that log.

A solved model or a consensus is fitted again on everything, so that it is what a fit on everything gives. A learned
model that scores from a history gets the longer one; whatever it has learned stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.titles import with_items
from accord.errors import InputError, shown
from accord.methods.base import Method
from accord.training.run import RunSpec

WHOLE = re.compile(r"0|-?[1-9]\d*")  # a number as it is written, so that no two texts are one


def grown(log: Dataset, new: Interactions, run: RunSpec, items: Any = None) -> Dataset:
    """The whole log with new interactions; of a pair that is in both the latest counts.
    `items`: a file or frame of item titles, for new items; what is known of the others stays where there is none."""
    users, user_ids = union(log.users, new.user_ids, "user")
    all_items, item_ids = union(log.items, new.item_ids, "item")
    new = Interactions(new.rows, (user_ids, item_ids))
    old = log.train
    if old.has_time != new.has_time:
        if "time" in run.columns:
            raise InputError(
                "the histories of this run fade with time, and the new interactions have none; give times."
            )
        old, new = old.without("time"), new.without("time")
    both = Dataset(log.name, old, new, new.slice(0, 0), users, all_items).everything()
    merged = both.train.merged(ordered=True)
    info, rows = log.item_info, log.items.rows(all_items.ids)
    info = None if info is None else info.take(pa.array(rows, mask=rows < 0))
    none = merged.slice(0, 0)
    data = Dataset(log.name, merged, none, none, users, all_items, item_info=info, outside=log.outside)
    return data if items is None else with_items(data, items)


def union(old: IdMap, new: IdMap, kind: str) -> tuple[IdMap, IdMap]:
    """The ids of both, and the new ones in the type of the old."""
    ids = new.ids
    if ids.type != old.ids.type:
        try:
            ids = ids.cast(old.ids.type)
        except pa.ArrowInvalid:
            ids = ids[:0]
        if len(pc.unique(ids)) < len(new.ids):
            odd = next((one for one in new.ids.to_pylist() if not WHOLE.fullmatch(str(one))), new.ids[0].as_py())
            raise InputError(
                f"the {kind} ids of this run are whole numbers, and new interactions have {shown(odd)}; correct them."
            )
    return IdMap.of(old.ids, ids), IdMap(ids)


def on(data: Dataset, run: RunSpec, method: Method, before: Dataset, device: torch.device) -> Method:
    """The method of one run, on the log that has grown from `before`."""
    if not run.kind.learns:
        from accord.consensus.training import train_run  # slow to import

        return train_run(data, run, device).method
    fresh = len(data.items) - len(before.items)
    what = f"{run.config.model} + {run.config.method}"
    if not method.target.reads_history:
        raise InputError(
            f"{what} has learned a vector for each user and cannot be updated; train again with all interactions."
        )
    if fresh:
        odd = data.items.ids[int(np.argmin(before.items.rows(data.items.ids)))].as_py()
        raise InputError(
            f"{what} has learned a vector for each item, and {fresh} item(s) are new, as {shown(odd)}; "
            "train again with all interactions, or leave those of new items out."
        )
    built = run.build(data.training_csr(run.columns))
    places = torch.from_numpy(data.users.rows(before.users.ids))
    wanted: dict[str, Tensor] = dict(built.state_dict())
    for name, tensor in method.state_dict().items():
        if tensor.shape == wanted[name].shape:
            wanted[name] = tensor.cpu()
        else:  # a table by user [R, U, …]: zeros for new users
            wanted[name] = torch.zeros_like(wanted[name]).index_copy(1, places, tensor.cpu())
    built.load_state_dict(wanted)
    return built.to(device).eval()


def with_solved_only(run: RunSpec) -> RunSpec:
    from accord.consensus.training import of_members

    solved = [member for member in run.members if not run.of_member(member).kind.learns]
    if all(member.model == "quality" for member in solved):
        raise InputError("all members of this consensus are learned; train it again with all interactions.")
    return of_members(run, solved)


def metrics_of(before: Mapping[str, Any], chosen: int, counts: Mapping[str, int], new: int) -> dict[str, Any]:
    """The metrics of a run after an update by so many interactions; its accuracy is of before."""
    dataset = before["dataset"]
    return {name: value for name, value in before.items() if name != "refit"} | {
        "dataset": dataset | counts,
        "runs": before["runs"][chosen:][:1],
        "updates": [*before.get("updates", ()), {"interactions": new, "train": dataset["train"]}],
    }


def require_labels(run: RunSpec, log: Dataset) -> None:
    """Whether a run that labels taught has them still, as folders of before did not."""
    if any(member.taught for member in run.members) and "label" not in log.train.names:
        raise InputError("this run was trained with labels, which its folder does not store; train again with them.")
