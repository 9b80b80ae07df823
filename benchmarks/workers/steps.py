"""Some steps of an epoch of accord, timed by their parts, for logs whose whole epoch would take long.

An epoch is drawn (all of it, whatever steps are taken), stepped through, and settled: rows that are trained row by row
then take the steps they have missed. Settling looks at every row however few steps it has missed: what that alone takes
is measured after one more step.
"""

import os
from itertools import chain, islice, pairwise

import torch
from pairs import dataset
from turns import clocks, work

from accord.nn import layers
from accord.training.plan import plan
from accord.training.stack import StackTraining, ready_cpu

WARM_UP = 4  # steps, of both kinds


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if not case.get("by_rows", True):
        layers.WORTH_ROWS = float("inf")
    ready_cpu()
    data = dataset(pairs)
    pairs.clear()
    rows = data.training_csr()
    options = {"train.batch_size": case["batch"], "train.early_stop": False} | case.get("options", {})
    run = plan(data, case["model"], "deca", "published", 1, options, 1, None)
    method = run.build(rows)
    trainer = StackTraining(data, run, rows, method, torch.device("cpu")).trainer(method)

    def take(count, batches, first):
        for number, batch in enumerate(islice(batches, count), first):
            trainer.steps.take(batch, number)

    turns.wait({})
    trainer.optimizer.start()
    method.train()
    take(WARM_UP, trainer.sampler.epoch(), 0)
    trainer.optimizer.settle()
    number = min(case["steps"], trainer.sampler.num_batches)
    times = [clocks()]
    batches = trainer.sampler.epoch()
    batches = chain([next(batches)], batches)
    times.append(clocks())
    take(number, batches, WARM_UP)
    times.append(clocks())
    trainer.optimizer.settle()
    times.append(clocks())
    take(1, batches if number < trainer.sampler.num_batches else trainer.sampler.epoch(), WARM_UP + number)
    times.append(clocks())
    trainer.optimizer.settle()
    times.append(clocks())
    spent = [[end - start for start, end in zip(*two, strict=True)] for two in pairwise(times)]
    turns.answer(
        **dict(zip(("draw", "steps", "settle", "one", "look"), spent, strict=True)),
        taken=number,
        of=trainer.sampler.num_batches,
        elements=sum(p.numel() for network in (method.target, method.partner, method.h) for p in network.parameters()),
        by_rows=len(trainer.optimizer.by_rows),
    )
    turns.wait({})


work(train)
