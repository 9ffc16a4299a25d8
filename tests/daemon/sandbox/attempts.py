"""Attempts to get out of the sandbox, to take more than is given, or to make the daemon believe something: a table.

Each piece of code returns what it got, so that a table can say what it must get. `at` tells it where things of this
machine are that it must not reach; the test looks at those from outside.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue

PRELUDE: Final = '''
import ctypes, os, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def tried(act, *words):
    """What it gives, or the name of the error."""
    try:
        return act(*words)
    except Exception as error:
        return type(error).__name__
def called(name, *words):
    """What a function of the C library returns, and the error's name."""
    import errno
    got = getattr(libc, name)(*words)
    return got if got != -1 else errno.errorcode[ctypes.get_errno()]
'''

ANY: Final = "anything: only what is seen from outside counts"


class Attempt(NamedTuple):
    """`code` is the expected error code, None for success; `result` what it must get.

    Code that `may_ask` has the names through which it calls the daemon. The daemon tells `pay` which amount came, so that
    what JSON can't hold must come as its text, and answers 7 to the rest.
    """

    name: str
    source: str
    code: str | None = None
    result: JsonValue = None
    may_ask: bool = False


def _gets(name: str, expression: str, result: JsonValue) -> Attempt:
    return Attempt(name, f"{PRELUDE}\ndef run(at):\n    return {expression}\n", None, result)


def _ends(name: str, code: str, body: str, before: str = "") -> Attempt:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return Attempt(name, f"{PRELUDE}\n{before}\ndef run(at):\n{lines}\n", code)


_GONE: Final = "FileNotFoundError"
_REFUSED: Final = "PermissionError"

FILES: Final = (
    _gets("reads a secret by its path", "tried(lambda: open(at['secret']).read())", _GONE),
    _gets("reads the users", "tried(lambda: open('/etc/passwd').read())", _GONE),
    _gets("looks for homes, settings, states", "[tried(os.listdir, each) for each in ('/root', '/home', '/etc', '/var', '/run')]", [_GONE] * 5),
    _gets("looks at all there is", "tried(lambda: sorted(os.listdir('/')) + os.listdir('/tmp'))", ["python", "tmp"]),
    _gets("reads processes in /proc", "tried(os.listdir, '/proc')", _GONE),
    _gets("reads the kernel in /sys", "tried(os.listdir, '/sys')", _GONE),
    _gets("writes next to the root", "tried(lambda: open('/mine', 'w')) in ('OSError', 'PermissionError')", True),
    _gets("writes into the standard library", "tried(lambda: open(os.__file__, 'a')) in ('OSError', 'PermissionError')", True),
    _gets("replaces the interpreter", "tried(lambda: os.rename('/tmp', '/python/bin'))", "OSError"),
    _gets("finds other packages", "[each for each in ('pydantic', 'runward', 'pip') if not isinstance(tried(__import__, each), str)]", []),
    _gets("follows a link out", "(os.symlink(at['secret'], 'link'), tried(lambda: open('link').read()))[1]", _GONE),
    _gets("climbs out of the root", "tried(lambda: sorted(os.listdir('/tmp/../../../..')))", ["python", "tmp"]),
    _gets("changes its root", "[called('chroot', b'/tmp'), called('pivot_root', b'/tmp', b'/tmp') if hasattr(libc, 'pivot_root') else 'EPERM']", ["EPERM", "EPERM"]),
    _gets("changes a secret's rights and times", "[tried(os.chmod, at['secret'], 0o777), tried(os.utime, at['secret'], (0, 0))]", [_GONE] * 2),
    _gets("empties a secret", "[tried(os.truncate, at['secret'], 0), *(tried(os.open, at['secret'], each | os.O_TRUNC) for each in (os.O_WRONLY, os.O_RDONLY, 3))]", [_GONE, _GONE, _REFUSED, _REFUSED]),
    _gets("moves, links and removes a secret", "[tried(os.rename, at['secret'], 'mine'), tried(os.link, at['secret'], 'mine'), tried(os.unlink, at['secret'])]", [_GONE] * 3),
    _gets("follows the links of a process", "tried(os.readlink, f\"/proc/{at['pid']}/exe\")", _GONE),
    _gets("opens a directory only to pass through it", "tried(lambda: os.open('passwd', 0, dir_fd=os.open('/etc', os.O_PATH)))", _GONE),
    _gets("opens a file by its handle", "called('open_by_handle_at', -100, b'0' * 16, 0)", "EPERM"),
)  # fmt: skip

NETWORK: Final = (
    *(
        _gets(f"makes a socket of {family}, {kind}", f"tried(lambda: socket.socket(socket.{family}, socket.{kind}) and 1)", _REFUSED)
        for family, kind in (
            ("AF_INET", "SOCK_STREAM"), ("AF_INET", "SOCK_DGRAM"), ("AF_INET", "SOCK_RAW"), ("AF_INET6", "SOCK_STREAM"),
            ("AF_UNIX", "SOCK_STREAM"), ("AF_NETLINK", "SOCK_RAW"), ("AF_PACKET", "SOCK_RAW"), ("AF_VSOCK", "SOCK_STREAM"),
            ("AF_ALG", "SOCK_SEQPACKET"),
        )
    ),
    _gets("connects to a listener of the machine", "tried(socket.create_connection, ('127.0.0.1', at['port']), 1) and 'PermissionError'", _REFUSED),
    _gets("asks for a name", "tried(socket.gethostbyname, 'localhost') in ('gaierror', 'PermissionError')", True),
    _gets("makes a pair of sockets", "tried(socket.socketpair)", _REFUSED),
)  # fmt: skip

PROCESSES: Final = (
    _gets("forks", "tried(os.fork)", _REFUSED),
    _gets("forks by vfork and clone", "[tried(lambda: os.posix_spawn('/python/bin/x', ['x'], {})), called('syscall', at['clone'], 17, 0, 0, 0, 0)]", [_REFUSED, "EPERM"]),
    _gets("starts a program", "tried(os.execv, (__import__('glob').glob('/python/so/ld-*') + [at['program']])[0], ['x'])", _REFUSED),
    _gets("starts a shell", "tried(os.system, 'true') != 0", True),
    _gets("kills a process of the machine", "tried(os.kill, at['pid'], 9)", _REFUSED),
    _gets("kills all", "tried(os.kill, -1, 9)", _REFUSED),
    _gets("sees its parent", "os.getppid()", 0),
    _gets("signals its parent and its group", "[tried(os.kill, os.getppid() or 1, 9), tried(os.killpg, 0, 9)]", [_REFUSED, _REFUSED]),
    _gets("has a pipe signal a process", "[tried(__import__('fcntl').fcntl, os.pipe()[0], each, at['pid']) for each in (8, 10, 15, 1024, 1026)]", [_REFUSED] * 5),
    _gets("traces a process", "called('ptrace', 16, at['pid'], 0, 0)", "EPERM"),
    _gets("reads another's memory", "called('process_vm_readv', at['pid'], None, 0, None, 0, 0)", "EPERM"),
    _gets("takes a handle of a process", "tried(os.pidfd_open, at['pid'])", _REFUSED),
    _gets("leaves its session", "tried(os.setsid)", _REFUSED),
    _gets("raises its priority", "[tried(os.nice, -5), called('setpriority', 0, 0, -10)]", [_REFUSED, "EPERM"]),
    _gets("widens its limits", "[tried(__import__('resource').setrlimit, each, (1 << 40, 1 << 40)) for each in (0, 7, 9)]", ["ValueError"] * 3),
)  # fmt: skip

RIGHTS: Final = (
    _gets("looks for descriptors", "[each for each in range(64) if tried(os.fstat, each) != 'OSError']", [1]),
    _gets("looks for secrets in the environment", "sorted(each for each in os.environ if each not in ('LANG', 'MALLOC_ARENA_MAX', 'PWD'))", []),
    _gets("asks who it is", "[os.getuid(), os.geteuid(), os.getgid()]", [65534] * 3),
    _gets("asks for the host's name", "os.uname().nodename", "sandbox"),
    _gets("becomes root", "[tried(os.setuid, 0), tried(os.setresuid, 0, 0, 0), tried(os.setgroups, [0])]", [_REFUSED] * 3),
    _gets("makes a namespace", "[called('unshare', each) for each in (0x10000000, 0x00020000, 0x40000000)]", ["EPERM"] * 3),
    _gets("enters a namespace", "called('setns', 1, 0)", "EPERM"),
    _gets("mounts", "called('mount', b'none', b'/tmp', b'tmpfs', 0, None)", "EPERM"),
    _gets("unmounts", "called('umount2', b'/tmp', 2)", "EPERM"),
    _gets("opens devices", "[tried(os.open, each, 2) for each in ('/dev/zero', '/dev/tty', '/dev/null')]", [_GONE] * 3),
    _gets("makes a device", "tried(os.mknod, 'disk', 0o60666, os.makedev(254, 0))", _REFUSED),
    _gets("types into a terminal", "called('ioctl', 1, 0x5412, b'x')", "EPERM"),
    _gets("reads the kernel's keys", "called('syscall', at['keyctl'], 0, -3, 0, 0, 0)", "EPERM"),
    _gets("loads a program into the kernel", "called('syscall', at['bpf'], 0, None, 0)", "EPERM"),
    _gets("submits work by io_uring", "called('syscall', at['io_uring_setup'], 1, None)", "EPERM"),
    _gets("handles its own page faults", "called('syscall', at['userfaultfd'], 0)", "EPERM"),
    _gets("watches performance counters", "called('syscall', at['perf_event_open'], None, 0, -1, -1, 0)", "EPERM"),
    _gets("shares memory", "[called('shmget', 1, 4096, 0o1666), tried(os.memfd_create, 'x')]", ["EPERM", _REFUSED]),
    _gets("sets the clock and the host's name", "[tried(time.clock_settime, 0, 0), tried(socket.sethostname, 'mine')]", [_REFUSED] * 2),
    _gets("takes the filter off", "[called('prctl', 22, 0, 0, 0, 0), called('syscall', at['seccomp'], 0, 0, None)]", ["EPERM", "EPERM"]),
)  # fmt: skip

FLOODS: Final = (
    _gets("starts threads without end", "(lambda made: tried(lambda: [made() for _ in range(10000)]))(lambda: threading.Thread(target=time.sleep, args=(60,), daemon=True).start())", "RuntimeError"),
    _ends("takes memory without end", "killed", "x = []\nwhile True:\n    x.append(bytearray(1 << 20))"),
    _ends("takes memory at once", "killed", "return len(b'x' * (1 << 34))"),
    _ends("spins", "timeout", "while True:\n    pass"),
    _ends("spins inside C", "timeout", "return sum(1 for _ in iter(int, 1))"),
    _ends("spins inside a regular expression", "timeout", "import re\nreturn re.match('(a+)+$', 'a' * 60 + 'b')"),
    _ends("sleeps", "timeout", "time.sleep(3600)"),
    _gets("fills the disk", "(lambda file: tried(lambda: [file.write(b'x' * (1 << 20)) for _ in range(64)]))(open('full', 'wb', buffering=0))", "OSError"),
    _gets("fills the disk by many files", "tried(lambda: [open(f'{n}', 'wb').write(b'x' * 4000000) for n in range(64)])", "OSError"),
    _gets("opens files without end", "tried(lambda: [os.open('.', 0) for _ in range(100000)])", "OSError"),
    _ends("makes files without end", "killed", "for n in range(10 ** 9):\n    os.close(os.open(f'{n}', os.O_CREAT))"),
    _ends("nests directories without end", "killed", "while True:\n    os.mkdir('d', 0o300)\n    os.chdir('d')"),
    _ends("prints without end", "output_limit", "while True:\n    print('x' * 1000)"),
    _ends("writes over the answer without end", "output_limit", "while True:\n    os.write(1, b'x' * 65536)"),
    _ends("gives a result without measure", "output_limit", "return 'x' * 70000"),
    _ends("gives a result that doubles as JSON", "output_limit", "return chr(0) * 40000"),
    _ends("raises an error without measure", "runtime_error", "raise ValueError('x' * 10000000)"),
)  # fmt: skip

ANSWERS: Final = (
    _ends("writes nonsense before its answer", "runtime_error", "os.write(1, b'nonsense')\nreturn 1"),
    _ends("claims that nothing may be charged", "runtime_error", "os.write(1, b'{\"result\": 1, \"cpu_s\": 0, \"wall_ms\": -1}\\n')\nos._exit(0)"),
    _ends("answers with infinity", "runtime_error", "os.write(1, b'{\"result\": 1e999}\\n')\nos._exit(0)"),
    _ends("answers with depth without end", "runtime_error", "os.write(1, b'[' * 60000 + b'\\n')\nos._exit(0)"),
    _ends("answers with a number without end", "runtime_error", "os.write(1, b'{\"result\": ' + b'9' * 60000 + b'}\\n')\nos._exit(0)"),
    _ends("answers with half a character", "runtime_error", "os.write(1, b'{\"result\": \"\\\\ud800\"}\\n')\nos._exit(0)"),
    _ends("answers with bytes that are not text", "runtime_error", "os.write(1, b'\\xff\\n')\nos._exit(0)"),
    _ends("answers with a code that isn't its own", "runtime_error", "os.write(1, b'{\"code\": \"not_configured\", \"error\": \"\"}\\n')\nos._exit(0)"),
    _ends("answers with two keys of one name", "runtime_error", "os.write(1, b'{\"result\": 1, \"result\": 2}\\n')\nos._exit(0)"),
    _ends("ends without an answer", "killed", "os._exit(0)"),
    _ends("closes the pipe and stays", "timeout", "os.close(1)\ntime.sleep(3600)"),
    _ends("leaves by sys.exit", "runtime_error", "sys.exit(0)"),
    _ends("raises KeyboardInterrupt", "runtime_error", "raise KeyboardInterrupt"),
    _ends("raises an error whose text raises", "runtime_error", "raise type('Bad', (Exception,), {'__str__': lambda self: 1 / 0})()"),
)  # fmt: skip

OUTLIVING: Final = (
    _gets("leaves an exit handler", "__import__('atexit').register(lambda: os.write(1, b'late')) and 1", 1),
    _gets("leaves a thread", "threading.Thread(target=lambda: time.sleep(60)).start() or 1", 1),
    _gets("leaves a finalizer", "setattr(sys, 'kept', type('Last', (), {'__del__': lambda self: time.sleep(60)})()) or 1", 1),
    _gets("ignores signals", "[__import__('signal').signal(each, 1) is not None for each in (1, 2, 15)]", [True] * 3),
    _gets("leaves a file behind", "open('left', 'w').write('x')", 1),
    _ends("hinders its own end", "timeout", "os._exit = lambda code: time.sleep(3600)\njson = __import__('json')\njson.dumps = lambda *a, **k: time.sleep(3600)\nreturn 1"),
    _ends("crashes", "killed", "ctypes.string_at(0)"),
    _ends("overflows the stack", "killed", "sys.setrecursionlimit(1 << 30)\nf = lambda f: [1, 2].sort(key=lambda _: f(f))\nf(f)"),
    _ends("aborts", "killed", "os.abort()"),
    _ends("runs machine code of another architecture", ANY, "import mmap\npage = mmap.mmap(-1, 4096, prot=7)\npage.write(bytes.fromhex('b814000000cd80c3'))\nat = ctypes.addressof(ctypes.c_char.from_buffer(page))\nreturn ctypes.CFUNCTYPE(ctypes.c_int)(at)()"),
)  # fmt: skip

COMPILING: Final = (
    Attempt("nests without end", "def run(at): return " + "(" * 50000, "invalid_argument"),
    Attempt("nests lists below the parser's limit", "x = " + "-" * 90000 + "1\ndef run(at): return 1", ANY),
    Attempt("has NUL in it", "def run(at):\n    return 1\0", "invalid_argument"),
    Attempt("is not Python", "def run(at) return", "invalid_argument"),
    Attempt("is empty", " \n", "invalid_argument"),
    Attempt("defines no run", "print(1)", "invalid_argument"),
    Attempt("takes the compiler long", "def run(at): return " + "+".join(["[1,2,3][1:2]"] * 60000), ANY),
    Attempt("folds a constant without end", "def run(at): return 1\nx = " + "(1<<60)" + "**9" * 3, ANY),
    Attempt("spins in its definition", "while True: pass\ndef run(at): return 1", "timeout"),
)

ASKING: Final = tuple(
    attempt._replace(may_ask=True)
    for attempt in (
        _gets("looks for descriptors while it may ask", "[each for each in range(64) if tried(os.fstat, each) != 'OSError']", [0, 1]),
        _gets("asks as another artifact", "tried(lambda: get_balance('bank'))", "TypeError"),
        _gets("gives ids that are invalid", "[tried(kernel_state.get_balance, each) for each in ('', 'x' * 129, 'a\\n', 5, None, [])]", ["ValueError"] * 6),
        _gets("asks with depth without end", "[tried(pay, 'x', __import__('functools').reduce(lambda all, _: [all], range(900), 1)), get_balance()]", [f"{'[' * 900}1{']' * 900}", 7]),
        _gets("asks with a number without end", "[tried(pay, 'x', 1 << 90), get_balance()]", [str(1 << 90), 7]),
        _gets("asks from many threads at once", "(lambda got: [[each.start() for each in got], [each.join() for each in got], get_balance()][2])([threading.Thread(target=get_balance) for _ in range(20)])", 7),
        _ends("asks without end", "output_limit", "while True:\n    get_balance()"),
        _ends("asks without end and reads no answer", "output_limit", "while True:\n    [os.write(1, b'{\"call\": %d, \"name\": \"get_balance\", \"args\": []}\\n' % n) for n in range(1, 10000)]"),
        _ends("asks with a line without end", "output_limit", "os.write(1, b'{\"call\": 1')\nwhile True:\n    os.write(1, b' ' * 65536)"),
        _ends("asks with much more than is answered", "output_limit", "while True:\n    tried(kernel_actions.write_artifact, 'a', 'b', 'x' * 1000000)"),
        _ends("begins a call and never ends it", "timeout", "os.write(1, b'{\"call\": 1')\ntime.sleep(3600)"),
        _ends("closes what its answers come from", "runtime_error", "os.close(0)\nget_balance()"),
        _ends("counts its calls wrongly", "runtime_error", "os.write(1, b'{\"call\": 5, \"name\": \"get_balance\", \"args\": []}\\n')\ntime.sleep(3600)"),
        _ends("repeats a call that was answered", "runtime_error", "get_balance()\nos.write(1, b'{\"call\": 1, \"name\": \"get_balance\", \"args\": []}\\n')\ntime.sleep(3600)"),
        _ends("calls what there is not", "runtime_error", "os.write(1, b'{\"call\": 1, \"name\": \"mint\", \"args\": [\"me\", 1000]}\\n')\ntime.sleep(3600)"),
        _ends("says who pays", "runtime_error", "os.write(1, b'{\"call\": 1, \"name\": \"get_balance\", \"args\": [], \"caller_id\": \"bank\"}\\n')\ntime.sleep(3600)"),
        _ends("leaves an argument out", "runtime_error", "os.write(1, b'{\"call\": 1, \"name\": \"pay\", \"args\": [\"me\"]}\\n')\ntime.sleep(3600)"),
        _ends("calls in bytes that are not text", "runtime_error", "os.write(1, b'{\"call\": \\xff}\\n')\ntime.sleep(3600)"),
        _ends("answers itself", "runtime_error", "os.write(1, b'{\"value\": 1000}\\n')\nreturn get_balance()"),
        _ends("makes files without end while it asks", "killed", "def more():\n    for n in range(10 ** 9):\n        os.close(os.open(f'{n}', os.O_CREAT))\nthreading.Thread(target=more).start()\nfor _ in range(900):\n    get_balance()\ntime.sleep(3600)"),
    )
)  # fmt: skip

ATTEMPTS: Final = (*FILES, *NETWORK, *PROCESSES, *RIGHTS, *FLOODS, *ANSWERS, *OUTLIVING, *COMPILING, *ASKING)

BY_THE_MEANS: Final = (*FILES, *NETWORK, *PROCESSES, *RIGHTS, *FLOODS, *OUTLIVING)
"""What the means of isolation stop. The rest is stopped by how the daemon reads the pipe, with all means alike."""

ONLY_LOOK: Final = tuple(
    each for each in (*FILES, *NETWORK, *PROCESSES, *RIGHTS) if each.name != "looks for descriptors"
)
"""Attempts that leave nothing behind if they are stopped: one piece of code can make all of them, each on its own terms."""


def together(attempts: Sequence[Attempt]) -> str:
    """Code that makes these attempts one after another, and returns what each got, by its name."""
    sources = {each.name: each.source for each in attempts}
    return f"""
def run(at):
    got = {{}}
    for name, source in {sources!r}.items():
        known = {{"__builtins__": __builtins__}}
        exec(compile(source, name, "exec"), known)
        got[name] = known["run"](at)
    return got
"""


NEEDS_NAMESPACES: Final = frozenset(("sees its parent", "asks who it is", "asks for the host's name"))
"""Attempts that the weaker means don't promise to stop."""

WITHOUT_NAMESPACES: Final[Mapping[str, tuple[str | None, JsonValue]]] = MappingProxyType(
    {
        "reads a secret by its path": (None, _REFUSED),
        "reads the users": (None, _REFUSED),
        "looks for homes, settings, states": (None, [_REFUSED] * 5),
        "looks at all there is": (None, _REFUSED),
        "reads processes in /proc": (None, _REFUSED),
        "reads the kernel in /sys": (None, _REFUSED),
        "replaces the interpreter": (None, _GONE),
        "follows a link out": (None, _REFUSED),
        "climbs out of the root": (None, _REFUSED),
        "changes a secret's rights and times": (None, [_REFUSED] * 2),
        "empties a secret": (None, [_REFUSED] * 4),
        "moves, links and removes a secret": (None, [_REFUSED, "OSError", _REFUSED]),
        "follows the links of a process": (None, _REFUSED),
        "opens a directory only to pass through it": (None, _REFUSED),
        "looks for secrets in the environment": (None, ["LD_LIBRARY_PATH", "TMPDIR"]),
        "opens devices": (None, [_REFUSED] * 3),
        "fills the disk by many files": ("killed", None),
        "closes the pipe and stays": ("killed", None),
    }
)
"""What the weaker means stop in another way: what there is can't be reached, and too much ends the code."""
