"""One training by Ray Train, on whichever nodes of the cluster have room: python ray_train.py DATA OUT [WORKERS].

Ray Train starts the workers and lets them meet; each then trains its own users. DATA and OUT must be where every
node finds them.
"""

import sys
from pathlib import Path

from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def work(options: dict) -> None:
    from accord import load
    from accord.fitting import fit_run
    from accord.nn.ranks import joined
    from accord.training.plan import plan

    data = load(options["data"])
    with joined() as ranks:
        fit_run(data, plan(data, "gmf", "deca", epochs=options["epochs"]), out=options["out"], ranks=ranks)


if __name__ == "__main__":
    data, out, *rest = sys.argv[1:]
    trainer = TorchTrainer(
        work,
        train_loop_config={"data": data, "out": str(Path(out).absolute()), "epochs": 10},
        scaling_config=ScalingConfig(num_workers=int(rest[0]) if rest else 2),  # use_gpu=True: a GPU for each
        torch_config=TorchConfig(backend="gloo"),  # with GPUs "cpu:gloo,cuda:nccl": some of what is said is not on one
        run_config=RunConfig(storage_path=str(Path(out).absolute().parent / "ray"), name="accord"),
    )
    trainer.fit()
