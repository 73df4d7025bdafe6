"""Versions of one API are one family, and their equal endpoints are twins."""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import example, given
from hypothesis import strategies as st

from catalog.core.tokens import split_name
from catalog.core.twins import api_family, newest_first, twin_key


def twins(names: Iterable[str]) -> dict[str, list[str]]:
    """For every name with twins the others, newest first. A tool is no twin of a tool of its own API."""
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name in names:
        groups[twin_key(name)].add(name)
    found: dict[str, list[str]] = {}
    for group in groups.values():
        ordered = newest_first(group) if len(group) > 1 else []
        for name in ordered:
            own = split_name(name)[0]
            if others := [other for other in ordered if split_name(other)[0] != own]:
                found[name] = others
    return found


@pytest.mark.parametrize(
    ("api", "family", "version"),
    [
        ("AdyenPayoutV68", "AdyenPayout", 68),
        ("MxPlatformV20111101", "MxPlatform", 20111101),
        ("XeroPayrollAuV2", "XeroPayrollAu", 2),
        ("PaypalInvoicing_v1_2", "PaypalInvoicing", 1),
        ("Shop-v1.2.3", "Shop", 1),
        ("Shop2024-01-31", "Shop", 20240131),
        ("ShopV2017-04-24-preview", "Shop", 20170424),
        ("CloudV1beta1", "Cloud", 1),
        ("FooV2V3", "FooV2", 3),
        ("RipV2", "Rip", 2),
        ("BambooHr", "BambooHr", None),
        ("OAuth2", "OAuth2", None),
        ("Office365", "Office365", None),
        ("CheckIPv6", "CheckIPv6", None),
        ("Dev2", "Dev2", None),
        ("Shop2024-13-01", "Shop2024-13-01", None),
        ("V2", "V2", None),
        ("ShopV" + "9" * 30, "ShopV" + "9" * 30, None),
    ],
)
def test_api_name_gives_family_and_version(api: str, family: str, version: int | None) -> None:
    assert api_family(api) == (family, version)


def test_newest_version_comes_first_and_a_preview_after_its_final() -> None:
    names = ["F/a", "FV1/a", "FV1_10/a", "FV1_2/a", "FV1beta1/a", "FV2/a", "FV2rc1/a", "FV10/a"]
    expected = ["FV10/a", "FV2/a", "FV2rc1/a", "FV1_10/a", "FV1_2/a", "FV1/a", "FV1beta1/a", "F/a"]
    assert newest_first(names) == expected


def test_endpoint_that_repeats_its_version_still_has_twins() -> None:
    assert twins(["RoomsV1/GETV1Rooms", "RoomsV2/GETV2Rooms", "RoomsV2/GETV1Rooms"]) == {
        "RoomsV1/GETV1Rooms": ["RoomsV2/GETV2Rooms"],
        "RoomsV2/GETV2Rooms": ["RoomsV1/GETV1Rooms"],
    }


FAMILIES = st.sampled_from(["Adyen", "Xero Pay", "OAuth2", "ÄrzteV", "A-b", "IPv6"])
NAMES = st.builds(
    "{}{}/{}".format,
    FAMILIES,
    st.sampled_from(["", "V1", "V2", "V68", "V1_2", "V1beta", "-2024-01-31", "V20240131"]),
    st.sampled_from(["get", "list", "GETV1Rooms", "a/b"]),
)


@example("Adyen", 1_899_461_720_240_601)  # ends like a day
@given(FAMILIES, st.integers(0, 10**17))
def test_a_version_put_behind_a_family_is_found_again(family: str, version: int) -> None:
    assert api_family(f"{family}_V{version}") == (family, version)


@given(st.text())
def test_any_text_has_a_family_that_begins_it(api: str) -> None:
    family, version = api_family(api)
    assert api.startswith(family) and (family != api) == (version is not None)


@given(st.lists(NAMES))
def test_twins_are_mutual_and_never_of_the_own_api(names: list[str]) -> None:
    found = twins(names)
    for name, others in found.items():
        assert others == newest_first(others) and others and name not in others
        for other in others:
            assert name in found[other] and twin_key(other) == twin_key(name)
            assert other.split("/")[0] != name.split("/")[0]


@given(st.lists(NAMES), st.randoms())
def test_order_of_the_names_does_not_matter(names: list[str], random) -> None:
    shuffled = random.sample(names, len(names))
    assert twins(names) == twins(shuffled)


def test_public_catalogs_have_the_twins_their_vendors_published() -> None:
    folder = Path(settings.TRACE_PUBLIC_DATA) / "catalog"
    if not folder.is_dir():
        pytest.skip("the public data is absent (set TRACE_PUBLIC_DATA)")
    names = [json.loads(line)["name"] for path in folder.glob("*.jsonl") for line in path.open()]
    found = twins(names)
    assert [name.split("/")[0] for name in found["AdyenPayoutV68/post-confirmThirdParty"]] == [
        f"AdyenPayoutV{version}" for version in (67, 64, 52, 51, 50, 40, 30)
    ]
    assert len({api_family(name.split("/")[0])[0] for name in found}) >= 20
