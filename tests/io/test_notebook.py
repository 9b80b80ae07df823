"""Tables for notebooks."""

from __future__ import annotations

from accord.io.notebook import as_html


def test_nothing_of_a_log_is_taken_for_markup():
    page = as_html("<b>", [("<img src=x>", 0.12345, 1234, None, True)], ("<th>",), "<script>")
    assert "<b>" not in page
    assert "<img" not in page
    assert "<script" not in page
    assert page.count("<th>") == 1, "of the header alone"
    assert "<td>0.1235</td><td>1,234</td><td></td><td>True</td>" in page


def test_a_table_needs_no_header_and_no_sentence():
    assert as_html("it", [("a",)]) == "<p><strong>it</strong></p><table><tr><td>a</td></tr></table>"
