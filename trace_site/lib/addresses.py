"""What an IP address leads to: gateways turn some into others, and some public ones are a cloud's own."""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# where clouds answer their own machines; not all are private by their bits
METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"))
)
UNICAST = ipaddress.IPv6Network("2000::/3")  # all that IANA has given to hosts of the internet
TUNNELS = [ipaddress.IPv6Network(net) for net in ("2002::/16", "2001::/32")]  # 6to4 and Teredo, inside it
# IPv4 in the last four bytes: compatible, mapped and translated (RFC 4291, RFC 2765), NAT64 (RFC 6052)
LAST_BYTES = [
    ipaddress.IPv6Network(net) for net in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
]
LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215; where IPv4 stands depends on the network
NAT64_BYTES = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15))
ISATAP = (bytes.fromhex("00005efe"), bytes.fromhex("02005efe"))  # RFC 5214: before the last four bytes


def literal(text: str) -> Address | None:
    """The address that a text writes out, without its zone; None for a name."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def meanings(address: Address) -> list[Address]:
    """The address itself, and the IPv4 addresses that a gateway may make of an IPv6 one."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    parts = address.packed
    inner = [address.sixtofour, *(address.teredo or ())]
    if any(address in net for net in LAST_BYTES) or parts[8:12] in ISATAP:
        inner.append(ipaddress.IPv4Address(parts[12:]))
    if address in LOCAL_NAT64:
        inner += [ipaddress.IPv4Address(bytes(parts[at] for at in places)) for places in NAT64_BYTES]
    return [address, *(one for one in inner if one is not None)]


def may_connect(address: Address) -> bool:
    """False for link-local addresses, where clouds keep their secrets, and for what no host has."""
    return not any(
        one.is_link_local or one.is_multicast or one.is_unspecified or one in METADATA
        for one in meanings(address)
    )


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, whatever a gateway makes of it."""
    found = literal(address)
    if found is None:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if isinstance(found, ipaddress.IPv6Address) and (
        found not in UNICAST or any(found in net for net in TUNNELS)
    ):
        return False
    return all(one.is_global and not one.is_multicast and one not in METADATA for one in meanings(found))
