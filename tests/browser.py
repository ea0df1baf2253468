"""A real browser for the tests of pages: Chromium, without a screen.

Tests that open it are marked `browser`. They are skipped where Chromium is not installed; with HUSH_BROWSER_REQUIRED
in the environment, as in CI, the run is refused instead.
"""

import base64
import contextlib
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--window-size=1100,3000"),
)


def browse(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page with a new profile in a folder; `--dump-dom` prints it, `--screenshot=FILE` draws it."""
    command = [*CHROMIUM, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


class PageLeft(AssertionError):
    """The page went away while a script was about to run in it."""


class Browser:
    """A Chromium that tests drive through the DevTools protocol, over a pipe: one page, real clicks and keys.

    `problems` are errors of scripts and refusals of the security policy that the page has had.
    """

    def __init__(self, folder: Path, *, width: int = 1100, height: int = 900) -> None:
        # The browser reads commands from its descriptor 3 and writes answers to 4, each ended by a zero byte.
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        shell = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        options = (*CHROMIUM[1:], "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "about:blank")
        self._process = subprocess.Popen(
            ["bash", "-c", shell, CHROMIUM[0], *options],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._read, self._number = b"", 0
        self._session: str | None = None
        self.problems: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its result."""
        self._number += 1
        session = {} if self._session is None else {"sessionId": self._session}
        message = json.dumps({"id": self._number, "method": method, "params": parameters} | session)
        os.write(self._commands, message.encode() + b"\0")
        while True:
            found = self._message()
            if found.get("id") == self._number:
                if "error" in found:
                    left = "navigated" in found["error"].get("message", "")
                    raise (PageLeft if left else AssertionError)(f"{method}: {found['error']}")
                result: dict[str, Any] = found["result"]
                return result

    def _message(self) -> dict[str, Any]:
        """The next message; problems of the page are kept."""
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], 60)
            if not ready:
                raise AssertionError("the browser does not answer")
            piece = os.read(self._answers, 2**20)
            if not piece:
                raise AssertionError("the browser has ended")
            self._read += piece
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(message["params"]["exceptionDetails"])[:500])
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.problems.append(message["params"]["entry"]["text"])
        return message

    def resize(self, width: int, height: int = 900) -> None:
        """Another size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, dark: bool = True) -> None:
        """The colour scheme that the user prefers."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Open a page and wait until it is complete."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(json.dumps(found["exceptionDetails"])[:1000])
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until an expression is true; pages may change in between."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(PageLeft):
                found = self.call("Runtime.evaluate", expression=f"Boolean({condition})", returnByValue=True)
                if found.get("result", {}).get("value"):
                    return
            time.sleep(0.03)
        raise AssertionError(f"never true: {condition}; the page says {self.run('document.body.innerText')[:1000]}")

    def click(self, selector: str) -> None:
        """Click the middle of an element, as a mouse does."""
        place = self.run(
            f"(() => {{ const part = document.querySelector({json.dumps(selector)});"
            " part.scrollIntoView({block: 'center'}); const box = part.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def go(self, selector: str, path: str) -> None:
        """Click what leads to another page, and wait until it is complete."""
        self.run("window.left = true")
        self.click(selector)
        self.wait(
            f"!window.left && document.readyState === 'complete' && location.pathname.startsWith({json.dumps(path)})"
        )

    def type(self, selector: str, text: str) -> None:
        """Replace the text of a field by keys."""
        self.run(
            f"(() => {{ const part = document.querySelector({json.dumps(selector)}); part.focus(); part.select(); }})()"
        )
        self.call("Input.insertText", text=text)

    def choose(self, selector: str, value: str) -> None:
        """Choose in a list."""
        self.run(
            f"(() => {{ const part = document.querySelector({json.dumps(selector)}); part.value = {json.dumps(value)};"
            " part.dispatchEvent(new Event('input', {bubbles: true}));"
            " part.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def key(self, name: str) -> None:
        """Press a key such as Tab or Enter."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40}
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=codes[name], **text
            )

    def picture(self, path: Path) -> bytes:
        """The whole page as a PNG."""
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        content = base64.b64decode(found["data"])
        path.write_bytes(content)
        return content

    def beyond(self) -> list[str]:
        """What reaches beyond the right edge, but for what scrolls by itself."""
        found: list[str] = self.run(
            """[...document.querySelectorAll("body *")].filter(part => !part.closest(".scroll, .unseen, .skip, svg")
            && getComputedStyle(part).display !== "none" && part.getBoundingClientRect().right > innerWidth + 1)
            .map(part => `${part.tagName} ${part.textContent.slice(0, 60)}`)"""
        )
        return found

    def accessibility(self) -> list[str]:
        """Findings of axe-core that are serious or critical."""
        self.run((Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8") + ";0")
        found = self.run("axe.run().then(all => JSON.stringify(all.violations))")
        return [
            f"{rule['id']}: {rule['help']}: {node['html'][:160]}"
            for rule in json.loads(found)
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"][:3]
        ]

    def close(self) -> None:
        """End the browser."""
        self._session = None
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
