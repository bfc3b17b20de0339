"""Whole models against a float64 reference, the KV cache's rules, and what a wrong step is told."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from runtime_models import Shape, Tiny, divergence, make, reference
from slipcast.engine.errors import ConfigError, ModelFault, PagesExhaustedError, StepError
from slipcast.engine.runtime import LoadedModel, load_model

PAGE = 16
SHAPE = Shape()


@pytest.fixture(scope="session")
def libraries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compiled libraries are kept between runs; their key has the kernels' sources in it."""
    patch = pytest.MonkeyPatch()
    patch.setenv("SLIPCAST_CACHE", str(request.config.cache.mkdir("slipcast")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def load(tiny: Tiny, **options: int) -> LoadedModel:
    return load_model(tiny.path, **{"max_batch": 8, "prefill_chunk": 64, "threads": 1, **options})


@pytest.fixture(scope="session")
def exact(libraries: None, folder: Path) -> tuple[Tiny, LoadedModel]:
    """Float32 weights: all error left is that of float16 pages."""
    tiny = make(folder / "exact.gguf", SHAPE, "F32")
    return tiny, load(tiny)


@pytest.fixture
def model(exact: tuple[Tiny, LoadedModel]) -> Iterator[LoadedModel]:
    """The exact model, with an empty cache before and after."""
    yield exact[1]
    for sequence in exact[1].kv.sequences:
        exact[1].kv.remove(sequence)
    assert exact[1].kv.free_pages == exact[1].kv.total_pages


def some_tokens(count: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(0, SHAPE.vocab, count)]


def run_in_chunks(model: LoadedModel, tokens: list[int], sizes: list[int]) -> np.ndarray:
    """Logits after each chunk, by a fresh sequence."""
    model.kv.add(900)
    rows, start = [], 0
    for size in sizes:
        rows.append(model.step([900], [tokens[start : start + size]])[0])
        start += size
    model.kv.remove(900)
    return np.stack(rows)


def close(expected: np.ndarray, found: np.ndarray) -> bool:
    return bool((divergence(expected, found) < 1e-4).all() and np.abs(expected - found).max() < 0.05)


def test_prefill_chunks_and_decodes_match_the_reference(exact: tuple[Tiny, LoadedModel], model: LoadedModel) -> None:
    tokens = some_tokens(120)
    expected = reference(exact[0].weights, SHAPE, tokens)
    for sizes in ([64, 56], [1] * 40, [17, 1, 1, 30, 16, 15, 1, 39], [33]):
        ends = np.cumsum(sizes) - 1
        assert close(expected[ends], run_in_chunks(model, tokens, sizes)), sizes


def test_float32_pages_match_more_closely(folder: Path, libraries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The portable kernels, on this machine without AVX2: also the only rounding left is float32's."""
    monkeypatch.setattr("slipcast.engine.runtime.load.instruction_set", lambda: "portable")
    tiny = make(folder / "portable.gguf", SHAPE, "F32")
    tokens = some_tokens(90)
    expected = reference(tiny.weights, SHAPE, tokens)
    found = run_in_chunks(load(tiny), tokens, [40, 1, 1, 1, 46, 1])
    assert np.abs(expected[[39, 40, 41, 42, 88, 89]] - found).max() < 1e-4


# Bounds of the mean divergence: several times what was measured, far under any real fault (which gives more than 0.1).
@pytest.mark.parametrize(
    ("kind", "kinds", "tied", "bound"),
    [
        ("F16", {"attn_v": "F32", "ffn_down": "BF16"}, False, 1e-4),
        ("Q8_0", {"token_embd": "F16"}, True, 1e-2),
        ("Q4_1", {"attn_v": "Q8_0", "ffn_down": "Q4_0", "output": "Q4_0"}, False, 1e-2),
        ("Q4_0", {"attn_output": "F16", "ffn_gate": "F32"}, False, 1e-2),
    ],
)
def test_formats_and_mixtures(
    kind: str, kinds: dict[str, str], tied: bool, bound: float, folder: Path, libraries: None
) -> None:
    shape = Shape(layers=1, heads=6, kv_heads=2, feed_forward=64)
    tiny = make(folder / f"{kind}.gguf", shape, kind, tied=tied, kinds=kinds)
    tokens = some_tokens(60)
    expected = reference(tiny.weights, shape, tokens)[39:]
    found = run_in_chunks(load(tiny), tokens, [40, *[1] * 20])
    assert divergence(expected, found).mean() < bound
    assert np.corrcoef(expected.ravel(), found.ravel())[0, 1] > 0.995


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(2, 2, 32), (5, 1, 32), (8, 1, 48)])
def test_head_groups(heads: int, kv_heads: int, head_dim: int, folder: Path, libraries: None) -> None:
    """One, five and eight query heads share a key head: every split of heads among registers."""
    shape = Shape(layers=1, hidden=32, feed_forward=32, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    tiny = make(folder / f"heads{heads}.gguf", shape, "F32")
    tokens = some_tokens(50)
    expected = reference(tiny.weights, shape, tokens)
    found = run_in_chunks(load(tiny), tokens, [30, 1, 18, 1])
    assert close(expected[[29, 30, 48, 49]], found)


def test_other_rotary_angles(folder: Path, libraries: None) -> None:
    shape = Shape(theta=500.0, rope_scale=2.5)
    tiny = make(folder / "angles.gguf", shape, "F32")
    tokens = some_tokens(50)
    expected = reference(tiny.weights, shape, tokens)
    assert not close(reference(tiny.weights, SHAPE, tokens), expected)
    assert close(expected[[29, 49]], run_in_chunks(load(tiny), tokens, [30, 20]))


def test_a_batch_gives_what_each_gives_alone(model: LoadedModel) -> None:
    prompts = [some_tokens(n, seed=n) for n in (1, 5, 16, 23, 18)]
    alone = [run_in_chunks(model, [*prompt, 7, 8], [len(prompt), 1, 1]) for prompt in prompts]
    for i in range(5):
        model.kv.add(i)
    first = model.step(range(5), prompts)
    second = model.step([4, 2, 0, 1, 3], [[7]] * 5)[[2, 3, 1, 4, 0]]
    third = model.step(range(5), [[8]] * 5)
    for i in range(5):
        assert close(alone[i], np.stack([first[i], second[i], third[i]])), i


def test_prefill_and_decode_share_a_step(exact: tuple[Tiny, LoadedModel], model: LoadedModel) -> None:
    long, short = some_tokens(50, seed=1), some_tokens(30, seed=2)
    model.kv.add(0)
    model.kv.add(1)
    model.step([0], [long[:20]])
    model.step([0, 1], [long[20:21], short[:12]])
    mixed = model.step([1, 0], [short[12:], long[21:]])
    expected = [reference(exact[0].weights, SHAPE, tokens)[-1] for tokens in (short, long)]
    assert close(np.stack(expected), mixed)


@pytest.mark.parametrize("position", [1, 15, 16, 17, 32, 39, -1])
def test_a_fork_continues_from_its_position(position: int, exact: tuple[Tiny, LoadedModel], model: LoadedModel) -> None:
    tokens, other = some_tokens(60, seed=3), some_tokens(20, seed=4)
    model.kv.add(0)
    model.step([0], [tokens[:40]])
    model.kv.fork(0, 1, position)
    kept = tokens[:40] if position == -1 else tokens[:position]
    assert model.kv.length(1) == len(kept)
    both = model.step([0, 1], [tokens[40:], other])
    expected = [reference(exact[0].weights, SHAPE, each)[-1] for each in (tokens, kept + other)]
    assert close(np.stack(expected), both)


def test_truncation_forgets(exact: tuple[Tiny, LoadedModel], model: LoadedModel) -> None:
    tokens, wrong = some_tokens(60, seed=5), some_tokens(35, seed=6)
    model.kv.add(0)
    model.step([0], [tokens[:30]])
    model.step([0], [wrong])
    model.kv.truncate(0, 35)
    assert model.kv.length(0) == 30
    found = model.step([0], [tokens[30:]])
    assert close(reference(exact[0].weights, SHAPE, tokens)[-1:], found)
    model.kv.truncate(0, 60)
    assert model.kv.free_pages == model.kv.total_pages


def test_random_histories(exact: tuple[Tiny, LoadedModel], model: LoadedModel) -> None:
    """Adding, stepping, forking, cutting and removing at random: texts, page counts and logits stay right."""
    for seed in range(6):
        _random_history(random.Random(seed), exact[0], model)


def _random_history(rng: random.Random, tiny: Tiny, model: LoadedModel) -> None:
    texts: dict[int, list[int]] = {}
    kv, fresh = model.kv, 0
    for _ in range(60):
        choice, free, copies = rng.choice("asssstfr"), kv.free_pages, 0
        if choice == "a" or not texts:
            kv.add(fresh)
            texts[fresh] = []
            fresh += 1
            expected = 0
        elif choice == "s":
            ids = rng.sample(sorted(texts), rng.randint(1, min(len(texts), 6)))
            chunks = {i: some_tokens(rng.choice([1, 1, 3, 9]), seed=rng.randrange(999)) for i in ids}
            chunks = {i: chunk for i, chunk in chunks.items() if len(texts[i]) + len(chunk) <= SHAPE.context}
            expected = sum(kv.pages_for(i, len(chunk)) for i, chunk in chunks.items())
            copies = sum(kv._must_copy(i) for i in chunks)
            logits = model.step(list(chunks), list(chunks.values()))
            for i, chunk in chunks.items():
                texts[i] += chunk
            i = rng.choice(list(chunks))
            assert close(reference(tiny.weights, SHAPE, texts[i])[-1], logits[list(chunks).index(i)])
        elif choice == "f" and len(texts) < 8:
            parent = rng.choice(sorted(texts))
            position = rng.randint(0, len(texts[parent]))
            kv.fork(parent, fresh, position)
            texts[fresh] = texts[parent][:position]
            fresh += 1
            expected = int(position % PAGE > 0)
        else:
            i = rng.choice(sorted(texts))
            if choice == "t":
                count = rng.randint(0, len(texts[i]))
                kv.truncate(i, count)
                del texts[i][len(texts[i]) - count :]
            else:
                kv.remove(i)
                del texts[i]
            assert kv.free_pages >= free
            continue
        # Of several that were cut back into one page, the last to write there may keep it.
        assert expected - max(copies - 1, 0) <= free - kv.free_pages <= expected
        assert {i: kv.length(i) for i in kv.sequences} == {i: len(text) for i, text in texts.items()}
    for i in texts:
        kv.remove(i)
    assert kv.free_pages == kv.total_pages


def test_pages_run_out_without_harm(exact: tuple[Tiny, LoadedModel], model: LoadedModel) -> None:
    tokens = some_tokens(48)
    for i in range(40):
        model.kv.add(i)
    full = 0
    while model.kv.free_pages >= 3:
        model.step([full], [tokens])
        full += 1
    free = model.kv.free_pages
    with pytest.raises(PagesExhaustedError) as caught:
        model.step([full, 0], [tokens, [1]])
    assert (caught.value.needed, caught.value.free) == (4, free)
    assert model.kv.length(full) == 0
    assert model.kv.length(0) == 48
    model.kv.remove(1)
    found = model.step([full], [tokens])
    assert close(reference(exact[0].weights, SHAPE, tokens)[-1:], found)


def test_the_context_limit_is_exact(model: LoadedModel) -> None:
    model.kv.add(0)
    for _ in range(2):
        model.step([0], [some_tokens(64)])
    with pytest.raises(StepError, match="exceed the context of 160"):
        model.step([0], [some_tokens(33)])
    model.step([0], [some_tokens(31)])
    model.step([0], [[1]])
    with pytest.raises(StepError, match="has 160 tokens"):
        model.step([0], [[1]])
    assert model.kv.length(0) == 160


@pytest.mark.parametrize(
    ("sequences", "tokens", "says"),
    [
        ([], [], "1 to 8 sequences"),
        ([0], [], "1 sequences and 0 chunks"),
        ([0, 0], [[1], [1]], "twice"),
        ([5], [[1]], "no sequence 5"),
        ([0], [[]], "sequence 0 has no tokens"),
        ([0], [[1] * 65], "at most 64 tokens, not 65"),
        ([0, 1], [[1] * 33, [1] * 32], "at most 64 tokens, not 65"),
        (list(range(9)), [[1]] * 9, "1 to 8 sequences, not 9"),
        ([0], [[-1]], "token -1 is outside the vocabulary of 259"),
        ([0], [[259]], "token 259"),
        ([0], [[1 << 80]], "tokens must be integers"),
        ([0], [["a"]], "tokens must be integers"),
    ],
)
def test_wrong_steps_are_refused(sequences: list[int], tokens: list[list[int]], says: str, model: LoadedModel) -> None:
    model.kv.add(0)
    model.kv.add(1)
    with pytest.raises(StepError, match=says):
        model.step(sequences, tokens)
    assert model.kv.length(0) == model.kv.length(1) == 0


@pytest.mark.parametrize("counts", [[1], [1, 1, 1], [0, 1], [1, 3], [-1, 1]])
def test_wrong_counts_of_logits_are_refused(counts: list[int], model: LoadedModel) -> None:
    model.kv.add(0)
    model.kv.add(1)
    with pytest.raises(StepError, match="logits"):
        model.step([0, 1], [[1, 2], [3, 4]], counts)
    assert model.kv.length(0) == model.kv.length(1) == 0


def test_wrong_changes_of_the_cache_are_refused(model: LoadedModel) -> None:
    kv = model.kv
    kv.add(0)
    model.step([0], [[1, 2, 3]])
    for wrong in (0, -1, 1 << 31, True, "a"):
        with pytest.raises(StepError):
            kv.add(wrong)  # type: ignore[arg-type]
    for position in (-2, 4):
        with pytest.raises(StepError, match="holds 3 tokens"):
            kv.fork(0, 1, position)
    with pytest.raises(StepError):
        kv.fork(7, 8)
    with pytest.raises(StepError):
        kv.fork(0, 0)
    for count in (-1, 4):
        with pytest.raises(StepError, match="holds 3"):
            kv.truncate(0, count)
    with pytest.raises(StepError):
        kv.remove(1)
    assert kv.sequences == (0,)


@pytest.mark.parametrize("fault", [RuntimeError("Check failed: x"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_failed_step_is_undone(
    fault: BaseException, exact: tuple[Tiny, LoadedModel], model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise fault

    tokens = some_tokens(40)
    model.kv.add(0)
    model.kv.add(1)
    model.step([0], [tokens[:20]])
    free = model.kv.free_pages
    with monkeypatch.context() as patch:
        patch.setattr(model, "_run", fail)
        with pytest.raises(ModelFault if isinstance(fault, Exception) else KeyboardInterrupt):
            model.step([0, 1], [[9] * 30, [9]])
    assert (model.kv.length(0), model.kv.length(1), model.kv.free_pages) == (20, 0, free)
    found = model.step([0], [tokens[20:]])
    assert close(reference(exact[0].weights, SHAPE, tokens)[-1:], found)


def test_logits_are_the_callers(model: LoadedModel) -> None:
    model.kv.add(0)
    first = model.step([0], [[1]])
    before = first.copy()
    model.step([0], [[2]])
    np.testing.assert_array_equal(first, before)
    assert first.shape == (1, SHAPE.vocab)
    assert first.dtype == np.float32
    assert first.flags.c_contiguous


def test_other_threads_run_during_a_step(model: LoadedModel) -> None:
    # Whether they do run depends on the machine's load; that the call lets go of the lock does not.
    assert model._run.release_gil


def test_threads_change_no_bit(exact: tuple[Tiny, LoadedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")  # to be had back
    model = load(exact[0], threads=2)
    assert model.threads == 2
    tokens, rows = some_tokens(40), []

    def run() -> None:  # in a thread of its own, since TVM fixes their number at a thread's first step
        for count in (2, 1, 7, 0):
            model.use_threads(count)
            rows.append(run_in_chunks(model, tokens, [30, 1, 1, 8]))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(rows) == 4
    assert all(np.array_equal(rows[0], row) for row in rows)


@pytest.mark.parametrize("name", ["max_batch", "max_context", "prefill_chunk", "kv_tokens", "threads"])
def test_sizes_below_one_are_refused(name: str, exact: tuple[Tiny, LoadedModel]) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        load_model(exact[0].path, **{name: 0})
    assert caught.value.key == name


def test_a_smaller_context_is_kept(exact: tuple[Tiny, LoadedModel]) -> None:
    model = load(exact[0], max_context=20, max_batch=2)
    assert model.kv.total_pages >= 4
    model.kv.add(0)
    with pytest.raises(StepError, match="context of 20"):
        model.step([0], [some_tokens(21)])
