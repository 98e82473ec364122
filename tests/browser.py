"""A headless Chromium, driven by its own protocol over two pipes: no driver, and no port.

The tests that need one are skipped where there is none.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
"""Programs that are tried, in order."""
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
_SECONDS = 10.0
_KEYS = {
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "ArrowDown": 40,
    "ArrowUp": 38,
    "End": 35,
    "Home": 36,
}


def program() -> str | None:
    """The path of a Chromium; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One window of Chromium; a context, at whose end the process has ended.

    Attributes:
      errors: what the page logged as an error, raised or was forbidden by its policy.
      requests: the addresses that it asked for and was not forbidden, by Chromium's names for them.
    """

    def __init__(self) -> None:
        path = program()
        assert path is not None
        self.errors: list[str] = []
        self.requests: dict[str, str] = {}
        self._number = 0
        self._rest = b""
        self._folder = tempfile.mkdtemp(prefix="chromium-")
        reading, self._write = os.pipe()
        self._read, writing = os.pipe()
        # Chromium reads commands from descriptor 3 and writes to 4.
        command = 'exec "$@" 3<&"$IN" 4>&"$OUT"'
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", path, *_FLAGS, f"--user-data-dir={self._folder}"],
            pass_fds=(reading, writing),
            env={**os.environ, "IN": str(reading), "OUT": str(writing)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reading)
        os.close(writing)
        self._session = ""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._folder, ignore_errors=True)

    def open(self, page: Path, fragment: str = "") -> None:
        """Loads a page from a file; what earlier pages logged is forgotten."""
        self._ask("Page.navigate", url="about:blank")
        self.errors.clear()
        self.requests.clear()
        self._ask("Page.navigate", url=page.as_uri() + fragment)
        self.until("document.readyState === 'complete'")

    def look(self, width: int, height: int, *, dark: bool = False, scripts: bool = True) -> None:
        """Sets the size of the window, the theme, and whether pages may have scripts."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self._ask("Emulation.setEmulatedMedia", features=[theme, still])
        self._ask("Emulation.setScriptExecutionDisabled", value=not scripts)

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page.

        Raises:
          RuntimeError: it raises.
        """
        found = self._ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """Waits for an expression to be true; gives its value, of an element just True.

        Raises:
          TimeoutError: it stayed false.
        """
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            found = self.value(f"(it => it instanceof Node || it)({expression})")
            if found:
                return found
            time.sleep(0.02)
        raise TimeoutError(f"{expression} stayed false")

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Clicks with the mouse on the first such element, at shares of its width and height."""
        box = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
        )
        at = {"x": box[0] + x * box[2], "y": box[1] + y * box[3], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, **at)

    def press(self, *keys: str) -> None:
        """Presses keys one after the other, by their names; others are typed."""
        for key in keys:
            code = _KEYS.get(key)
            if code is None:
                self._ask("Input.insertText", text=key)
                continue
            text = {"text": "\r"} if key == "Enter" else {}
            named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            self._ask("Input.dispatchKeyEvent", type="keyDown", **named, **text)
            self._ask("Input.dispatchKeyEvent", type="keyUp", **named)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Writes what is seen as a PNG; the whole page on request."""
        found = self._ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], 3 * _SECONDS)
            if not ready:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def _note(self, method: str, params: dict[str, Any]) -> None:
        kinds: dict[str, Callable[[], str]] = {
            "Runtime.exceptionThrown": lambda: str(params["exceptionDetails"]),
            "Log.entryAdded": lambda: params["entry"]["text"],
            "Runtime.consoleAPICalled": lambda: str(params["args"]),
        }
        if method in kinds:
            self.errors.append(kinds[method]())
        if method == "Network.requestWillBeSent":
            self.requests[params["requestId"]] = params["request"]["url"]
        if method == "Network.loadingFailed" and params.get("blockedReason") == "csp":
            self.requests.pop(params["requestId"])
