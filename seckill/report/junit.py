"""Codec: verdicts as JUnit XML. FAIL is a failure, UNKNOWN an error because nothing was proved, NOT RUN is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree  # writes XML, never parses it  # nosec B405

from seckill.report.verdicts import Judgement, Verdict

ELEMENTS = {Verdict.FAIL: "failure", Verdict.UNKNOWN: "error", Verdict.NOT_RUN: "skipped"}
LINES_MAX = 20


def to_junit_xml(judged: Sequence[Judgement]) -> bytes:
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
            element.text = "\n".join(lines[:LINES_MAX])
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))
