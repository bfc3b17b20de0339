"""Keys and values on disk: read back instead of computed again, with the same outputs; and what can go wrong there."""

from __future__ import annotations

import gc
import random
import threading
import time
from pathlib import Path

import pytest
from engine_toys import Inbox, ToyCache, ids, run, toy_parts, toy_service
from slipcast.engine.request import GenerationRequest
from slipcast.plugins import PluginError
from slipcast.plugins.offload import DiskKV, PageStore
from slipcast.plugins.shipped_kv import PlainKV, PrefixKV
from slipcast.samplers import SamplingParams


def fill(kv: DiskKV, cache: ToyCache, sequence: int, tokens: list[int]) -> int:
    """What the scheduler and the model do with a prompt."""
    shared = kv.start(sequence, tokens)
    assert cache.length(sequence) == shared and kv.reserve(-(-len(tokens) // 4) - shared // 4)
    cache.extend(sequence, tokens[shared:])
    kv.extend(sequence, tokens[shared:])
    return shared


def written(kv: DiskKV) -> None:
    deadline = time.monotonic() + 20
    while kv._store._unwritten:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_what_memory_gave_up_is_read_back(tmp_path):
    cache = ToyCache(6)
    kv = DiskKV(PrefixKV(cache), cache, tmp_path)
    first = list(range(1, 18))
    assert fill(kv, cache, 1, first) == 0
    kv.stop(1, keep=True)
    written(kv)
    assert len(list(tmp_path.glob("*/*"))) == 4  # whole pages of four tokens
    assert fill(kv, cache, 2, [77] * 22) == 0  # takes all pages
    kv.stop(2, keep=False)
    assert kv.match(first) == 16 and PrefixKV(cache).match(first) == 0
    assert fill(kv, cache, 3, [*first[:9], 50, 51]) == 8
    assert cache.sequences[3] == [*first[:9], 50, 51]
    kv.stop(3, keep=False)


def test_the_last_token_is_always_left_to_compute():
    cache = ToyCache(20)
    kv = DiskKV(PlainKV(cache), cache)
    fill(kv, cache, 1, [5] * 8)
    kv.stop(1, keep=True)
    assert kv.match([5] * 8) == 4 and fill(kv, cache, 2, [5] * 8) == 4


def test_no_more_is_read_than_there_are_free_pages():
    cache = ToyCache(5)
    kv = DiskKV(PlainKV(cache), cache)
    fill(kv, cache, 1, list(range(20)))
    kv.stop(1, keep=True)
    cache.add(9)
    cache.extend(9, [1] * 12)
    assert kv.start(2, list(range(20))) == 8 and cache.free_pages == 0


def test_files_that_are_lost_or_damaged_are_computed_again(tmp_path):
    cache = ToyCache(20)
    kv = DiskKV(PlainKV(cache), cache, tmp_path)
    fill(kv, cache, 1, list(range(20)))
    kv.stop(1, keep=True)
    written(kv)
    files = sorted(tmp_path.glob("*/*"), key=lambda path: path.stat().st_mtime_ns)
    files[2].write_bytes(b"")
    files[3].unlink()
    assert fill(kv, cache, 2, list(range(20))) in (0, 4, 8, 12)
    assert cache.sequences[2] == list(range(20))


def test_a_page_that_is_forgotten_while_it_is_written_leaves_no_file(tmp_path, monkeypatch):
    store = PageStore(tmp_path, limit=20)
    write = Path.write_bytes
    begun, go_on = threading.Event(), threading.Event()

    def slow(path, data):
        begun.set()
        assert go_on.wait(20)
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", slow)
    store.put(b"a", bytes(20))
    assert begun.wait(20)
    store.put(b"b", bytes(20))  # there is room for one
    go_on.set()
    deadline = time.monotonic() + 20
    while store._unwritten and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [path.name for path in tmp_path.glob("*/*")] == [b"b".hex()]


def test_the_disk_is_bounded_and_cleaned_up(tmp_path):
    store = PageStore(tmp_path, limit=100)
    for i in range(50):
        store.put(bytes([i]), bytes(10))
    deadline = time.monotonic() + 20
    while store._unwritten and time.monotonic() < deadline:
        time.sleep(0.001)
    assert store._bytes <= 100 and len(list(tmp_path.glob("*/*"))) <= 10
    assert store.get(bytes([49])) == bytes(10) and store.get(bytes([0])) is None
    del store
    gc.collect()
    deadline = time.monotonic() + 20
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_costs_nothing_but_the_pages(tmp_path, monkeypatch):
    def no_space(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", no_space)
    cache = ToyCache(20)
    kv = DiskKV(PlainKV(cache), cache, tmp_path)
    fill(kv, cache, 1, list(range(20)))
    kv.stop(1, keep=True)
    written(kv)
    assert fill(kv, cache, 2, list(range(20))) == 0


@pytest.mark.parametrize("pages", [16, 200])
def test_outputs_do_not_depend_on_it(pages):
    rng = random.Random(2)
    texts = ["abc " * rng.randrange(1, 5) + "".join(rng.choices("xy", k=3)) for _ in range(14)]
    requests = [lambda text=text: GenerationRequest(ids(text), SamplingParams(max_tokens=9, seed=1)) for text in texts]
    with toy_service(kv_manager="plain", max_batch=1) as service:
        alone = [run(service, request()).text() for request in requests]
    with toy_service(toy_parts(pages=pages, context=50), kv_manager="disk", max_batch=4) as service:
        for _ in range(2):
            inboxes = [Inbox() for _ in requests]
            for request, inbox in zip(requests, inboxes, strict=True):
                service.submit(request(), inbox)
            assert [inbox.wait().text() for inbox in inboxes] == alone
        assert any(inbox.finished().usage.cached_tokens for inbox in inboxes)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(PluginError, match="slipcast_kv_manager raised FileNotFoundError"):
        toy_service(kv_manager=f"disk:{tmp_path}/nowhere")
