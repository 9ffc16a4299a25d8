"""A PostgreSQL server for the tests of one process, as an unprivileged user, with TLS and a certificate of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from glob import glob
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from random import SystemRandom

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from psycopg import sql
from tests.daemon.launching import is_alive
from tests.unprivileged import AS_USER, USER
from tests.waiting import wait_for

from runward.config.fleet import database_of
from runward.daemon.fleet.schema import make_schema

ADMIN = "admin"
_PASSWORD = "of the administrator"
_TEMPLATE = "fleet_template"
_NUMBERS = count(1)

MEMORY = "/dev/shm"
"""A file system whose syncs are free."""

_UNTIL_ITS_STARTER_DIES = ("--pdeathsig", "QUIT")
"""On this signal a server ends at once, with all its processes."""


def programs() -> Path:
    """The directory of PostgreSQL's server programs; skips where there is none."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if not found:
        pytest.skip("PostgreSQL's server is not installed (Debian's package postgresql)")
    return Path(found[-1]).parent


@dataclass(slots=True)
class Server:
    """A server in a directory of its own. It listens on a Unix socket there, and with TLS on 127.0.0.1."""

    directory: Path
    port: int
    programs: Path
    data: Path
    is_durable: bool = False
    """Whether it writes to the disk at once what it commits, for those who kill it."""
    _process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def ca(self) -> Path:
        """The certificate that the server's is checked by."""
        return self.directory / "ca.pem"

    @property
    def foreign_ca(self) -> Path:
        """A certificate of somebody else."""
        return self.directory / "foreign.pem"

    def set_up(self) -> None:
        """Make the cluster and its certificates."""
        write_certificates(self.directory)
        data, secret = self.data, self.directory / "secret"
        secret.write_text(_PASSWORD)
        own(self.directory)
        self._run(
            "initdb",
            *("-D", str(data), "-U", ADMIN, "--pwfile", str(secret), "-A", "scram-sha-256"),
            *("--no-sync", "--locale=C", "-E", "UTF8", "--no-instructions"),
        )
        with (data / "postgresql.conf").open("a") as file:
            file.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\nunix_socket_directories = '{self.directory}'\n"
                f"ssl = on\nssl_cert_file = '{self.directory}/server.pem'\nssl_key_file = '{self.directory}/server.key'\n"
                + ("" if self.is_durable else "fsync = off\nfull_page_writes = off\n")
                + "shared_buffers = 16MB\nmax_connections = 40\n"
                "autovacuum = off\nlog_min_messages = fatal\n"
            )
        (data / "pg_hba.conf").write_text(
            "local all,replication all scram-sha-256\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
        )

    @property
    def _data(self) -> str:
        return str(self.data)

    @property
    def pid(self) -> int:
        """Of the process that all others of the server are children of."""
        assert self._process is not None, "it runs"
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it takes connections. It dies with this process, however that ends."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_user(*_UNTIL_ITS_STARTER_DIES), str(self.programs / "postgres"), "-D", self._data],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self._answers, f"PostgreSQL; it said: {(self.directory / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        """Stop it at once, as a crash would, and wait until nothing of it runs."""
        if self._process is not None:
            self._run("pg_ctl", "stop", "-m", "immediate", "-D", self._data)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill the process that all others of it are children of, and wait until they have noticed."""
        assert self._process is not None, "it runs"
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        self._process.kill()
        self._process.wait()
        self._process = None
        wait_for(
            lambda: not any(is_alive(int(each)) for each in children), "the end of the server's processes"
        )

    def _answers(self) -> bool:
        try:
            self.admin("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*_as_user(), str(self.programs / program), *arguments],
            cwd=self.directory,
            env={**os.environ, **self.environment},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()

    @contextmanager
    def as_of(self, backup: Path) -> Iterator[None]:
        """The server is a replica that was promoted: of what `back_up` copied."""
        self.stop()
        (backup / "standby.signal").touch()
        own(backup)
        data, self.data = self.data, backup
        try:
            self.start()
            self._run("pg_ctl", "promote", "-D", str(backup))
            yield
        finally:
            self.stop()
            self.data = data
            self.start()

    def back_up(self) -> Path:
        """Copy all of its data, as a replica begins."""
        backup = self.directory / f"copy-{next(_NUMBERS)}"
        where = ("-h", str(self.directory), "-p", str(self.port), "-U", ADMIN)
        self._run("pg_basebackup", *where, "-D", str(backup), "-c", "fast", "--no-sync")
        return backup

    def fleet(self) -> AbstractContextManager[str]:
        """A new database with the schema of a fleet."""
        return self.database(_TEMPLATE)

    def admin(self, database: str) -> "psycopg.Connection[tuple[object, ...]]":
        """A connection of the administrator."""
        return psycopg.connect(
            user=ADMIN,
            password=_PASSWORD,
            host=str(self.directory),
            port=self.port,
            dbname=database,
            autocommit=True,
        )

    def address(self, database: str) -> str:
        """The address of a database, as `fleet init` takes it."""
        return f"postgresql://{ADMIN}@127.0.0.1:{self.port}/{database}"

    def conninfo(self, database: str) -> str:
        """How a program logs in as the administrator, through the socket."""
        return f"host={self.directory} port={self.port} dbname={database} user={ADMIN} password='{_PASSWORD}'"

    @property
    def environment(self) -> Mapping[str, str]:
        """The administrator's password, as libpq reads it."""
        return {"PGPASSWORD": _PASSWORD}

    def make_template(self) -> None:
        """A database with the schema of a fleet, which those of tests are copies of."""
        with self.admin("postgres") as admin:
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(_TEMPLATE)))
        with self.admin(_TEMPLATE) as connection:
            assert make_schema(connection, database_of(self.address(_TEMPLATE)))

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """A new database, as this one is. At the end it goes, with the logins of its hosts."""
        name = f"fleet_{next(_NUMBERS)}"
        create = sql.SQL("create database {} template {}")
        with self.admin("postgres") as admin:
            admin.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
            before = _logins(admin)
        try:
            yield name
        finally:
            if self._process is None:
                self.start()
            with self.admin("postgres") as admin:
                admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
                for login in _logins(admin) - before:
                    admin.execute(sql.SQL("drop role {}").format(sql.Identifier(login)))


