"""Signals while the command starts, before `run` hears of them."""

from __future__ import annotations

import signal
import sys
import threading

import pytest

from backoff_ticker.cli import main

from .calling import finish, start

LOST = """
import os, signal, weakref
class Thing: pass
def dropped(reference):
    os.kill(os.getpid(), signal.SIGINT)
    raise RuntimeError("Python prints what callbacks raise, and goes on")
class Finder:
    def find_spec(self, name, *ignored):
        if name == "ROOM":
            thing = Thing()
            reference = weakref.ref(thing, dropped)
            del thing
sys.meta_path.insert(0, Finder())
"""
"""Has Ctrl-C come while a callback of the collector runs, as importing a module has them."""


@pytest.mark.parametrize("room", ["click", "asyncio", "backoff_ticker.cli._run"])
def test_ctrl_c_that_comes_in_a_callback_is_not_lost(room):
    process = start("run", "--", "sleep", "1000", before=LOST.replace("ROOM", room))
    assert finish(process) == (130, "", "")


def test_what_handles_sigint_does_so_again_afterwards(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["backoff-ticker", "--version"])
    for handler in (signal.default_int_handler, signal.SIG_IGN, signal.SIG_DFL):
        before = signal.signal(signal.SIGINT, handler)
        try:
            assert main() == 0
            assert signal.getsignal(signal.SIGINT) is handler
        finally:
            signal.signal(signal.SIGINT, before)


def test_other_threads_may_call_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["backoff-ticker", "--version"])
    found = []
    thread = threading.Thread(target=lambda: found.append(main()))
    thread.start()
    thread.join()
    assert found == [0]
