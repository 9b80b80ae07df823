"""Loops over the rows of one run, written for numba's compiler: `accord.kernels.cpu` calls them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

CACHE_LINE = 16  # numbers of single precision
SUMMED = 512  # numbers that are added up in single precision, their sums in double


def dot(a: Floats, b: Floats, a_ids: Ints, b_ids: Ints, weight: Floats, out: Floats) -> None:
    """`weight` is empty where there is none."""
    dim = a.shape[1]
    for k in range(len(out)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        total = np.float32(0)
        if len(weight):
            for d in range(dim):
                total += a[i, d] * b[j, d] * weight[d]
        else:
            for d in range(dim):
                total += a[i, d] * b[j, d]
        out[k] = total


def dot_slopes(
    a: Floats, b: Floats, a_ids: Ints, b_ids: Ints, weight: Floats,
    slope: Floats, da: Floats, da_ids: Ints, db: Floats, db_ids: Ints, dw: Floats,
) -> None:  # fmt: skip
    # a loop for each array that is written: the compiler cannot know that they do not overlap
    dim = a.shape[1]
    for k in range(len(slope)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        i_to, j_to = np.uint64(da_ids[k]), np.uint64(db_ids[k])
        s = slope[k]
        if len(weight):
            for d in range(dim):
                da[i_to, d] += s * weight[d] * b[j, d]
            for d in range(dim):
                db[j_to, d] += s * weight[d] * a[i, d]
            for d in range(dim):
                dw[d] += s * a[i, d] * b[j, d]
        else:
            for d in range(dim):
                da[i_to, d] += s * b[j, d]
            for d in range(dim):
                db[j_to, d] += s * a[i, d]


def read_through(table: Floats) -> float:
    """Brings a table into the cache, in order, which takes a fraction of what its rows take at random."""
    found = np.float32(0)  # there is no other way to make the compiler keep the loop than to give back what it found
    for i in range(len(table)):
        for d in range(0, table.shape[1], CACHE_LINE):
            found += table[np.uint64(i), np.uint64(d)]
    return float(found)


def take(table: Floats, ids: Ints, out: Floats) -> None:
    dim = table.shape[1]
    if dim == 1:  # a loop over one number takes several times as long as the number
        for k in range(len(ids)):
            out[k, 0] = table[np.uint64(ids[k]), 0]
        return
    for k in range(len(ids)):
        i = np.uint64(ids[k])
        for d in range(dim):
            out[k, d] = table[i, d]


def add_rows(table: Floats, ids: Ints, rows: Floats) -> None:
    dim = table.shape[1]
    if dim == 1:  # as above
        for k in range(len(ids)):
            table[np.uint64(ids[k]), 0] += rows[k, 0]
        return
    for k in range(len(ids)):
        i = np.uint64(ids[k])
        for d in range(dim):
            table[i, d] += rows[k, d]


def sum_histories(
    table: Floats, ptr: Ints, items: Ints, factors: Floats, users: Ints, kept: Floats, sums: Floats, backward: bool
) -> None:
    """Rows of the table times factors, added up over each user's items; backward, the slopes of these sums to the rows.
    `kept`, where it is not empty, is one more factor for each entry of these users, end to end."""
    dim, place = table.shape[1], 0
    for k in range(len(users)):
        user = np.uint64(users[k])
        for entry in range(ptr[user], ptr[user + np.uint64(1)]):
            factor = factors[np.uint64(entry)]
            if len(kept):
                factor *= kept[np.uint64(place)]
                place += 1
            if factor == 0:
                continue
            i = np.uint64(items[np.uint64(entry)])
            if backward:
                for d in range(dim):
                    table[i, d] += factor * sums[k, d]
            else:
                for d in range(dim):
                    sums[k, d] += factor * table[i, d]


def add(a: Floats, b: Floats, a_ids: Ints, b_ids: Ints, out: Floats) -> None:
    dim = a.shape[1]
    for k in range(len(out)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        for d in range(dim):
            total = a[i, d] + b[j, d]
            out[k, d] = total if total > 0 else np.float32(0)


def add_slopes(out: Floats, slope: Floats, a_ids: Ints, b_ids: Ints, da: Floats, db: Floats) -> None:
    dim = out.shape[1]
    for k in range(len(out)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        for d in range(dim):
            s = slope[k, d]  # read in any case: a read under a condition takes ten times as long
            da[i, d] += s if out[k, d] > 0 else np.float32(0)
        for d in range(dim):
            s = slope[k, d]
            db[j, d] += s if out[k, d] > 0 else np.float32(0)


def relu_of_sum(x: Floats, bias: Floats) -> None:
    for k in range(len(x)):
        for d in range(x.shape[1]):
            total = x[k, d] + bias[d]
            x[k, d] = total if total > 0 else np.float32(0)


def relu_of_sums(one: Floats, rows: Floats, out: Floats) -> None:
    for k in range(len(rows)):
        for d in range(rows.shape[1]):
            total = one[d] + rows[k, d]
            out[k, d] = total if total > 0 else np.float32(0)


def best_items(
    scores: Floats, ptr: Ints, seen: Ints, owners: Ints, priority: Ints, best: Floats, items: Ints
) -> None:  # fmt: skip
    """The best items of each row, in order: by score, then by priority. What the owner of a row has seen is made -inf,
    and what is not a number counts as that.

    The items are laid out in columns, and these in groups. The k-th of the groups' largest scores is reached by k items
    at least, and by few more, all in the few columns whose largest reaches it. Only those are sorted. Where most
    columns reach it, as where most scores are 0, only what is above it is sorted, and items that are level with it
    follow by priority. What a branch would decide is counted instead: a processor guesses such branches wrongly.
    """
    num_items, k = scores.shape[1], best.shape[1]
    nothing = np.float32(-np.inf)
    groups = max(32, -(-3 * k // 64) * 32)
    columns = groups
    while columns * columns < 32 * num_items:  # so many that looking at them and into a few of them costs the same
        columns *= 2
    deep, rest = num_items // columns, num_items % columns  # the first columns have one more
    largest = np.empty(columns, np.float32)
    in_groups = largest.reshape(-1, groups)
    tops, larger = np.empty(groups, np.float32), np.empty(groups, np.int32)
    reach = np.empty(columns + 1, np.uint64)  # columns whose largest score is large enough
    room = columns + deep + 1
    few, few_items = np.empty(room, np.float32), np.empty(room, np.int32)
    first, places = np.empty(room, np.int32), np.empty(room, np.int32)
    by_priority = np.empty(0, np.int32)
    for row in range(len(scores)):
        own = scores[row]
        for at in range(ptr[owners[row]], ptr[owners[row] + 1]):
            own[np.uint64(seen[at])] = nothing
        for column in range(columns):
            largest[column] = nothing
        for depth in range(deep + 1):
            part = own[depth * columns : (depth + 1) * columns]
            for column in range(len(part)):
                score, other = part[column], largest[column]
                largest[column] = score if score > other else other
        for group in range(groups):
            tops[group], larger[group] = largest[group], 0
        for part in range(1, len(in_groups)):
            for group in range(groups):
                score, other = in_groups[part, group], tops[group]
                tops[group] = score if score > other else other
        for one in range(groups):
            score = tops[one]
            for group in range(groups):
                larger[group] += np.int32(score > tops[group])
        least = np.float32(np.inf)
        for group in range(groups):
            score = tops[group] if larger[group] < k else least
            least = score if score < least else least
        reaching = np.uint64(0)
        for column in range(columns):
            reach[reaching] = column
            reaching += np.uint64(largest[column] >= least)
        found, level = np.uint64(0), np.uint64(2) * reaching <= np.uint64(columns)  # whether level ones are sorted too
        for this in range(reaching):
            item = reach[this]
            for _ in range(deep + (item < rest)):
                score = own[item]
                few[found], few_items[found] = score, item
                found += np.uint64((score > least) | (level & (score == least)))
                item += np.uint64(columns)
            last = this + 1 == np.int64(reaching)
            if found + np.uint64(deep) < np.uint64(columns) and not last:
                continue  # there is room for those of another column
            many = np.int64(found)
            for one in range(many):
                first[one], places[one] = priority[few_items[one]], 0
            for one in range(many):
                score, turn = few[one], first[one]
                for other in range(many):
                    places[other] += np.int32((score > few[other]) | ((score == few[other]) & (turn < first[other])))
            for one in range(many):
                if places[one] < k:
                    best[row, places[one]], items[row, places[one]] = few[one], few_items[one]
            found = np.uint64(min(found, k))
            if last:
                break
            for one in range(found):
                few[one], few_items[one] = best[row, one], items[row, one]
            if found == k:
                least, level = best[row, k - 1], np.bool_(True)
        if level or found == np.uint64(k):
            continue
        if not len(by_priority):  # not by np.argsort: loaded from numba's cache it may be another kernel's np.sort
            by_priority = np.empty(num_items, np.int32)
            for item in range(num_items):
                by_priority[priority[item]] = item
        at = 0
        while found < np.uint64(k):
            item = by_priority[at]
            score = own[item] if own[item] > nothing else nothing
            if score == least:
                best[row, found], items[row, found] = score, item
                found += np.uint64(1)
            at += 1


def add_standardised(
    scores: Floats, bits: npt.NDArray[np.int32], out: Floats, weight: float, start: int, end: int
) -> None:  # fmt: skip
    """Add each run's scores [R, B, I] of the users from `start` to before `end`, standardised over the items, to their
    rows of `out` [B, I], `weight` times. `bits` are those of the scores: as integers, without the sign, they are in
    the same order, and the largest of integers is found at full width."""
    runs, _, num_items = scores.shape
    for run in range(runs):
        for row in range(start, end):
            total, squares, largest = np.float64(0), np.float64(0), np.int32(0)
            for item in range(num_items):
                largest = max(largest, bits[run, row, item] & np.int32(0x7FFFFFFF))
            for first in range(0, num_items, SUMMED):
                part = np.float32(0)
                for item in range(first, min(first + SUMMED, num_items)):
                    part += scores[run, row, item]
                total += part
            mean = np.float32(total / num_items)
            for first in range(0, num_items, SUMMED):
                part = np.float32(0)
                for item in range(first, min(first + SUMMED, num_items)):
                    part += (scores[run, row, item] - mean) * (scores[run, row, item] - mean)
                squares += part
            spread = np.float32(np.sqrt(squares / num_items))
            if spread > np.float32(1e-6) * np.int32(largest).view(np.float32):
                factor = np.float32(weight) / spread
                for item in range(num_items):
                    out[row, item] += (scores[run, row, item] - mean) * factor


def closer_rows(
    ptr: Ints, columns: npt.NDArray[np.int32], counts: Floats, vectors: Floats, spectrum: Floats, penalty: Floats,
    steps: int, first: int, found: Floats,
) -> None:  # fmt: skip
    """Rows first, first + 1, … of a matrix: `least_squares.closer` of each row of `found`, in its place."""
    dim = vectors.shape[1]
    diagonal, residual = np.empty(dim, np.float32), np.empty(dim, np.float32)
    direction, image = np.empty(dim, np.float32), np.empty(dim, np.float32)
    for row in range(len(found)):
        own, start, end = found[row], ptr[first + row], ptr[first + row + 1]
        if start == end:
            own[:] = 0
            continue
        for d in range(dim):
            diagonal[d] = spectrum[d] + penalty[first + row]
            residual[d] = -diagonal[d] * own[d]
        for at in range(start, end):
            i, product = np.uint64(columns[at]), np.float32(0)
            for d in range(dim):
                product += vectors[i, d] * own[d]
            product = counts[at] * (np.float32(1) - product)
            for d in range(dim):
                residual[d] += product * vectors[i, d]
        size = np.float32(0)
        for d in range(dim):
            direction[d] = residual[d] / diagonal[d]
            size += residual[d] * direction[d]
        for _ in range(steps):
            if not size > 0:  # it is there, or no number
                break
            for d in range(dim):
                image[d] = diagonal[d] * direction[d]
            for at in range(start, end):
                i, product = np.uint64(columns[at]), np.float32(0)
                for d in range(dim):
                    product += vectors[i, d] * direction[d]
                product *= counts[at]
                for d in range(dim):
                    image[d] += product * vectors[i, d]
            length, before = np.float32(0), size
            for d in range(dim):
                length += direction[d] * image[d]
            if length == 0:  # all that is left to go is too small for a number
                break
            length = size / length
            size = np.float32(0)
            for d in range(dim):
                own[d] += length * direction[d]
                residual[d] -= length * image[d]
                size += residual[d] * residual[d] / diagonal[d]
            for d in range(dim):
                direction[d] = residual[d] / diagonal[d] + size / before * direction[d]


ALL: tuple[Callable[..., object], ...] = (
    dot,
    dot_slopes,
    read_through,
    take,
    add_rows,
    sum_histories,
    add,
    add_slopes,
    relu_of_sum,
    relu_of_sums,
    best_items,
    add_standardised,
    closer_rows,
)
