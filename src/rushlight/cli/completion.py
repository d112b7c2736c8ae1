"""Print the script that lets a shell complete the commands of `rushlight` and their options.

examples:
  rushlight completion bash > ~/.local/share/bash-completion/completions/rushlight
  rushlight completion zsh > "${fpath[1]}/_rushlight"
  rushlight completion fish > ~/.config/fish/completions/rushlight.fish
  source <(rushlight completion bash)             for this shell only"""

from __future__ import annotations

import argparse
from importlib import import_module

from rushlight.cli import COMMANDS, parser_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(SCRIPTS), help="the shell that reads the script")


def main(options: argparse.Namespace) -> None:
    print(SCRIPTS[options.shell](), end="")


def words_of(name: str) -> dict[str, str]:
    """{word: what it does} of the words that may follow a command: long options, and the values of an argument with choices."""
    parser = parser_of(name, import_module(f"rushlight.cli.{COMMANDS[name][0]}"))
    words = {}
    for action in parser._actions:
        what = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
        if action.option_strings:
            words[action.option_strings[-1]] = what
        else:
            words.update(dict.fromkeys(map(str, action.choices or ()), what))
    return words


def bash() -> str:
    """The script for bash: words of the command, else names of files."""
    cases = "\n".join(f'    {name}) words="{" ".join(words_of(name))}" ;;' for name in COMMANDS)
    return f"""\
_rushlight() {{
  local words
  case "$([ "$COMP_CWORD" -gt 1 ] && echo "${{COMP_WORDS[1]}}")" in
    "") words="{" ".join(COMMANDS)} --help --version" ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _rushlight rushlight
"""


def zsh() -> str:
    """The script for zsh, with what each word does."""
    cases = "\n".join(f"    {name}) found=({_described(words_of(name))}) ;;" for name in COMMANDS)
    return f"""\
#compdef rushlight
_rushlight() {{
  local -a found
  local command=
  (( CURRENT > 2 )) && command=$words[2]
  case $command in
    '') found=({_described({name: what for name, (_, what) in COMMANDS.items()})}) ;;
{cases}
  esac
  _describe 'rushlight' found
  _files
}}
compdef _rushlight rushlight
"""


def _described(words: dict[str, str]) -> str:
    """Words of zsh: 'word:what it does'."""
    return " ".join(_quoted(f"{word}:{what}".rstrip(":")) for word, what in words.items())


def fish() -> str:
    """The script for fish, with what each word does."""
    lines = [
        f"complete -c rushlight -n __fish_use_subcommand -a {name} -d {_quoted(what)}"
        for name, (_, what) in COMMANDS.items()
    ]
    for name in COMMANDS:
        seen = f"complete -c rushlight -n '__fish_seen_subcommand_from {name}'"
        for word, what in words_of(name).items():
            kind = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" if word[0] == "-" else f"-a {word}"  # fmt: skip
            lines.append(f"{seen} {kind} -d {_quoted(what)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "’").replace("\n", " ") + "'"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
