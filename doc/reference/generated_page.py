#!/usr/bin/env python3
"""Compares generated reference pages with their programs' output, or writes them.

    generated_page.py check PROGRAM PAGE
    generated_page.py update PROGRAM PAGE [PROGRAM PAGE ...]
"""
import difflib
import pathlib
import subprocess
import sys


def text_of(program):
    result = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60)
    if not result.stdout.strip():
        sys.exit(f"{program} printed nothing")
    return result.stdout


def check(program, page):
    expected, found = text_of(program), pathlib.Path(page).read_text(encoding="utf-8")
    if expected == found:
        return
    sys.stdout.writelines(
        difflib.unified_diff(
            found.splitlines(keepends=True), expected.splitlines(keepends=True), page, "the code"
        )
    )
    sys.exit(f"{page} is not current; run: ninja -C build update-reference")


def main():
    command, pairs = sys.argv[1], list(zip(sys.argv[2::2], sys.argv[3::2]))
    for program, page in pairs:
        if command == "check":
            check(program, page)
        else:
            pathlib.Path(page).write_text(text_of(program), encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
