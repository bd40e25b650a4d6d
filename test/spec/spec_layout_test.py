#!/usr/bin/env python3
"""The layout tables of doc/spec/03-packets.md are those of lib/wire/packet.h.

packet.h asserts its own sizes at compile time. This test reads its structures and compares every
field's offset and width, in order, with the table in the specification; the values of the
enumerations and flags with the lists there; and the drop reasons of chapter 4 and of the operator's
guide with lib/wire/drop_reason.h.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = (ROOT / "lib/wire/packet.h").read_text(encoding="utf-8")
PACKETS = (ROOT / "doc/spec/03-packets.md").read_text(encoding="utf-8")
CHECKS = (ROOT / "doc/spec/04-receive-checks.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "doc/operators-guide.md").read_text(encoding="utf-8")
DROP_REASONS = set(re.findall(r"X\(k\w+, (\w+),",
                              (ROOT / "lib/wire/drop_reason.h").read_text(encoding="utf-8")))
WIDTH = {"std::uint8_t": 1, "Be16": 2, "Be24": 3, "Be32": 4, "Be64": 8}


def struct_fields(name):
    """[(offset, bytes, field)] of one structure in packet.h, nested structures expanded."""
    body = re.search(rf"^struct {name} {{(.*?)^}};", HEADER, re.M | re.S).group(1)
    body = re.sub(r"//[^\n]*", "", body)
    body = re.sub(r"[^;{}]*\([^;{}]*\)\s*(const)?\s*{[^{}]*}", "", body)  # methods
    fields, at = [], 0
    for declared, variable, count in re.findall(r"([\w:]+)\s+(\w+)(?:\[(\d+)\])?;", body):
        if declared in WIDTH:
            size = WIDTH[declared] * int(count or 1)
            fields.append((at, size, variable))
        else:
            inner = struct_fields(declared)
            fields += [(at + o, s, f) for o, s, f in inner]
            size = inner[-1][0] + inner[-1][1]
        at += size
    return fields


def table_behind(identifier):
    """[(offset, bytes, field)] of the table that follows a statement of chapter 3."""
    text = PACKETS[PACKETS.index(f"[{identifier}]"):]
    rows = re.search(r"^\| offset .*?\n\n", text, re.M | re.S).group(0).splitlines()[2:]
    out = []
    for row in rows:
        if row.strip():
            offset, size, field = [c.strip().strip("`") for c in row.split("|")[1:4]]
            out.append((int(offset), int(size), field))
    return out


def extension(operation):
    """[(offset, bytes)] and the header length in the table of extensions."""
    row = re.search(rf"^\| {re.escape(operation)} \|(.*)\|(.*)\|$", PACKETS, re.M)
    out = []
    base = re.match(r"\s*as ([A-Z]+);", row.group(1))
    if base:
        out = extension(base.group(1))[0]
    for part in re.findall(r"(\d+): (\d+)", row.group(1)):
        out = out + [(int(part[0]), int(part[1]))]
    return out, int(row.group(2))


def enum_values(name):
    body = re.search(rf"enum class {name} : std::uint8_t {{(.*?)}};", HEADER, re.S).group(1)
    return {int(v): k for k, v in re.findall(r"k(\w+)\s*=\s*(\d+)", body)}


def listed(identifier):
    """{value: NAME} of an enumeration that a statement lists as `1 NAME, 2 NAME`."""
    text = PACKETS[PACKETS.index(f"[{identifier}]**") + len(identifier) + 3:]
    text = re.sub(r"MR-[\d.]+", "", text[:text.index("\n\n")])
    return {int(v): k for v, k in re.findall(r"\b(\d+) ([A-Z][A-Z_]+)", text)}


def comparable(names):
    return {v: n.replace("_", "").lower() for v, n in names.items()}


class Layout(unittest.TestCase):
    def compare(self, identifier, struct, skip=0, base=0):
        code = struct_fields(struct)[skip:]
        self.assertEqual([(base + o, s) for o, s, _ in code],
                         [(o, s) for o, s, _ in table_behind(identifier)], struct)
        for (_, _, ours), (_, _, theirs) in zip(code, table_behind(identifier)):
            if not ours.startswith("reserved"):
                self.assertEqual(ours, theirs, struct)

    def test_packets__tables_equal_structures(self):
        self.compare("MR-3.3.1", "Common")
        n = len(struct_fields("Common"))
        for identifier, struct in (("MR-3.4.1", "Data"), ("MR-3.5.1", "Flush"), ("MR-3.6.1", "Ack"),
                                   ("MR-3.7.1", "Nack"), ("MR-3.8.1", "Probe"), ("MR-3.9.1", "Ctrl")):
            self.compare(identifier, struct, skip=n)

    def test_blocks__tables_equal_structures(self):
        self.compare("MR-3.6.2", "AckPath")
        self.compare("MR-3.6.6", "AckStream")

    def test_extensions__table_equals_structures(self):
        n = len(struct_fields("Data"))
        for operation, struct in (("WRITE", "Write"), ("WRITE with LAST and IMM", "WriteImm"),
                                  ("SEND", "Send"), ("SEND_IMM", "SendImm"), ("SEND_INV", "SendImm")):
            fields = struct_fields(struct)
            rows, header = extension(operation)
            self.assertEqual([(o, s) for o, s, _ in fields[n:]], rows, operation)
            self.assertEqual(fields[-1][0] + fields[-1][1], header, operation)

    def test_extensions__without_holes(self):
        for operation in ("READ_REQ", "READ_RSP", "ATOMIC_RSP"):
            rows, header = extension(operation)
            at = 28
            for offset, size in rows:
                self.assertEqual(offset, at, operation)
                at += size
            self.assertEqual(at, header, operation)

    def test_titles__sizes(self):
        for title, struct in (("Common header", "Common"), ("FLUSH", "Flush"), ("NACK", "Nack"),
                              ("PROBE and PROBE_REPLY", "Probe"), ("DATA", "Data"), ("ACK", "Ack"),
                              ("CTRL", "Ctrl")):
            last = struct_fields(struct)[-1]
            self.assertRegex(PACKETS, rf"(?m)^## 3\.\d+ {title}, {last[0] + last[1]} bytes")

    def test_enumerations__equal(self):
        for identifier, name in (("MR-3.3.2", "Type"), ("MR-3.4.2", "Op"), ("MR-3.7.2", "NackReason"),
                                 ("MR-3.9.2", "CtrlType")):
            self.assertEqual(comparable(listed(identifier)), comparable(enum_values(name)), name)

    def test_flags__equal(self):
        text = PACKETS[PACKETS.index("[MR-3.3.4]"):]
        text = text[:text.index("\n\n")]
        spec = {int(v, 16): k.replace("_", "").lower()
                for v, k in re.findall(r"(0x\w+) ([A-Z_]+)", text)}
        code = {int(v, 16): k.lower() for k, v in re.findall(r"kFlag(\w+) = (0x\w+);", HEADER)}
        self.assertEqual(spec, code)

    def test_drop_reasons__chapter_4_names_exist(self):
        table = re.findall(r"^\| \d+ \|[^|]*\|([^|]*)\|", CHECKS, re.M)
        used = {n for cell in table for n in re.findall(r"`(\w+)`", cell)}
        self.assertGreater(len(used), 15)
        self.assertEqual(used - DROP_REASONS, set())

    def test_drop_reasons__each_is_in_the_operators_guide(self):
        rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| [NRCT, ]+ \|", GUIDE, re.M)
        listed_names = [n for cell in rows for n in re.findall(r"`(\w+)`", cell)]
        self.assertEqual(sorted(listed_names), sorted(DROP_REASONS - {"none"}))


CODEC = ROOT / "lib/transport/ctrl_codec.h"


@unittest.skipUnless(CODEC.exists(), "no control codec in this tree")
class Control(unittest.TestCase):
    def setUp(self):
        self.codec = CODEC.read_text(encoding="utf-8")
        spec = (ROOT / "doc/spec/05-connections.md").read_text(encoding="utf-8")
        self.tlvs, self.status = spec.split("[MR-5.4.2]")[1].split("[MR-5.4.5]")
        self.status = self.status.split("## 5.5")[0]

    def test_tlvs__types_and_names_equal(self):
        code = {int(t): n for t, n in re.findall(r"^// +(\d+) (\S+(?: \S+)*)  ", self.codec, re.M)}
        spec = {int(t): n.replace("`", "")
                for t, n in re.findall(r"^\| (\d+) \| ([^|]+?) \|", self.tlvs, re.M)}
        self.assertGreater(len(spec), 10)
        self.assertEqual(spec, code)

    def test_status__equal(self):
        body = re.search(r"enum class CtrlStatus : std::uint8_t {(.*?)};", self.codec, re.S).group(1)
        code = {int(v): k.lower() for k, v in re.findall(r"k(\w+)\s*=\s*(\d+)", body)}
        spec = {int(v): k.lower()
                for v, k in re.findall(r"^\| (\d+) \| (\w+) \|", self.status, re.M)}
        self.assertEqual(spec, code)


if __name__ == "__main__":
    unittest.main()
