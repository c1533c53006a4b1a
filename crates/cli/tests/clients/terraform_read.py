"""Prints a Terraform file as JSON. usage: terraform_read.py FILE"""
import json
import sys

import hcl2


def plain(value):
    """Without the quotes of strings and the notes of the parser."""
    if isinstance(value, dict):
        return {plain(key): plain(it) for key, it in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [plain(it) for it in value]
    return value.strip('"') if isinstance(value, str) else value


with open(sys.argv[1]) as file:
    print(json.dumps(plain(hcl2.load(file))))
