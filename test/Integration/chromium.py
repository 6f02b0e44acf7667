"""Headless Chromium over its DevTools pipe, without other packages: opens pages at any width, light or dark, and reads their log.

It needs Chromium (Debian's package chromium), and fails without it.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time

TIMEOUT = 120


def find_chromium():
    for name in ("chromium", "chromium-browser"):
        if path := shutil.which(name):
            return path
    sys.exit("error: expected Chromium (Debian: apt-get install chromium) but found neither chromium nor chromium-browser")


class Browser:
    """A browser. Messages are JSON objects that end in a 0 byte. The browser reads them on its descriptor 3 and writes on 4."""

    def __init__(self, folder):
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        # Duplicates numbers until they are neither 3 nor 4.
        ends = [os.dup(os.dup(end)) for end in (requests, answers)]
        ends = [os.dup2(end, 100 + i) for i, end in enumerate(ends)]
        command = [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--user-data-dir=" + os.path.join(folder, "profile"), "--remote-debugging-pipe"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=lambda: (os.dup2(ends[0], 3), os.dup2(ends[1], 4)), pass_fds=(3, 4))
        for end in (requests, answers, *ends):
            os.close(end)
        self.number, self.buffer, self.events = 0, b"", []

    def close(self):
        os.close(self.requests)
        self.process.terminate()
        self.process.wait(TIMEOUT)
        os.close(self.answers)

    def read(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("Chromium did not answer")
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise EOFError("Chromium ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self.requests, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer = self.read(deadline)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def open(self, path, width, dark=False, height=900):
        return Page(self, path, width, height, dark)


class Page:
    """A page. `console` has its log and its errors."""

    def __init__(self, browser, path, width, height, dark):
        self.browser, self.width = browser, width
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.events.clear()
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        deadline = time.monotonic() + TIMEOUT
        while not any(event.get("method") == "Page.loadEventFired" for event in browser.events):
            browser.events.append(browser.read(deadline))

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, script):
        """The value of an expression, or an error's text as in `console`."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"].get("exception", {}).get("description", result["exceptionDetails"])))
        return result["result"].get("value")

    @property
    def console(self):
        lines = []
        for event in self.browser.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                lines.append(parameters["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif method == "Runtime.consoleAPICalled":
                lines.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
            elif method == "Log.entryAdded":
                lines.append(parameters["entry"]["text"])
        return lines

    def shoot(self, path):
        """Writes the whole page as PNG."""
        height = self.evaluate("Math.ceil(document.documentElement.scrollHeight)")
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": self.width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
