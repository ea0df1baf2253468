"""Limits of the public page: each answer is worked out once, memory stays bounded, and a crowd is sent away."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from hush.core.errors import QueryError
from hush.studio.public_limits import (
    LONGEST_WAIT,
    MOST_VISITORS,
    WORK_FACTOR,
    AnswerDesk,
    KeptAnswer,
    RequestRate,
    TooBusy,
)


def answer(size: int) -> KeptAnswer:
    return KeptAnswer(b"x" * size, "text/plain")


def test_many_who_ask_the_same_wait_for_one_answer() -> None:
    desk, worked, gate = AnswerDesk(most_bytes=10_000, most_waiting=2), [], threading.Event()

    def work() -> KeptAnswer:
        gate.wait(10)
        worked.append(1)
        return answer(10)

    async def crowd() -> list[KeptAnswer]:
        tasks = [asyncio.create_task(desk.answer("same", work)) for _ in range(50)]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*tasks)

    assert len(asyncio.run(crowd())) == 50
    assert worked == [1]
    desk.close()


def test_a_crowd_with_different_questions_is_sent_away_and_slow_ones_do_not_block_quick_ones() -> None:
    desk, gate = AnswerDesk(most_bytes=10_000, most_waiting=20), threading.Event()

    def wait() -> KeptAnswer:
        gate.wait(10)
        return answer(1)

    async def crowd() -> None:
        slow = [asyncio.create_task(desk.answer(f"slow {i}", wait, slow=True)) for i in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy):
            await desk.answer("slow 3", wait, slow=True)
        assert (await desk.answer("quick", lambda: answer(2))).content == b"xx"
        quick = [asyncio.create_task(desk.answer(f"quick {i}", wait)) for i in range(20)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy):
            await desk.answer("quick 21", wait)
        gate.set()
        await asyncio.gather(*slow, *quick)
        assert (await desk.answer("later", lambda: answer(3))).content == b"xxx"

    asyncio.run(crowd())
    desk.close()


def test_what_is_kept_stays_below_its_bound_and_the_oldest_goes_first() -> None:
    desk = AnswerDesk(most_bytes=50_000, most_waiting=5)

    async def ask() -> None:
        for i in range(200):
            await desk.answer(f"question {i}", lambda: answer(3000))
            assert desk.kept_bytes <= 50_000
        await desk.answer("huge", lambda: answer(49_000))

    asyncio.run(ask())
    assert desk.kept("question 199") is not None
    assert desk.kept("question 0") is None
    assert desk.kept("huge") is None
    desk.close()


def test_a_question_that_is_refused_is_not_kept() -> None:
    desk = AnswerDesk(most_bytes=50_000, most_waiting=5)

    def refuse() -> KeptAnswer:
        raise QueryError("no")

    async def ask(work: Callable[[], KeptAnswer]) -> KeptAnswer:
        return await desk.answer("question", work)

    with pytest.raises(QueryError):
        asyncio.run(ask(refuse))
    assert asyncio.run(ask(lambda: answer(1))).content == b"x"
    desk.close()


def test_the_rate_forgets_old_visitors_and_never_grows() -> None:
    rate = RequestRate(per_second=0.1)
    for visitor in range(MOST_VISITORS + 500):
        assert rate.allows(str(visitor), now=1000.0)
    assert not rate.allows(str(MOST_VISITORS + 499), now=1000.0)
    assert len(rate._left) == MOST_VISITORS


def test_a_visitor_pays_for_the_work_that_a_question_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 0.5, 1.0, 9.0, 10.0, 99.0])  # before and after each work
    monkeypatch.setattr(time, "thread_time", lambda: next(seconds))
    rate = RequestRate(per_second=10.0)
    assert rate.allows("a", now=0.0)
    before, _ = rate._left["a"]
    assert rate.worked("a", lambda: "done") == "done"
    assert rate._left["a"][0] == before - 0.5 * 10.0 * WORK_FACTOR
    assert rate.allows("a", now=0.0)
    assert rate.worked("stranger", lambda: "done") == "done"

    def refuse() -> None:
        raise QueryError("no")

    with pytest.raises(QueryError):  # work that ends in a refusal is work too
        rate.worked("a", refuse)
    assert not rate.allows("a", now=0.0)
    assert rate.allows("b", now=0.0)
    assert not rate.allows("a", now=LONGEST_WAIT)
    assert rate.allows("a", now=LONGEST_WAIT + 0.2)  # however long the work was


def test_a_visitor_has_few_slow_questions_at_a_time() -> None:
    desk, gate = AnswerDesk(most_bytes=10_000, most_waiting=100), threading.Event()

    def wait() -> KeptAnswer:
        gate.wait(10)
        return answer(1)

    async def ask() -> None:
        first = [asyncio.create_task(desk.answer(f"rows {i}", wait, slow=True, visitor="a")) for i in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy, match="your last questions"):
            await desk.answer("rows 3", wait, slow=True, visitor="a")
        others = [asyncio.create_task(desk.answer("rows 4", wait, slow=True, visitor="b"))]
        others += [asyncio.create_task(desk.answer("quick", lambda: answer(1), visitor="a"))]
        others += [asyncio.create_task(desk.answer(f"proxy {i}", wait, slow=True)) for i in range(4)]
        gate.set()
        await asyncio.gather(*first, *others)
        await desk.answer("rows 3", wait, slow=True, visitor="a")

    asyncio.run(ask())
    assert not desk._slow_of
    desk.close()
