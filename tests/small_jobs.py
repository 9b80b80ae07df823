"""Work for other processes, which import it by its name: of a task that is a number, or says what goes wrong."""

from __future__ import annotations

import os
import time

import torch

from accord.errors import InputError


def work(data, task, device, watch, say):
    if task == "wrong":
        raise InputError("that is wrong")
    if task == "broken":
        raise RuntimeError("that is broken")
    if task == "gone":
        os._exit(1)
    if task == "slow":
        time.sleep(600)
    say(f"{torch.get_num_threads()} thread")
    yield data + task, str(device)
    yield os.getpid()
