"""For authors of plugins: a fake engine to run them in, and checks of what the protocols promise.

    from slipcast.plugins.testing import FakeEngine, FakeRequest, check_plugin

    def test_my_plugin():
        check_plugin(MyPlugin())
        [answer] = FakeEngine(("mine", MyPlugin())).generate([FakeRequest(plugins={"mine": {"strength": 2}})])
        assert answer.error is None
"""

from .checks import check_kv_manager, check_kv_start, check_plugin, check_processor, check_sampler, check_scheduler
from .fakes import FakeAnswer, FakeCache, FakeChoice, FakeEngine, FakeRequest, fake_logits

__all__ = [
    "FakeAnswer",
    "FakeCache",
    "FakeChoice",
    "FakeEngine",
    "FakeRequest",
    "check_kv_manager",
    "check_kv_start",
    "check_plugin",
    "check_processor",
    "check_sampler",
    "check_scheduler",
    "fake_logits",
]
