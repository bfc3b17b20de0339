"""The walk over the vocabulary's trie, written in TIR: which tokens may come next from a configuration.

One kernel does all walks. It is given *items*, places in the trie where a walk goes on, and works until each is done or
waits for Python: a transition that no handler has filled yet, a lazy row, or, in a context-free walk, a lexeme that
ended. What waits is written out as new items; Python answers the requests and hands them back, so nothing is walked
twice. The mask is kept as changed words over a base row of the store.

What an item is, and what else goes in and out, stands in `walkcodes`.

With a base row above zero the walk is *differential*: the mask already holds what the base row allows, and the walk
keeps only to paths where the row and the base row differ, setting and clearing bits. It ends where both are in the same
row. From the first label on the bits below are set from scratch.

Compiled once per machine, see `compiled`.
"""

# TVMScript is Python only to a parser: inline functions assign the scalars around them, `and` looks at both sides.
# ruff: noqa: E701, E702, F823, F841, SIM102
# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Final

from tvm.script import tirx as T

from ..automaton import codes, stacks
from . import walkcodes
from .trie import BYTE_MASK, DEPTH_MASK, DEPTH_SHIFT, END_SHIFT, MANY, PLAIN, TOKEN_MASK, TOKEN_SHIFT

# What became of the byte at hand.
_READ, _STEP, _DEAD, _HELD = range(4)
# Which children of the root are visited.
_RANGE, _LIVE, _EDGES, _DIFFERENT = range(4)
# Bounds of arrays that need none here: memory is handed over by address, since checking some fifty arrays takes longer
# than most walks. `counters` alone is handed over as an array: something must tell what device this runs on.
_MOST: Final = 1 << 24
_MANY_ROWS: Final = 1 << 21


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def walk_kernel() -> Any:
    """The kernel as a TIR function; parsing takes a second, so it is done only when nothing is cached."""
    loops_counted, controls = codes.LOOPS_COUNTED >> 64, codes.CONTROLS >> 64
    total_low, total_high = T.int64(_signed(codes.STRING_LOOPS & (1 << 64) - 1)), T.int64(codes.STRING_LOOPS >> 64)

    def number() -> Any:
        return T.alloc_scalar("int32", "global")

    def word64() -> Any:
        return T.alloc_scalar("int64", "global")

    @T.prim_func(s_tir=True)
    def walk(
        counters: T.Buffer((walkcodes.COUNTERS,), "int32"),
        at_nodes: T.handle("int64"), at_roots: T.handle("int32"), at_first: T.handle("int32"),
        at_order: T.handle("int32"), at_summary: T.handle("int64"), at_characters: T.handle("int32"),
        at_lengths: T.handle("int32"), at_rows: T.handle("int32"), at_form: T.handle("int32"),
        at_edge_byte: T.handle("int32"), at_edge_next: T.handle("int32"), at_accept: T.handle("int32"),
        at_need: T.handle("int32"), at_reach: T.handle("int64"), at_reach_words: T.handle("int64"),
        at_loops: T.handle("int64"), at_base: T.handle("int32"), at_capacity: T.handle("int32"),
        at_allow: T.handle("int64"), at_low: T.handle("int32"), at_high: T.handle("int32"),
        at_next_row: T.handle("int32"), at_next_frame: T.handle("int32"), at_enters: T.handle("int32"),
        at_leaves: T.handle("int32"), at_top: T.handle("int32"), at_rest: T.handle("int32"),
        at_store: T.handle("int32"), at_path: T.handle("int32"), at_own_top: T.handle("int32"),
        at_own_rest: T.handle("int32"), at_mask: T.handle("int32"), at_touched: T.handle("int32"),
        at_index: T.handle("int64"), at_value: T.handle("int32"), at_misses: T.handle("int32"),
        at_exits: T.handle("int32"), at_dependent: T.handle("int32"), at_cost: T.handle("int32"),
        at_items: T.handle("int32"), width: T.int32, n_items: T.int32, item_count: T.int32, here: T.int32,
        frame0: T.int32, count0: T.int32, stack0: T.int32, mask_base: T.int32, mode: T.int32, free_row: T.int32,
    ):
        T.func_attr({"tirx.is_scheduled": True, "global_symbol": "walk", "tirx.noalias": True})
        nodes = T.decl_buffer((_MOST,), "int64", data=at_nodes)
        roots = T.decl_buffer((_MANY_ROWS, 256), "int32", data=at_roots)
        first = T.decl_buffer((_MOST,), "int32", data=at_first)
        order = T.decl_buffer((_MOST,), "int32", data=at_order)
        summary = T.decl_buffer((_MOST, 2), "int64", data=at_summary)
        characters = T.decl_buffer((_MOST,), "int32", data=at_characters)
        lengths = T.decl_buffer((_MOST,), "int32", data=at_lengths)
        rows = T.decl_buffer((_MANY_ROWS, 256), "int32", data=at_rows)
        form = T.decl_buffer((_MOST, 2), "int32", data=at_form)
        edge_byte = T.decl_buffer((_MOST,), "int32", data=at_edge_byte)
        edge_next = T.decl_buffer((_MOST,), "int32", data=at_edge_next)
        accept = T.decl_buffer((_MOST,), "int32", data=at_accept)
        need = T.decl_buffer((_MOST,), "int32", data=at_need); reach = T.decl_buffer((_MOST,), "int64", data=at_reach)
        reach_words = T.decl_buffer((_MOST,), "int64", data=at_reach_words)
        loops = T.decl_buffer((_MOST, 2), "int64", data=at_loops)
        base = T.decl_buffer((_MOST,), "int32", data=at_base)
        capacity = T.decl_buffer((_MOST,), "int32", data=at_capacity)
        allow = T.decl_buffer((_MOST,), "int64", data=at_allow); low = T.decl_buffer((_MOST,), "int32", data=at_low)
        high = T.decl_buffer((_MOST,), "int32", data=at_high)
        next_row = T.decl_buffer((_MOST,), "int32", data=at_next_row)
        next_frame = T.decl_buffer((_MOST,), "int32", data=at_next_frame)
        enters = T.decl_buffer((_MOST,), "int32", data=at_enters)
        leaves = T.decl_buffer((_MOST,), "int32", data=at_leaves); top = T.decl_buffer((_MOST,), "int32", data=at_top)
        rest = T.decl_buffer((_MOST,), "int32", data=at_rest)
        store = T.decl_buffer((_MANY_ROWS, width), "int32", data=at_store)
        path = T.decl_buffer((walkcodes.PATH_ROWS, 5), "int32", data=at_path)
        own_top = T.decl_buffer((_MOST,), "int32", data=at_own_top)
        own_rest = T.decl_buffer((_MOST,), "int32", data=at_own_rest)
        mask = T.decl_buffer((width,), "int32", data=at_mask)
        touched = T.decl_buffer((width,), "int32", data=at_touched)
        index = T.decl_buffer((width,), "int64", data=at_index)
        value = T.decl_buffer((width,), "int32", data=at_value)
        misses = T.decl_buffer((_MOST, 2), "int32", data=at_misses)
        exits = T.decl_buffer((_MOST, walkcodes.ITEM), "int32", data=at_exits)
        dependent = T.decl_buffer((_MOST,), "int32", data=at_dependent)
        cost = T.decl_buffer((_MOST,), "int32", data=at_cost)
        items = T.decl_buffer((2, n_items, walkcodes.ITEM), "int32", data=at_items)

        # On the stack, so in registers; scalars declared with a type would be allocated anew for each call.
        changed = number(); visited = number(); exit_count = number(); dependent_count = number()
        pending_count = number(); miss_count = number(); lowest = number(); opened = number(); node = number()
        packed = word64(); row = number(); frame = number(); n = number(); stack = number(); other = number()
        status = number(); got = number(); target = number(); label = number(); transition = number(); word = number()
        token = number(); scan = number(); stop = number(); item = number(); kind = number(); below = number()
        begin = number(); end = number(); depth = number(); root = number(); above = number(); above_row = number()
        above_frame = number(); above_n = number(); above_other = number(); above_stack = number(); style = number()
        child = number(); children = number(); from_row = number(); from_other = number(); under = number()
        after = number(); byte = number(); skip = number(); lazy = number(); inner = number(); last = number()
        origin = number(); own = number()

        changed = 0; visited = 0; exit_count = 0; dependent_count = 0
        pending_count = 0; miss_count = 0; lowest = stack0; opened = 0
        if (mode & walkcodes.FIRST) == 0:
            changed = counters[walkcodes.CHANGED]; visited = counters[walkcodes.VISITED]
            exit_count = counters[walkcodes.EXITS]; dependent_count = counters[walkcodes.DEPENDENT]
            lowest = counters[walkcodes.LOWEST]; opened = counters[walkcodes.OPENED]

        # The cursor: a node, the configuration before its byte, and a differential walk's base row.
        node = 0; packed = T.int64(0); row = 0; frame = 0; n = 0
        stack = 0; other = 0; status = 0; got = 0; target = 0
        label = 0; transition = 0; word = 0; token = 0; scan = 0
        stop = 0

        @T.inline
        def touch():
            if touched[word] == 0:
                touched[word] = 1
                index[changed] = T.cast(word, "int64"); changed = changed + 1
                mask[word] = store[mask_base, word]

        @T.inline
        def set_token():
            word = T.shift_right(token, 5)
            touch()
            mask[word] = mask[word] | T.shift_left(1, token & 31)

        @T.inline
        def set_here(code_points):
            token = T.cast(T.shift_right(packed, T.int64(TOKEN_SHIFT)) & T.int64(TOKEN_MASK), "int32") - 1
            if token >= 0:
                set_token()
                if (mode & walkcodes.COSTS) != 0:
                    cost[token] = code_points
                if (packed & T.int64(MANY)) != T.int64(0):
                    scan = first[node] + 1; stop = first[node + 1]
                    while scan < stop:
                        token = order[scan]
                        set_token()
                        if (mode & walkcodes.COSTS) != 0:
                            cost[token] = code_points
                        scan = scan + 1

        @T.inline
        def clear_subtree():
            # What the base row says of this subtree does not hold here.
            scan = first[node]; stop = first[T.cast(T.shift_right(packed, T.int64(END_SHIFT)), "int32")]
            while scan < stop:
                token = order[scan]; word = T.shift_right(token, 5)
                touch()
                mask[word] = mask[word] & (-1 - T.shift_left(1, token & 31)); scan = scan + 1

        @T.inline
        def undo():
            # `got` is what the base row says of the byte: without an edge or an end it allows nothing here.
            if got != 0 or (accept[other] != 0 and depth != own): clear_subtree()
            other = 0

        @T.inline
        def read(of, byte):
            if form[of, 0] == codes.DENSE:
                got = rows[of, byte]
            else:
                got = rows[form[of, 0] - 1, byte]; scan = T.shift_right(form[of, 1], codes.EDGE_SHIFT)
                stop = scan + (form[of, 1] & codes.MAX_EDGES)
                while scan < stop:
                    if edge_byte[scan] == byte:
                        got = edge_next[scan]; stop = scan
                    scan = scan + 1

        @T.inline
        def check_reach(value_flags, of, otherwise):
            if (value_flags & codes.REACH) != 0:
                if (reach[of] & allow[frame]) == T.int64(0):
                    otherwise()
            if (value_flags & codes.REACH_WIDE) != 0:
                # Both are offsets into the words; a context-free walk of unbound frame allows every label.
                if allow[frame] >= T.int64(0):
                    scan = T.cast(reach[of], "int32")
                    word = T.cast(allow[frame] & T.int64(0xFFFFFFFF), "int32")
                    stop = scan + (T.cast(T.shift_right(allow[frame], T.int64(32)), "int32") & walkcodes.MAX_WORDS)
                    token = 0
                    while scan < stop:
                        if (reach_words[scan] & reach_words[word]) != T.int64(0):
                            token = 1; stop = scan
                        scan = scan + 1; word = word + 1
                    if token == 0:
                        otherwise()

        @T.inline
        def die():
            status = _DEAD

        @T.inline
        def hold(kind, place, base_row):
            items[1 - here, pending_count, walkcodes.NODE] = node
            items[1 - here, pending_count, walkcodes.KIND] = kind
            items[1 - here, pending_count, walkcodes.FRAME] = frame
            items[1 - here, pending_count, walkcodes.PLACE] = place
            items[1 - here, pending_count, walkcodes.COUNTED] = n
            items[1 - here, pending_count, walkcodes.BASE_ROW] = base_row
            items[1 - here, pending_count, walkcodes.STACK] = stack
            pending_count = pending_count + 1; status = _HELD

        @T.inline
        def keep_exit(kind, checks_low):
            exits[exit_count, walkcodes.NODE] = node
            exits[exit_count, walkcodes.KIND] = kind + checks_low * (walkcodes.AFTER_LOW - walkcodes.AFTER)
            exits[exit_count, walkcodes.FRAME] = walkcodes.ANY_FRAME; exits[exit_count, walkcodes.PLACE] = label
            exits[exit_count, walkcodes.COUNTED] = n; exits[exit_count, walkcodes.BASE_ROW] = 0
            exits[exit_count, walkcodes.STACK] = 0
            exit_count = exit_count + 1; status = _HELD

        @T.inline
        def request(one, two):
            misses[miss_count, 0] = one; misses[miss_count, 1] = two
            miss_count = miss_count + 1

        @T.inline
        def request_row(of):
            if form[of, 0] == codes.LAZY:
                form[of, 0] = codes.LAZY_REQUESTED
                request(-1, of)

        @T.inline
        def follow(kind):
            # `transition` becomes the row after `label` under `frame`; if there is none to go on in, `status` says why.
            # Where the frame closes what it is in, frame, label and stack become those of what waited for that.
            transition = codes.CLOSED
            while transition == codes.CLOSED:
                transition = codes.UNKNOWN
                if label < capacity[frame]:
                    transition = next_row[base[frame] + label]
                    if transition == codes.UNKNOWN: next_row[base[frame] + label] = codes.REQUESTED
                if transition == codes.UNKNOWN:
                    request(frame, label); transition = codes.REQUESTED
                if transition == codes.CLOSED:
                    if stack == 0:
                        transition = codes.DEAD
                        lowest = -1  # with anything on the stack it would have been otherwise
                    else:
                        label = next_frame[base[frame] + label]
                        if stack >= stacks.TEMPORARY:
                            frame = own_top[stack - stacks.TEMPORARY]; stack = own_rest[stack - stacks.TEMPORARY]
                        else:
                            frame = top[stack]; stack = rest[stack]
                            lowest = T.min(lowest, stack)
            if transition == codes.REQUESTED:
                hold(kind, label, 0)
            elif transition == codes.TEXT_DEPENDENT:
                dependent[dependent_count] = node
                dependent_count = dependent_count + 1; status = _HELD
            elif transition < 0: status = _DEAD

        @T.inline
        def enter():
            # Into the frame that the transition followed leads to.
            scan = next_frame[base[frame] + label]
            if scan < 0:
                own_top[opened] = leaves[0 - scan]; own_rest[opened] = stack
                stack = stacks.TEMPORARY + opened; opened = opened + 1; frame = enters[0 - scan]
            else:
                frame = scan
            n = 0

        item = 0
        while item < item_count:
            node = items[here, item, walkcodes.NODE]
            packed = nodes[node]; frame = items[here, item, walkcodes.FRAME]
            row = items[here, item, walkcodes.PLACE]; n = items[here, item, walkcodes.COUNTED]
            other = items[here, item, walkcodes.BASE_ROW]; stack = items[here, item, walkcodes.STACK]
            kind = items[here, item, walkcodes.KIND]
            below = T.if_then_else(kind == walkcodes.BELOW_OWN, kind, walkcodes.BELOW); status = _READ
            if kind == walkcodes.AFTER or kind == walkcodes.BEFORE or kind == walkcodes.AFTER_LOW:
                label = row
                if frame < 0:
                    frame = frame0; stack = stack0; n = n + count0
                    if n > high[frame] or (kind == walkcodes.AFTER_LOW and n < low[frame]):
                        status = _DEAD
                if status == _READ:
                    follow(T.if_then_else(kind == walkcodes.BEFORE, walkcodes.BEFORE, walkcodes.AFTER))
                if status == _READ:
                    row = transition
                    enter()
                    if kind != walkcodes.BEFORE:
                        set_here(0)
            # The walk covers nodes from `begin` to `end`: from the node itself, or from below it.
            begin = node + T.if_then_else(kind == walkcodes.BEFORE or kind == walkcodes.AT, 0, 1)
            end = T.cast(T.shift_right(packed, T.int64(END_SHIFT)), "int32")
            depth = T.cast(T.shift_right(packed, T.int64(DEPTH_SHIFT)) & T.int64(DEPTH_MASK), "int32")
            status = T.if_then_else(begin == end, _DEAD, status)
            if status == _READ:
                if form[row, 0] < 0:
                    request_row(row)
                    hold(T.if_then_else(begin == node, walkcodes.AT, below), row, other)
            if status == _READ:
                if other > 0:
                    if form[other, 0] < 0:
                        request_row(other)
                        hold(below, row, other)
                    elif pending_count > 0:
                        if depth <= 1 and begin > node:  # below the root, or a space
                            hold(below, row, other)  # it undoes bits, and what waits has still to set its own
            if status == _READ:
                root = -1
                if begin > node and depth == 0:
                    root = characters[node]
                own = T.if_then_else(kind == walkcodes.BELOW_OWN, depth + 1, -1)
                if begin == node: depth = depth - 1
                path[depth, 0] = row; path[depth, 1] = frame; path[depth, 2] = n; path[depth, 3] = other
                path[depth, 4] = stack; above = -1; above_row = 0; above_frame = 0; above_n = 0
                above_other = 0; above_stack = 0

                # At the root only the children that can live, or can differ, are visited.
                style = _RANGE; child = 0; children = 1; from_row = row; from_other = other
                if root >= 0:
                    if accept[row] == 0 or kind == walkcodes.BELOW_OWN:
                        if form[row, 0] == codes.DENSE:
                            if other == 0:
                                style = _LIVE
                                children = 256
                            elif form[other, 0] == codes.DENSE:
                                style = _DIFFERENT
                                children = 256
                        else:
                            # Only edges count where the sparse row's base is the walk's base, or lets nothing live.
                            under = form[row, 0] - 1
                            if under == other:
                                style = _EDGES
                            elif other == 0:
                                if reach[under] == T.int64(codes.OTHER_KEY):
                                    if (allow[frame] & T.int64(codes.OTHER_KEY)) == T.int64(0):
                                        style = _EDGES
                            if style == _EDGES:
                                children = form[row, 1] & codes.MAX_EDGES
                while child < children:
                    if style == _LIVE:
                        while child < 255 and rows[from_row, child] == 0:
                            child = child + 1
                        begin = roots[root, child]
                    elif style == _DIFFERENT:
                        while child < 255 and ((rows[from_row, child] ^ rows[from_other, child]) & codes.ROW_MASK) == 0:
                            child = child + 1
                        begin = roots[root, child]
                    elif style == _EDGES:
                        begin = roots[root, edge_byte[T.shift_right(form[from_row, 1], codes.EDGE_SHIFT) + child]]
                    if style != _RANGE:
                        end = 0
                        if begin > 0:
                            end = T.cast(T.shift_right(nodes[begin], T.int64(END_SHIFT)), "int32")
                    child = child + 1
                    node = begin
                    while node < end:
                        visited = visited + 1
                        packed = nodes[node]
                        after = T.cast(T.shift_right(packed, T.int64(END_SHIFT)), "int32")
                        depth = T.cast(T.shift_right(packed, T.int64(DEPTH_SHIFT)) & T.int64(DEPTH_MASK), "int32")
                        if depth != above:
                            above = depth
                            above_row = path[depth - 1, 0]; above_frame = path[depth - 1, 1]
                            above_n = path[depth - 1, 2]; above_other = path[depth - 1, 3]
                            above_stack = path[depth - 1, 4]
                        row = above_row; frame = above_frame; n = above_n
                        other = above_other; stack = above_stack
                        byte = T.cast(packed & T.int64(BYTE_MASK), "int32"); status = _READ
                        while status == _READ:
                            read(row, byte)
                            if got > 0:
                                target = got & codes.ROW_MASK; status = _STEP
                                if (got & codes.COUNT) != 0:
                                    n = n + 1
                                if (got & (codes.COUNT | codes.NEED)) != 0:
                                    if high[frame] < codes.BIG:
                                        if n + need[target] > high[frame]:
                                            status = _DEAD
                                if (got & (codes.REACH | codes.REACH_WIDE)) != 0:
                                    check_reach(got, target, die)
                            else:
                                label = T.if_then_else(depth == own, 0, accept[row]) - 1
                                if got < 0: label = ((0 - got) & codes.LABEL_MASK) - 1
                                if label < 0:
                                    status = _DEAD
                                else:
                                    if other > 0: read(other, byte); undo(); read(row, byte)
                                    if got < 0:
                                        if ((0 - got) & codes.CHECK_LOW) != 0 and n < low[frame]:
                                            status = _DEAD
                                    if status == _READ:
                                        if (mode & walkcodes.CONTEXT_FREE) != 0:
                                            keep_exit(
                                                T.if_then_else(got == 0, walkcodes.BEFORE, walkcodes.AFTER),
                                                T.if_then_else(((0 - got) & codes.CHECK_LOW) != 0, 1, 0),
                                            )
                                        else:
                                            follow(T.if_then_else(got == 0, walkcodes.BEFORE, walkcodes.AFTER))
                                    if status == _READ:
                                        enter()
                                        if got < 0:
                                            target = transition; status = _STEP
                                        else:
                                            row = transition
                                            if form[row, 0] < 0:
                                                request_row(row)
                                                hold(walkcodes.AT, row, 0)
                        if status == _STEP:
                            if other > 0:
                                read(other, byte)
                                if got > 0: other = got & codes.ROW_MASK
                                else: undo()
                            if other > 0 and other == target:
                                node = after
                            else:
                                set_here(n + need[target])
                                if node + 1 < after:
                                    skip = 0
                                    if other == 0:
                                        if loops[target, 1] != T.int64(0):
                                            if (summary[node, 0] & (T.int64(-1) - loops[target, 0])) == T.int64(0):
                                                if (summary[node, 1] & (T.int64(-1) - loops[target, 1])) == T.int64(0):
                                                    if high[frame] >= codes.BIG:
                                                        skip = 1
                                            if (mode & walkcodes.COSTS) != 0:
                                                # Rows that refuse no character may still lead to one that needs more.
                                                if target != free_row:
                                                    if (loops[target, 0] & total_low) == total_low:
                                                        if (loops[target, 1] & total_high) == total_high:
                                                            skip = 0
                                    lazy = 0
                                    if skip == 0:
                                        if form[target, 0] < 0:
                                            request_row(target)
                                            lazy = 1
                                        if other > 0:
                                            if form[other, 0] < 0:
                                                request_row(other)
                                                lazy = 1
                                    if skip != 0:
                                        # Every byte below leads back here: all tokens below are allowed.
                                        if (mode & walkcodes.PLAIN_BASE) == 0 or (packed & T.int64(PLAIN)) == 0 or (
                                            summary[node, 1] & T.int64(controls)) != 0:  # not all below is plain
                                            inner = first[node + 1]; last = first[after]
                                            origin = n + need[target] - characters[node]
                                            while inner < last:
                                                token = order[inner]
                                                set_token()
                                                if (mode & walkcodes.COSTS) != 0:
                                                    if (loops[target, 1] & T.int64(loops_counted)) != T.int64(0):
                                                        cost[token] = origin + lengths[inner]
                                                    else:
                                                        cost[token] = n + need[target]
                                                inner = inner + 1
                                        node = after
                                    elif lazy != 0:
                                        hold(walkcodes.BELOW, target, other)
                                        node = after
                                    else:
                                        path[depth, 0] = target; path[depth, 1] = frame; path[depth, 2] = n
                                        path[depth, 3] = other; path[depth, 4] = stack
                                        node = node + 1
                                else:
                                    node = after
                        else:
                            if status == _DEAD and other > 0: read(other, byte); undo()
                            node = after
            item = item + 1

        counters[walkcodes.CHANGED] = changed; counters[walkcodes.PENDING] = pending_count
        counters[walkcodes.MISSES] = miss_count; counters[walkcodes.VISITED] = visited
        counters[walkcodes.EXITS] = exit_count; counters[walkcodes.DEPENDENT] = dependent_count
        counters[walkcodes.LOWEST] = lowest; counters[walkcodes.OPENED] = opened
        if pending_count == 0 and (mode & walkcodes.MORE) == 0:
            scan = 0
            while scan < changed:
                value[scan] = mask[index[scan]]; touched[index[scan]] = 0; scan = scan + 1

    return walk
