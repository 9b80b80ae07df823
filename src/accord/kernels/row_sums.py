"""The sum of some rows of a table, each times a factor, in the registers of the processor.

numba's compiler cannot know that where a sum is written is none of the rows that are read, so a loop of Python would
read and write the sum once for every row. Here the compiler is told what to do instruction by instruction, in vectors
that are held until a list is through. numba keeps what it has compiled until `neighbour_loops`, which calls this, is
written anew: touch that file where this one changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
WIDTHS = 64, 32, 16, 4, 1  # numbers held at once, the widest first; what is left of a row takes the next


def sum_rows(table: Floats, columns: Ints, factors: Floats, start: int, end: int, out: Floats, n: int) -> None:
    """The rows columns[start:end] of the table, each times its factor, one after another added up in row n of `out`."""
    out[n] = 0
    for column, factor in zip(columns[start:end], factors[start:end], strict=True):
        out[n] += factor * table[column]


def compile_row_sums() -> None:
    """Let numba compile calls of `sum_rows`."""
    from llvmlite import ir
    from numba import extending
    from numba.core import cgutils, types
    from numba.np import arrayobj

    helpers: Any = cgutils  # numba's types of these say less than they take
    array_of: Any = arrayobj.make_array
    intrinsic: Any = extending.intrinsic
    index, lane, real = ir.IntType(64), ir.IntType(32), ir.FloatType()

    def in_registers(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, columns, factors, sums = (
            array_of(signature.args[place])(context, builder, arguments[place]) for place in (0, 1, 2, 5)
        )
        dim, done = helpers.unpack_tuple(builder, rows.shape)[1], ir.Constant(index, 0)
        for width in WIDTHS:
            vector, step = ir.VectorType(real, width), ir.Constant(index, width)
            empty = ir.Constant(vector, ir.Undefined)
            everywhere = ir.Constant(ir.VectorType(lane, width), [0] * width)
            whole = builder.sub(dim, builder.urem(dim, step))
            with helpers.for_range_slice(builder, done, whole, step) as (first, _):
                total = helpers.alloca_once(builder, vector)
                builder.store(ir.Constant(vector, [0.0] * width), total)
                with helpers.for_range_slice(builder, *arguments[3:5], ir.Constant(index, 1)) as (at, _):
                    column = builder.load(builder.gep(columns.data, [at]))
                    row = builder.gep(rows.data, [builder.add(builder.mul(column, dim), first)])
                    own = builder.load(builder.bitcast(row, vector.as_pointer()), align=4)
                    factor = builder.load(builder.gep(factors.data, [at]))
                    factor = builder.insert_element(empty, factor, ir.Constant(lane, 0))
                    factor = builder.shuffle_vector(factor, empty, everywhere)
                    more = builder.fmul(factor, own, flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), more, flags=("contract",)), total)
                into = builder.gep(sums.data, [builder.add(builder.mul(arguments[6], dim), first)])
                builder.store(builder.load(total), builder.bitcast(into, vector.as_pointer()), align=4)
            done = whole
        return context.get_dummy_value()

    def typed(_: Any, table: Any, columns: Any, factors: Any, start: Any, end: Any, out: Any, n: Any) -> Any:
        return types.void(table, columns, factors, types.int64, types.int64, out, types.int64), in_registers

    summed = intrinsic(typed)

    @extending.overload(sum_rows)
    def _(table: Any, columns: Any, factors: Any, start: Any, end: Any, out: Any, n: Any) -> Any:
        if {one.layout for one in (table, columns, factors, out)} != {"C"} or columns.dtype != types.int64:
            return None  # numba says that it cannot compile the call

        def call(table: Any, columns: Any, factors: Any, start: Any, end: Any, out: Any, n: Any) -> Any:
            summed(table, columns, factors, start, end, out, n)

        return call
