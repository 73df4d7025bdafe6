"""What a new version of an API brings, in one sentence."""

from catalog.core.twins import version_steps


def names(api: str, *endpoints: str) -> list[str]:
    return [f"{api}/{endpoint}" for endpoint in endpoints]


def test_newer_version_counts_twins_new_and_gone_endpoints() -> None:
    old = names("PayoutV51", *"abcdefghijklm")
    new = names("PayoutV68", *"bcdefghijklm", "x", "y")
    [step] = version_steps(["PayoutV68"], old + new)
    assert str(step) == (
        "PayoutV68 is a newer version of PayoutV51: 12 endpoints have a twin, 2 are new, 1 is gone."
    )
    assert (step.new, step.gone) == (("PayoutV68/x", "PayoutV68/y"), ("PayoutV51/a",))


def test_version_is_compared_with_the_nearest_before_it() -> None:
    apis = ["PayV1", "PayV3", "PayV10", "PayV40"]
    [step] = version_steps(["PayV10"], [name for api in apis for name in names(api, "x")])
    assert (step.other, step.newer) == ("PayV3", True)


def test_first_version_is_told_to_be_older_than_the_next() -> None:
    [step] = version_steps(["PayV1"], names("PayV1", "x", "y") + names("PayV2", "x"))
    assert (
        str(step)
        == "PayV1 is an older version of PayV2: 1 endpoint has a twin, 1 is only here, 0 only there."
    )


def test_two_versions_that_come_together_are_told_once() -> None:
    steps = version_steps(["PayV1", "PayV2"], names("PayV1", "x") + names("PayV2", "x"))
    assert [(step.api, step.other) for step in steps] == [("PayV2", "PayV1")]


def test_api_without_another_version_says_nothing() -> None:
    assert version_steps(["Pay"], names("Pay", "x") + names("Payroll", "x")) == []


def test_endpoint_that_names_its_version_is_a_twin_too() -> None:
    [step] = version_steps(["PayV2"], names("PayV1", "get-v1-x") + names("PayV2", "get-v2-x"))
    assert (step.twins, step.new, step.gone) == (1, (), ())
