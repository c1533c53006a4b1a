"""Validates a Compose file by the specification. usage: compose_check.py FILE"""
import sys

from compose_spec import PyCompose

try:
    file = PyCompose.from_yaml(open(sys.argv[1]).read())
    for what in (file.validate, file.validate_networks, file.validate_volumes, file.validate_secrets, file.validate_configs):
        what()
except Exception as error:
    sys.exit(f"{sys.argv[1]}: {error}")
