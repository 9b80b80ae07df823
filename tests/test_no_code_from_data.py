"""No code from data: nothing in a file is ever run. Shown by reading our source, and by trying."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz.folders import CHECKPOINT, FILES, honest
from fuzz.logs import harmful_pickle

import accord
from accord.errors import InputError
from accord.methods.base import Method
from accord.recommender.recommender import Recommender
from accord.training.run import RunConfig, RunSpec
from helpers import random_csr

PACKAGE = Path(accord.__file__).parent
LAB = PACKAGE.parent / "accord_lab"

# Modules that turn bytes into objects of any class, or text into code.
NO_IMPORTS = {
    *("pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "ruamel", "code"),
    *("codeop", "imp", "jsonpickle", "dbm", "xml", "lxml"),
}
# Calls that run what they are given, by the last names of what is called.
NO_CALLS = {
    *(
        "eval",
        "exec",
        "compile",
        "__import__",
        "execfile",
        "system",
        "popen",
        "from_string",
        "read_pickle",
        "to_pickle",
    ),
    *("exec_module", "load_module", "unsafe_load", "full_load"),
}
NO_LOADS = {"torch.load", "torch.save", "torch.jit.load", "np.load", "numpy.load", "pd.read_pickle", "torch.hub.load"}
# Where a name becomes a module, or another program is started, and by what.
ALLOWED = {
    ("config.py", "importlib.import_module"): "a class that the caller names, or a file where the caller allows it",
    ("__init__.py", "import_module"): "the public names, from a table",
    ("data/databases.py", "import_module"): "the driver of a kind of database, by the scheme of an address",
    ("data/download.py", "subprocess.run"): "pip, with a list of words and no shell",
    ("posteriors/judge.py", "subprocess.run"): "the program that a user names as a judge, without a shell",
}


def called(node: ast.Call) -> str:
    """What is called, as it is written: `torch.load`."""
    names = []
    found: ast.expr = node.func
    while isinstance(found, ast.Attribute):
        names.append(found.attr)
        found = found.value
    names.append(found.id if isinstance(found, ast.Name) else "")
    return ".".join(reversed(names))


def offences(source: str, path: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found += [f"{path}: import of {name}" for name in modules if name.split(".")[0] in NO_IMPORTS]
        found += [f"{path}: import of {name}" for name in modules if name in NO_LOADS]
        if not isinstance(node, ast.Call):
            continue
        name = called(node)
        last = name.rpartition(".")[2]
        harmless = name == "re.compile" or (last == "eval" and not node.args)  # a module of torch is told to score
        if (last in NO_CALLS and not harmless) or name in NO_LOADS:
            found.append(f"{path}: {name}(…)")
        imports = last in ("import_module", "run_module", "run_path")
        fixed = imports and isinstance(node.args[0], ast.Constant)
        starts = imports or name.startswith("subprocess.")
        if starts and not fixed and (path, name) not in ALLOWED:
            found.append(f"{path}: {name}(…), which is not among those that were looked at")
        for keyword in node.keywords:
            if keyword.arg in ("allow_pickle", "shell") and not is_false(keyword.value):
                found.append(f"{path}: {name}({keyword.arg}=…)")
    return found


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_our_source_runs_nothing_that_it_reads():
    files = sorted([*PACKAGE.rglob("*.py"), *LAB.rglob("*.py")])
    assert len(files) > 80
    found = [
        offence
        for path in files
        for offence in offences(path.read_text(), path.relative_to(PACKAGE.parent).as_posix().removeprefix("accord/"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml",
        "from torch import load",
        "def f(x):\n    return eval(x)",
        "exec('1')",
        "import torch\ntorch.load('x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "f(x, allow_pickle=flag)",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import subprocess\nsubprocess.run(['ls'])",
        "import importlib\nimportlib.import_module(name)",
        "os.system('ls')",
        "compile(text, 'x', 'exec')",
        "__import__(name)",
        "jinja2.Environment().from_string(text)",
        "import runpy\nrunpy.run_path(name)",
    ],
)
def test_the_scan_sees_every_way(source):
    assert offences(source, "any.py")


def test_the_scan_lets_plain_code_pass():
    plain = "import json, re\nre.compile('x')\njson.loads('1')\nmodel.eval()\nimportlib.import_module('ray')"
    assert offences(plain, "any.py") == []


def test_only_our_own_scripts_are_marked_safe_in_templates():
    marked = [
        line.strip() for path in PACKAGE.rglob("*.j2") for line in path.read_text().splitlines() if "| safe" in line
    ]
    # the kind of a column, which the line before sets to one of two texts; our style sheet; our scripts
    assert [part.split(" | safe")[0].split("{{ ")[-1] for part in marked] == ["kind", "style", "script"]
    for path in (PACKAGE / "serve" / "static").glob("*.js"):
        text = path.read_text()
        assert not [word for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write")
                    if word in text], path.name  # fmt: skip


@pytest.mark.parametrize("name", [*FILES, "log.jsonl"])
def test_a_pickle_in_a_run_folder_is_not_opened(name, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(honest() / "run", folder)
    (folder / name).write_bytes(harmful_pickle(tmp_path))
    with pytest.raises(InputError, match=name):
        Recommender.load(folder)
    assert not (tmp_path / "harmed").exists()


def test_the_pickle_would_do_harm(tmp_path):
    """Else the tests above could not fail."""
    import pickle

    pickle.loads(harmful_pickle(tmp_path))
    assert (tmp_path / "harmed").exists()


def test_a_pickle_as_checkpoint_log_and_items_is_not_opened(tmp_path):
    harm = harmful_pickle(tmp_path)
    for name in ("log.csv", "log.parquet", "log.tsv", "u.data", "items.csv"):
        (tmp_path / name).write_bytes(harm)
        with pytest.raises(InputError):
            accord.load(tmp_path / name)
    with pytest.raises(InputError):
        accord.load(honest() / "log.csv", items=tmp_path / "items.csv")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / CHECKPOINT).write_bytes(harm)
    options = {"model.dim": 4}
    with pytest.raises(InputError, match="damaged"):
        accord.fit(honest() / "log.csv", "mf", "normal", seeds=[7], epochs=1, options=options, out=tmp_path / "cut",
                   resume=True)  # fmt: skip
    assert not (tmp_path / "harmed").exists()


def test_a_type_that_is_a_pickle_is_text(tmp_path):
    """Arrow once unpickled the types of columns (CVE-2023-47248)."""
    meta = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": harmful_pickle(tmp_path)}
    schema = pa.schema([pa.field("user", pa.string(), metadata=meta), ("item", pa.string())])
    pq.write_table(pa.table([["a", "b"], ["x", "y"]], schema=schema), tmp_path / "log.parquet")
    rows, _ = accord.data.read.read_table(tmp_path / "log.parquet")
    assert rows.users.to_pylist() == ["a", "b"]
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"model": "harm:Harm"},
        {"method": "harm:Harm"},
        {"method_options": {"g": "harm:Harm"}},
        {"method_options": {"h": "harm:Harm"}},
        {"varied": [{"method.g": "harm:Harm"}]},
        {"model": "os:mkdir", "model_options": {"path": "harmed"}},
    ],
)
def test_a_config_that_names_code_is_not_followed(change, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harm.py").write_text("import pathlib\npathlib.Path('harmed').mkdir()\n")
    content = json.loads((honest() / "run" / "config.json").read_text())
    content.pop("accord")
    with pytest.raises(InputError, match="would import and run code"):
        RunSpec.load(RunConfig(**content | change), None, None, allow_imports=False).build(random_csr(5, 4, 0.5))
    assert not (tmp_path / "harmed").exists()


def test_an_option_of_a_class_that_the_caller_gives_is_not_followed_either(tmp_path, monkeypatch):
    """The method is the caller's own and needs no import; what one of its options names in the file would."""

    class Asks(Method):
        name, summary = "asks", "has a second network, whatever its option says"

        class Config(accord.BaseConfig):
            second: str = "mf"

        def __init__(self, configs, build, protocol):
            super().__init__(configs, build, protocol)
            self.other = build(self.config.second, purpose="second")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "harm.py").write_text("import pathlib\npathlib.Path('harmed').mkdir()\n")
    content = json.loads((honest() / "run" / "config.json").read_text())
    content.pop("accord")
    config = RunConfig(**content | {"method": "mine:Asks", "method_options": {"second": "harm:Harm"}})
    run = RunSpec.load(config, None, Asks, allow_imports=False)
    with pytest.raises(InputError, match="would import and run code"):
        run.build(random_csr(5, 4, 0.5))
    assert not (tmp_path / "harmed").exists()
    with pytest.raises(InputError, match="'harm' has no 'Harm'"):
        RunSpec.load(config, None, Asks, allow_imports=True).build(random_csr(5, 4, 0.5))
    assert (tmp_path / "harmed").exists(), "else the test above could not fail"
