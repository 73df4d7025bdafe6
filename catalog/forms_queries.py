"""Forms of the real queries' pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from catalog.core.query_files import GivenQuery
from trace_site.limits import QUERIES_FILE

MOST_ON_A_PAGE = 300
KILOBYTES = QUERIES_FILE // 1000


class QueriesForm(forms.Form):
    """A file or a paste."""

    collection = forms.CharField(
        label="Collection",
        max_length=100,
        help_text="Where they come from, such as Help desk, October. Removing and searching go by it.",
        widget=forms.TextInput(attrs={"list": "collections", "autocomplete": "off"}),
    )
    file = forms.FileField(
        label="File",
        required=False,
        help_text=f"TXT with one query a line, CSV with a column query, or JSON lines; at most {KILOBYTES} kB.",
    )
    pasted = forms.CharField(
        label="Or paste them",
        required=False,
        strip=False,
        max_length=KILOBYTES * 1000,
        help_text="One query a line.",
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
    )

    def clean_file(self) -> Any:
        upload = self.cleaned_data["file"]
        if upload and upload.size > KILOBYTES * 1000:
            raise forms.ValidationError(f"The file has {upload.size / 1000:,.0f} kB. Split it.")
        return upload

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors and bool(cleaned.get("file")) == bool((cleaned.get("pasted") or "").strip()):
            raise forms.ValidationError("Choose a file or paste queries, one of the two.")
        return cleaned


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What the editor made of the preview."""

    collection: str
    given: list[GivenQuery]
    no_person: list[int]

    @classmethod
    def read(cls, data: Mapping[str, str]) -> "Reviewed":
        """`text-N` is a row, `leave-N` leaves it out, `person-N` says that its names are none."""
        numbers = sorted(
            int(tail)
            for head, _, tail in (name.partition("-") for name in data)
            if head == "text" and tail.isascii() and tail.isdecimal() and len(tail) < 9
        )[:MOST_ON_A_PAGE]
        kept = [number for number in numbers if f"leave-{number}" not in data]
        return cls(
            data.get("collection", ""),
            [GivenQuery(number, data[f"text-{number}"]) for number in kept],
            [number for number in kept if f"person-{number}" in data],
        )
