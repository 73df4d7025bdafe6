"""Forms of the catalog pages."""

from django import forms

from catalog.core.importers.detect import FORMATS
from trace_site.limits import CATALOG_FILE

MEGABYTES = CATALOG_FILE // 1_000_000
LABELS = {
    "jsonl": "JSON lines",
    "csv": "CSV",
    "openapi": "OpenAPI 3",
    "swagger": "Swagger 2",
    "odata": "OData $metadata",
    "mcp": "MCP tools",
}


class ImportForm(forms.Form):
    file = forms.FileField(
        label="File",
        help_text="OpenAPI or Swagger (JSON, YAML), OData $metadata, MCP tools, JSONL or CSV; at most 100 MB.",
    )
    domain = forms.CharField(
        label="Domain",
        max_length=60,
        help_text="An existing domain, or a new one such as HR. Tools its APIs no longer list are retired.",
        widget=forms.TextInput(attrs={"list": "domains", "autocomplete": "off"}),
    )
    format = forms.ChoiceField(
        label="Format",
        choices=[("auto", "recognise it"), *((name, LABELS.get(name, name)) for name in FORMATS)],
    )
    licence = forms.CharField(
        label="Licence",
        max_length=100,
        required=False,
        help_text="What the file may be used for: an SPDX identifier such as CC-BY-4.0, or a few words. Datasets name "
        "it. Empty: not recorded.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    def clean_file(self) -> object:
        upload = self.cleaned_data["file"]
        if upload.size > MEGABYTES * 1_000_000:
            raise forms.ValidationError(
                f"The file has {upload.size / 1e6:,.0f} MB; a catalog has at most {MEGABYTES}. "
                "Split it by API."
            )
        return upload


class DismissForm(forms.Form):
    reason = forms.CharField(
        max_length=500,
        strip=True,
        error_messages={"required": "Say why these tools need no rule; the reason stays with the cluster."},
    )
