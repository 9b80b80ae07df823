"""The page in a real browser: find, look, change; nothing from elsewhere, nothing that is not text."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

import accord
from accord.serve.guard import Rules
from browser import blank, chromium, harms
from serving import SCRIPT, clicks, make_holder, run, serving  # noqa: F401


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(run):  # noqa: F811
    with serving(make_holder(run)) as served:
        yield served


@contextmanager
def visit(browser, address, path="/", width=1100, scheme="light"):
    """A page that must say nothing to the console, ask nobody else, and leave axe content at the end."""
    said, asked = [], []
    heard = {
        "console": lambda message: said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
        "dialog": lambda dialog: said.append(dialog.message),
        "request": lambda request: asked.append(request.url),
    }
    with blank(browser, width, 900, scheme, **heard) as page:
        page.goto(address + path)
        yield page
        assert harms(page) == []
        assert said == []
        assert [url for url in asked if not url.startswith(address)] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def settle(page):
    """Wait for the answer to the last change: until then the list shown is that of the one before."""
    page.locator('#recommended[aria-busy="false"]').wait_for()


def titles(page):
    settle(page)
    return page.locator("#recommended .title").all_text_contents()


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (390, "dark")])
def test_find_a_user_look_and_change(browser, address, width, scheme):
    with visit(browser, address, width=width, scheme=scheme) as page:
        page.locator("#user-matches button").first.wait_for()
        page.locator("#user-query").fill("u0002")
        page.keyboard.press("Enter")
        page.locator("#recommended > li").nth(19).wait_for()
        assert page.locator("#person-heading").text_content() == "User u0002"
        assert "the model recommends" in page.locator("#source").text_content()
        assert page.locator("#recommended .why").first.text_content().startswith("because of ")
        assert "% real" in page.locator("#history .figure").first.text_content()
        before = titles(page)

        page.locator("#history input").first.uncheck()
        page.locator("#source", has_text="changed history").wait_for()
        new = next(title for title in before if SCRIPT in title)  # what is recommended is not in the history
        page.locator("#item-query").fill(" ".join(new.split()[:2]))
        page.locator("#item-matches button").first.wait_for()
        page.keyboard.press("Enter")
        page.locator("#history .added").wait_for()
        assert page.locator("#history .added .title").text_content() == new  # as text, and nothing of it ran
        assert titles(page) != before
        assert page.locator("#recommended .badge").count()
        assert page.locator("main img, main script").count() == 0

        page.locator("#recommended button").first.click()
        page.locator("#recommended .matches li").nth(4).wait_for()
        page.locator("#reset").click()
        page.locator("#source", has_text="the model recommends").wait_for()
        assert titles(page) == before
        assert page.title() == "Recommendations · Accord"


def test_the_empty_page_says_what_to_do_and_shows_an_example(browser, address):
    with visit(browser, address) as page:
        page.locator("#example-list > li").nth(2).wait_for()
        assert page.locator("#hint").is_visible()
        user = page.locator("#user-matches button").first.text_content()
        assert (
            page.locator("#example-heading")
            .text_content()
            .startswith(f"Example: recommendations for user {user}, who has ")
        )
        assert page.locator("#example-list .why").first.text_content().startswith("because of ")
        example = page.locator("#example-list .title").all_text_contents()
        page.locator("#example-more").click()
        page.locator("#recommended > li").nth(3).wait_for()
        assert titles(page)[:3] == example
        assert page.locator("#person-heading").text_content() == f"User {user}"
        assert page.locator("#example").is_hidden()
        assert page.locator("#hint").is_hidden()


def test_the_example_is_an_ordinary_user(browser, address, run):  # noqa: F811
    counts = accord.Recommender.load(run).owned.counts
    with visit(browser, address) as page:
        heading = page.locator("#example-heading", has_text="who has").text_content()
    assert int(heading.split()[-2].replace(",", "")) == pytest.approx(np.median(counts[counts > 0]), abs=1)


def test_the_address_names_the_user(browser, address):
    with visit(browser, address) as page:
        chip = page.locator("#user-matches button").nth(1)
        user = chip.text_content()
        chip.click()
        page.locator("#recommended > li").first.wait_for()
        shown, there = titles(page), page.url.removeprefix(address)
        page.locator("#user-matches button").first.click()
        page.locator("#person-heading", has_not_text=user).wait_for()
        page.go_back()
        page.locator("#person-heading", has_text=f"User {user}").wait_for()
    with visit(browser, address, there) as page:
        page.locator("#person-heading", has_text=f"User {user}").wait_for()
        assert titles(page) == shown
        assert page.locator("#example").is_hidden()


def test_a_phone_shows_recommendations_before_the_history(browser, address):
    with visit(browser, address, width=390) as page:
        page.locator("#user-matches button").first.click()
        page.locator("#recommended > li").first.wait_for()
        list_, history = (page.locator(one).bounding_box()["y"] for one in ("#recommended", "#history"))
        assert list_ < history


def test_a_long_history_is_shown_on_request(browser, tmp_path):
    items = [f"i{number:03}" for number in range(60)]
    pairs = [("reader", item) for item in items[:50]] + [(f"u{n}", item) for n, item in enumerate(items)]
    users, taken = zip(*pairs, strict=True)
    accord.fit(accord.load(pa.table({"user": users, "item": taken}), ratios=(1, 0, 0)), "ease", out=tmp_path / "run")
    with serving(make_holder(tmp_path / "run")) as address, visit(browser, address) as page:
        page.locator("#user-query").fill("reader")
        page.locator("#user-matches button", has_text="reader").click()
        page.locator("#history li").nth(39).wait_for()
        assert page.locator("#history li").count() == 40
        page.locator("#more", has_text="Show 10 more").click()
        assert page.locator("#history li").count() == 50
        assert page.locator("#more").is_hidden()


def test_agreement_is_shown_where_several_models_vote(browser, tmp_path):
    for number, members in enumerate((["ease", "item-knn"], ["ease"])):
        chosen = [{"model": name, "weight": 1 / len(members)} for name in members]
        folder = tmp_path / f"run{number}"
        accord.fit(clicks(), "consensus", options={"model.members": chosen}, out=folder)
        with serving(make_holder(folder)) as address, visit(browser, address) as page:
            page.locator("#user-matches button").first.click()
            page.locator("#recommended > li").first.wait_for()
            said = page.locator("#recommended").text_content()
            assert ("of 2 models agree; ranks: " in said) == (len(members) == 2)
            assert ("in its top 20" in page.locator("#source").text_content()) == (len(members) == 2)
            assert "of 1 models" not in said


def test_users_with_html_in_their_ids_and_users_unknown(browser, address):
    with visit(browser, address) as page:
        page.locator("#user-query").fill("bold")
        page.locator("#user-matches button", has_text="<b>bold</b>").click()
        page.locator("#recommended > li").first.wait_for()
        assert page.locator("#person-heading").text_content() == "User <b>bold</b>"
        assert page.locator("b").count() == 0
        page.locator("#user-query").fill("nobody")
        page.locator("#user-matches", has_text="No matching user.").wait_for()


def test_somebody_new_gets_a_list_of_the_items_they_name(browser, address):
    with visit(browser, address) as page:
        page.locator("#new-user").click()
        page.locator("#source", has_text="The most popular items").wait_for()
        popular = titles(page)
        for item in ("i0005", "i0009"):
            page.locator("#item-query").fill(item)
            page.locator("#item-matches button").first.click()
            page.locator("#history .added", has_text=item).wait_for()
            page.locator("#recommended .title", has_text=f"Film {item}").wait_for(state="detached")
        page.locator("#source", has_text="Recommendations for this history").wait_for()
        assert titles(page) != popular


def test_the_api_is_described_without_a_network(browser, address):
    with visit(browser, address, "/docs") as page:
        page.locator("section").nth(13).wait_for()
        text = page.locator("main").text_content()
        assert "/v1/recommendations/history" in text
        assert "items in the list" in text
        page.locator("summary").first.click()


def test_a_page_whose_server_needs_a_token_asks_for_it(browser, run):  # noqa: F811
    with serving(make_holder(run), Rules(token="secret")) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.locator("#token").fill("secret")
        page.keyboard.press("Enter")
        page.locator("#user-matches button").first.wait_for()
        assert page.locator("#problem").is_hidden()
        context.close()
