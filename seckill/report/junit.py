"""Codec: verdicts as JUnit's XML. FAIL is a failure, UNKNOWN an error (nothing was proved), NOT RUN is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree  # it writes XML and reads none  # nosec B405

from seckill.consistency.verdicts import Judged, Verdict

ELEMENTS = {Verdict.FAIL: "failure", Verdict.UNKNOWN: "error", Verdict.NOT_RUN: "skipped"}
MOST_LINES = 20


def written(judged: Sequence[Judged]) -> bytes:
    counts = {verdict: sum(each.verdict is verdict for each in judged) for verdict in Verdict}
    suite = ElementTree.Element(
        "testsuite",
        name="seckill report",
        tests=str(len(judged)),
        failures=str(counts[Verdict.FAIL]),
        errors=str(counts[Verdict.UNKNOWN]),
        skipped=str(counts[Verdict.NOT_RUN]),
    )
    for each in judged:
        title = f"{each.invariant.name} {each.invariant.title}"
        case = ElementTree.SubElement(suite, "testcase", classname="consistency", name=title)
        if each.verdict in ELEMENTS:
            lines = [f"{violation.text}  {violation.subject}" for violation in each.violations] + list(each.reasons)
            element = ElementTree.SubElement(case, ELEMENTS[each.verdict], message=lines[0] if lines else "")
            element.text = "\n".join(lines[:MOST_LINES])
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))
