"""An address is judged by all it may lead to, in whatever dress it comes."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_site.lib.outbound import METADATA, is_public, may_connect

PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "168.63.129.16", "100.100.100.200", "192.0.0.192",
]  # fmt: skip
NETWORKS = ["10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"]


def dresses(address: str) -> list[str]:
    """IPv6 addresses that some gateway makes this IPv4 address of."""
    number = int(ipaddress.IPv4Address(address))
    high, low, parts = number >> 16, number & 0xFFFF, number.to_bytes(4)
    client = number ^ 0xFFFFFFFF
    return [
        f"::{address}",
        f"::ffff:{address}",
        f"::ffff:0:{address}",
        f"64:ff9b::{high:x}:{low:x}",
        f"64:ff9b:1::{high:x}:{low:x}",
        f"64:ff9b:1:{high:x}:{parts[2]:x}:{parts[3] << 8:x}::",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:{high:x}:{low:x}::",
        f"2001:0:808:808:0:0:{client >> 16:x}:{client & 0xFFFF:x}",
        f"2600::5efe:{address}",
        f"2600::200:5efe:{address}",
    ]


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_ipv4_address_is_private_in_every_dress(address):
    assert not is_public(address)
    assert [dress for dress in dresses(address) if is_public(dress)] == []


@given(st.sampled_from(NETWORKS).flatmap(lambda net: st.ip_addresses(network=net)))
def test_no_address_of_a_private_network_becomes_public_by_a_dress(address):
    assert not any(map(is_public, [str(address), *dresses(str(address))]))


@pytest.mark.parametrize(
    "address",
    ["::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1", "5f00::1", "x"],
)
def test_other_addresses_of_no_host_on_the_internet_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "::ffff:93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"]
)
def test_public_addresses_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address", [*sorted(map(str, METADATA - {ipaddress.ip_address("fd00:ec2::254")})), "169.254.1.2"]
)
def test_nothing_connects_to_a_clouds_own_address_in_any_dress(address):
    assert not any(may_connect(dress) for dress in [address, *dresses(address)])
    assert not may_connect("fd00:ec2::254")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.7", "fd12::7", "64:ff9b::a00:7"])
def test_a_model_may_be_served_from_a_private_address(address):
    assert may_connect(address)