def _logins(admin: "psycopg.Connection[tuple[object, ...]]") -> set[str]:
    return {str(name) for (name,) in admin.execute("select rolname from pg_roles")}


@contextmanager
def server(*, is_durable: bool = False) -> Iterator[Server]:
    """A server that runs. Skips where PostgreSQL is not installed."""
    found = programs()
    # Short, since a socket is in it. One that is killed often syncs all of its files at each start.
    place = MEMORY if is_durable and os.path.isdir(MEMORY) else "/tmp"
    with tempfile.TemporaryDirectory(prefix="pg-", dir=place) as directory:
        made = Server(Path(directory), free_port(), found, Path(directory) / "data", is_durable)
        made.set_up()
        made.start()
        try:
            made.make_template()
            yield made
        finally:
            made.stop()


def free_port() -> int:
    """One that nobody gets by chance: those that the kernel gives to connections are above, and a server that is stopped keeps its own."""
    first_of_kernel = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Not by the seed that all processes of tests have.
    dice = SystemRandom()
    while True:
        port = dice.randrange(min(10_000, first_of_kernel - 1), first_of_kernel)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _as_user(*options: str) -> tuple[str, ...]:
    """The words that a command begins with which runs as an unprivileged user."""
    user = AS_USER[1:] if os.geteuid() == 0 else ()
    return ("setpriv", *user, *options) if user or options else ()


def own(directory: Path) -> None:
    """Give the directory to the user that the server runs as."""
    if os.geteuid() == 0:
        for path in (directory, *directory.iterdir()):
            os.chown(path, USER, USER)


def write_certificates(directory: Path) -> None:
    """`ca.pem`, the server's certificate by it with its key, and `foreign.pem`, an authority that has nothing to do with it."""
    key, authority = _authority("of the tests")
    _, foreign = _authority("of somebody else")
    own_key = ec.generate_private_key(ec.SECP256R1())
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    of_server = _builder("127.0.0.1", authority.subject, own_key).add_extension(address, critical=False)
    for name, certificate in {
        "ca.pem": authority,
        "foreign.pem": foreign,
        "server.pem": of_server.sign(key, hashes.SHA256()),
    }.items():
        (directory / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = own_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "server.key").touch(mode=0o600)
    (directory / "server.key").write_bytes(secret)


def _authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(name, subject, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return key, builder.sign(key, hashes.SHA256())


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
