"""`fusegen doctor`: what this machine can do, and the mend for what it cannot."""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING

import fusegen
from fusegen import settings
from fusegen.cli import options

if TYPE_CHECKING:
    from rich.text import Text

    from fusegen.runtime.diagnosis import Diagnosis


def add_parser(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "doctor",
        help="what this machine can do",
        description="Show what this machine can do with fusegen, the mend for what it cannot, and "
        "the environment variables.",
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fusegen.cli import console
    from fusegen.runtime.diagnosis import diagnose

    diagnosis = diagnose()
    if arguments.json:
        print(json.dumps(_as_json(diagnosis), indent=2))
    else:
        console.stdout().print(_as_text(diagnosis))
    return 0


def _as_json(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "fusegen": fusegen.__version__,
        "python": platform.python_version(),
        **asdict(diagnosis),
        "settings": [{**asdict(setting), "value": setting.value()} for setting in settings.ALL],
    }


def _as_text(diagnosis: Diagnosis) -> Text:
    from rich.text import Text

    text = Text(f"fusegen {fusegen.__version__}, Python {platform.python_version()}\n\n")
    for finding in diagnosis.findings:
        text.append(*_verdict(finding.fine)).append(f"{finding.name}: {finding.detail}\n")
        if finding.mend:
            text.append(f"      mend: {finding.mend}\n")
    text.append("\nThis machine can\n", "bold")
    for ability in diagnosis.abilities:
        text.append(*_verdict(ability.possible)).append(f"{ability.name}\n")
    text.append("\nEnvironment variables\n", "bold")
    for setting in settings.ALL:
        value = setting.value()
        state = f"= {value}" if value else f"not set: {setting.default}"
        text.append(f"  {setting.name} {state}\n").append(f"      {setting.meaning}\n", "dim")
    text.rstrip()
    return text


def _verdict(good: bool) -> tuple[str, str]:
    """The first column of a line and its style."""
    return ("  yes ", "green") if good else ("  no  ", "bold red")
