"""A headless Chromium, driven by the DevTools protocol over a pipe: nothing but Python's library and the browser are needed."""
import base64, fcntl, json, os, select, shutil, subprocess, tempfile, time


class Chromium:
    def __init__(self, width=1400, height=900, dark=False):
        # It makes sockets in TMPDIR, whose names the system limits to 108 bytes.
        self.home = tempfile.mkdtemp(prefix='ctrtest.', dir='/tmp' if len(tempfile.gettempdir()) > 40 else None)
        low_in, our_out = os.pipe()
        our_in, low_out = os.pipe()
        to_browser, from_browser = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (low_in, low_out))
        flags = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--hide-scrollbars',
                 '--disable-background-networking', '--disable-component-update', '--disable-extensions', '--disable-sync',
                 '--force-color-profile=srgb', '--remote-debugging-pipe', '--user-data-dir=' + self.home,
                 f'--window-size={width},{height}']
        # The protocol wants descriptors 3 and 4; ours are not inherited.
        shell = f'exec 3<&{to_browser} 4>&{from_browser} && exec "$@"'
        self.process = subprocess.Popen(['bash', '-c', shell, 'chromium', os.environ.get('CTR_CHROMIUM', 'chromium')] + flags + ['about:blank'],
                                        pass_fds=(to_browser, from_browser), env=dict(os.environ, TMPDIR=self.home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in low_in, low_out, to_browser, from_browser:
            os.close(fd)
        self.out, self.inp, self.buffer, self.number, self.events = our_out, our_in, b'', 0, []
        self.session = None
        target = next(t for t in self.wait_for_page() if t['type'] == 'page')
        self.session = self.send('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in 'Page', 'Runtime', 'Log', 'Network':
            self.send(domain + '.enable')
        self.send('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.theme(dark)

    def wait_for_page(self):
        end = time.time() + 60
        while time.time() < end:
            targets = self.send('Target.getTargets')['targetInfos']
            if any(t['type'] == 'page' for t in targets):
                return targets
            time.sleep(.05)
        raise RuntimeError('no page')

    def read(self, seconds):
        end = time.time() + seconds
        while b'\0' not in self.buffer:
            ready, _, _ = select.select([self.inp], [], [], max(0, end - time.time()))
            if not ready:
                return None
            piece = os.read(self.inp, 1 << 20)
            if not piece:
                raise RuntimeError('Chromium has ended')
            self.buffer += piece
        message, self.buffer = self.buffer.split(b'\0', 1)
        return json.loads(message)

    def send(self, method, seconds=60, **params):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.out, json.dumps(message).encode() + b'\0')
        while True:
            answer = self.read(seconds)
            if answer is None:
                raise RuntimeError(method + ': no answer')
            if answer.get('id') != self.number:
                self.events.append(answer)
            elif 'error' in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer['result']

    def wait(self, method, seconds=60):
        """The next event of a kind that has not been taken yet."""
        while True:
            for i, e in enumerate(self.events):
                if e.get('method') == method:
                    return self.events.pop(i)['params']
            e = self.read(seconds)
            if e is None:
                raise RuntimeError('no event ' + method)
            self.events.append(e)

    def open(self, path):
        self.events = [e for e in self.events if e.get('method') != 'Page.loadEventFired']
        self.send('Page.navigate', url='file://' + os.path.abspath(path))
        self.wait('Page.loadEventFired')
        self.frames()

    def js(self, expression):
        r = self.send('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in r:
            raise RuntimeError(expression + ': ' + json.dumps(r['exceptionDetails'])[:500])
        return r['result'].get('value')

    def frames(self, n=2):
        self.js('new Promise(done => { let n = %d; const f = () => n-- ? requestAnimationFrame(f) : done(); f(); })' % n)

    def theme(self, dark):
        self.send('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def mouse(self, kind, x, y, **more):
        self.send('Input.dispatchMouseEvent', type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse('mousePressed', x, y, button='left', clickCount=1)
        self.mouse('mouseReleased', x, y, button='left', clickCount=1)

    def key(self, key, code=0):
        for kind in 'keyDown', 'keyUp':
            self.send('Input.dispatchKeyEvent', type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      **({'text': key} if kind == 'keyDown' and len(key) == 1 else {}))

    def screenshot(self, path, **clip):
        shot = self.send('Page.captureScreenshot', format='png', **({'clip': dict(clip, scale=1)} if clip else {}))
        with open(path, 'wb') as f:
            f.write(base64.b64decode(shot['data']))

    def trace(self, work, categories='devtools.timeline,disabled-by-default-devtools.timeline,toplevel'):
        """The events of Chromium's own trace while work() runs."""
        session, self.session = self.session, None
        self.send('Tracing.start', categories=categories, transferMode='ReportEvents')
        self.session = session
        work()
        self.session = None
        self.send('Tracing.end')
        self.session = session
        events = []
        while True:
            e = self.read(60)
            if e is None:
                raise RuntimeError('the trace does not end')
            if e.get('method') == 'Tracing.dataCollected':
                events += e['params']['value']
            elif e.get('method') == 'Tracing.tracingComplete':
                return events
            else:
                self.events.append(e)

    def complaints(self):
        """What went wrong in the page: exceptions, console errors, refused or attempted loads."""
        out = []
        for e in self.events:
            p = e.get('params', {})
            if e.get('method') == 'Runtime.exceptionThrown':
                out.append(json.dumps(p['exceptionDetails'])[:500])
            elif e.get('method') == 'Log.entryAdded' and p['entry']['level'] == 'error':
                out.append(p['entry']['text'])
            elif e.get('method') == 'Runtime.consoleAPICalled' and p['type'] == 'error':
                out.append(json.dumps(p['args'])[:500])
            elif e.get('method') == 'Network.requestWillBeSent' and not p['request']['url'].startswith(('file:', 'about:')):
                out.append('a request: ' + p['request']['url'][:200])
        return out

    def close(self):
        self.session = None
        try:
            self.send('Browser.close', seconds=10)
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for fd in self.out, self.inp:
            os.close(fd)
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
