"""Where a benchmark ran: the machine, and the versions of what was measured. What is not there is left out."""

import os
import platform
import re
import subprocess
from pathlib import Path

# Programs that benchmarks start, and how each says its version.
PROGRAMS = {
    "rustc": ["rustc", "--version"],
    "redis-server": ["redis-server", "--version"],
    "valkey-server": ["target/clients/valkey/bin/valkey-server", "--version"],
    "memcached": ["memcached", "--version"],
    "nginx": ["/usr/sbin/nginx", "-v"],
    "haproxy": ["/usr/sbin/haproxy", "-v"],
    "envoy": ["target/clients/envoy/bin/envoy", "--version"],
    "traefik": ["target/clients/proxies/bin/traefik", "version"],
    "throttlecrab-server": ["target/peers/bin/throttlecrab-server", "--version"],
    "node": ["node", "--version"],
    "python": ["python3", "--version"],
}
# Libraries beside which tidegate is measured, in the lock of the benchmarks.
LIBRARIES = ["governor", "throttlecrab", "limitador", "redis", "hyper", "tonic", "redis-protocol"]


def output(command, root=None):
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    except OSError:
        return ""
    return (ran.stdout or ran.stderr).strip()


def version(words):
    """
    >>> version("Redis server v=7.0.15 sha=00000000:0"), version("none")
    ('7.0.15', '')
    """
    found = re.search(r"\d+(\.\d+)+", words)
    return found[0] if found else ""


def commit(root):
    changed = output(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"])
    return output(["git", "-C", str(root), "rev-parse", "--short=10", "HEAD"]) + (" and changes" if changed else "")


def describe(root):
    cpu = dict(re.findall(r"^([\w() -]+?)\s*: +(.+)$", output(["lscpu"]), flags=re.M))
    kib = re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"))
    caches = {level: cpu.get(f"{level} cache") for level in ["L1d", "L2", "L3"]}
    machine = {
        "cpu": cpu.get("Model name"),
        "family": cpu.get("CPU family"),
        "model": cpu.get("Model"),
        "cores": os.cpu_count(),
        "memory": f"{int(kib[1]) / 2**20:.0f} GiB" if kib else None,
        "kernel": platform.release(),
        "caches": {level: size for level, size in caches.items() if size},
    }
    locks = {"tidegate": root / "Cargo.lock", **dict.fromkeys(LIBRARIES, root / "bench/Cargo.lock")}
    versions = {program: version(output(command, root)) for program, command in PROGRAMS.items()}
    versions["postgres"] = ", ".join(sorted(it.name for it in Path("/usr/lib/postgresql").glob("*")))
    versions |= {library: locked(lock, library) for library, lock in locks.items()}
    return {"machine": machine, "versions": {name: it for name, it in versions.items() if it}}


def locked(lock, library):
    versions = re.findall(rf'name = "{library}"\nversion = "(.+)"', lock.read_text(encoding="utf-8"))
    return ", ".join(versions)


def sentence(machine):
    """
    >>> sentence({"cpu": "AMD EPYC", "family": "26", "model": "2", "cores": 2, "memory": "23 GiB", "kernel": "6.1"})
    '2 cores of an AMD EPYC (family 26, model 2), 23 GiB, Linux 6.1'
    """
    model = f", model {machine['model']}" if machine.get("model") else ""
    caches = "".join(f", {level} {size}" for level, size in machine.get("caches", {}).items())
    kernel = f", Linux {machine['kernel']}" if machine.get("kernel") else ""
    cpu = f"{machine['cores']} cores of an {machine['cpu']} (family {machine['family']}{model})"
    return f"{cpu}, {machine['memory']}{caches}{kernel}"
