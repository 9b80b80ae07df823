"""Where an epoch of Accord's goes: the time of each operation without those that it calls, by torch's profiler.

Answers the command "epoch" once: the CPU seconds of epochs without the profiler, their median, and the seconds of
every operation, by its name, in an epoch with it.
"""

import os
import time

import numpy as np
import torch
from pairs import dataset
from turns import Stop, work

from accord.training.plan import plan
from accord.training.stack import train_stack

BEFORE, LAST = 2, 6  # the epochs after the one, to the other, are timed without the profiler; the next is profiled


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    data = dataset(pairs)
    options = {"train.batch_size": case["batch"], "train.early_stop": False, "model.dim": case["dim"]}
    run = plan(data, case["model"], case["method"], "corrected", case["runs"], options, 10**6, None)
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    ended = []

    def epoch_done(method, epoch):
        ended.append(time.process_time())
        if len(ended) == LAST:
            profiler.start()
        elif len(ended) > LAST:
            profiler.stop()
            own = {one.key: one.self_cpu_time_total / 1e6 for one in profiler.key_averages()}
            turns.done(epoch=float(np.median(np.diff(ended[BEFORE - 1 : LAST]))), operations=own)
            raise Stop

    turns.wait({})
    train_stack(data, run, torch.device("cpu"), each_epoch=epoch_done)


work(train)
