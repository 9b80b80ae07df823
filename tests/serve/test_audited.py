from __future__ import annotations

import shutil

import pytest

from accord.errors import InputError
from accord.serve.audited import Audited
from serving import audit, run  # noqa: F401


def test_audit_folders_that_do_not_belong(tmp_path, run, audit):  # noqa: F811
    from accord import Recommender

    rec = Recommender.load(run)
    with pytest.raises(InputError, match=r"there is no summary.json; give the folder that `accord audit` wrote"):
        Audited(tmp_path, rec)
    shutil.copytree(audit, tmp_path / "other")
    (tmp_path / "other" / "summary.json").write_text('{"kind": "run"}')
    with pytest.raises(InputError, match="is not the folder of an audit"):
        Audited(tmp_path / "other", rec)
