"""The results of `./dev demo overload --json` and `./dev demo loop --json` as tables of a benchmark."""

import json
import sys

# How long the demo's clients wait.
TIMEOUT_MS = 1000
LOAD = ["people/s", "requests/s", "goodput/s", "of the best", "p50, ms", "p99, ms", "5xx of the app", "timed out", "refused"]


def tables(name, printed):
    """The tables of a demo, from what it and the programs that installed it have printed."""
    if not found(printed):
        sys.exit(f"the demo {name} has printed no result")
    report = json.loads(found(printed))
    return {"tables": {"overload": overload, "loop": loop}[name](report)}


def found(printed):
    """The JSON at the end.

    >>> found("installing\\n{ not this\\n{\\n  1\\n}\\n"), found("up to date\\n")
    ('{\\n  1\\n}\\n', '')
    """
    at = f"\n{printed}".rfind("\n{\n")
    return printed[at:] if at >= 0 else ""


def overload(report):
    best, behind, peers = report["best"], report["behind"], report["peers"]
    direct = [
        ("unloaded, directly", report["unloaded"]),
        ("at its best, directly", best),
        ("3 × the load, directly", report["direct"]),
        ("unloaded, through tidegate", report["unloaded_behind"]),
        ("3 × the load, through tidegate", behind),
    ]
    others = [
        ("Envoy, at most 1000", peers["envoy"]),
        ("Envoy, at most 16", peers["envoy_capped"]),
        ("nginx, burst of 0.1 s", peers["nginx_small_burst"]),
        ("nginx, burst of 1 s", peers["nginx_large_burst"]),
    ]
    ratio = "tidegate's goodput beside it"
    beside = table("overload/proxies", "through a proxy, 3 × the load", [*LOAD, ratio])
    add(beside, "tidegate", [*load(behind, best), None])
    for name, peer in others:
        add(beside, name, [*load(peer["overloaded"], best), times(behind, peer["overloaded"])])
    gradients = table("overload/envoy", "what Envoy says of itself", ["latency without load, ms", "refused", "places at the end"])
    for name, peer in others:
        if gradient := peer.get("gradient"):
            fields = ["min_rtt_msecs", "rq_blocked", "concurrency_limit"]
            add(gradients, name, [figure(gradient[field], 0) for field in fields])
    parts = [("static limit", report["limit_alone"]), ("in-flight cap", report["cap_alone"])]
    crowds = ["people/s", "their goodput/s", "their p99, ms", "bots/s", "bots' goodput/s", "5xx of the app"]
    bots = table("overload/bots", "people and bots", crowds)
    for name, run in [("360/s for all", "one_limit"), ("360/s shared", "shares"), ("440/s shared", "shares_of_more")]:
        people, others = report[run]["people"], report[run]["bots"]
        cells = [people["people_per_s"], people["goodput_per_s"], None, others["people_per_s"], others["goodput_per_s"]]
        cells = [figure(it, 0) if it is not None else latency(people["p99_ms"]) for it in cells]
        add(bots, name, [*cells, figure(people["errors_of_app"], 0)])
    apps = loads("overload/app", "an app and its database", direct, best)
    return [apps, beside, gradients, loads("overload/parts", "a part of tidegate alone, 3 × the load", parts, best), bots]


def loop(report):
    best = {"goodput_per_s": report["verdict"]["best_per_s"]}
    names = ["16 at a time", "0.8 × of that", "0.9 ×", "as much"]
    alone = [*zip(names, report["unlimited"]), ("3 × the load", report["direct"])]
    behind = [("the loop", report["with_loop"]), ("the loop, the sidecar dies", report["sidecar_killed"])]
    parts = [
        ("static limit", report["static_limit"]),
        ("limit that follows", report["limit_alone"]),
        ("places", report["places_alone"]),
    ]
    return [
        loads("loop/app", "a Fastify app without tidegate", alone, best),
        loads("loop/sidecar", "with a sidecar, 3 × the load", behind, best),
        loads("loop/parts", "a part of the policy alone, 3 × the load", parts, best),
    ]


def loads(name, title, rows, best):
    made = table(name, title, LOAD)
    for row, it in rows:
        add(made, row, load(it, best))
    return made


def load(it, best):
    counts = [it["errors_of_app"], it["timed_out"] + it["lost"], it["refused"]]
    return [
        figure(it["people_per_s"], 0),
        figure(it["requests_per_s"], 0),
        figure(it["goodput_per_s"], 0, better="more"),
        figure(100 * it["goodput_per_s"] / best["goodput_per_s"], 0, "%", "more"),
        latency(it["p50_ms"]),
        latency(it["p99_ms"]),
        *(figure(count, 0) for count in counts),
    ]


def latency(ms):
    """
    >>> latency(1000.2), latency(78.6)["median"]
    ('>1000', 78.6)
    """
    return f">{TIMEOUT_MS}" if ms >= TIMEOUT_MS else figure(ms, 0 if ms >= 10 else 1, better="less")


def times(ours, theirs):
    """Nothing beside a peer that answered nobody in time."""
    over, under = ours["goodput_per_s"], theirs["goodput_per_s"]
    return figure(over / under, 2 if over < 10 * under else 1, "×", "more") if under else None


def figure(value, decimals, unit="", better=None):
    value = float(f"{value:.6g}") if value != int(value) else value
    return {"median": value, "lowest": value, "highest": value, "unit": unit, "better": better, "decimals": decimals}


def table(name, title, columns):
    return {"id": name, "title": title, "columns": columns, "curve": None, "rows": []}


def add(made, row, cells):
    made["rows"].append({"name": row, "cells": cells})
