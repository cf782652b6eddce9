"""Which addresses a stranger's link may lead to."""

from ipaddress import ip_address

import pytest

from pipeline.fetch.addresses import AddressPolicy

PUBLIC = ("8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.32.0.1", "2606:4700::1111", "2a00:1450::8a")
INTERNAL = (
    *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.8.9.1", "169.254.169.254", "172.16.0.1", "192.168.1.1"),
    *("192.0.0.192", "198.18.0.1", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fe80::1%1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2002:7f00:1::"),
    *("2001:0:4136:e378:8000:63bf:3fff:fdd2", "::127.0.0.1", "64:ff9b:1::1"),
)
DISGUISED = ("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe")


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_admitted(text: str) -> None:
    assert AddressPolicy().admits(ip_address(text))


@pytest.mark.parametrize("text", [*INTERNAL, *DISGUISED])
def test_internal_addresses_are_not(text: str) -> None:
    assert not AddressPolicy().admits(ip_address(text))


def test_a_public_address_reached_through_nat64_is_admitted() -> None:
    assert AddressPolicy().admits(ip_address("64:ff9b::8.8.8.8"))


def test_an_allowed_network_is_admitted_and_its_neighbours_are_not() -> None:
    policy = AddressPolicy.parse(["10.1.0.0/16", "fd12::/16"])
    assert policy.admits(ip_address("10.1.2.3"))
    assert policy.admits(ip_address("::ffff:10.1.2.3"))
    assert policy.admits(ip_address("fd12::1"))
    assert not policy.admits(ip_address("10.2.0.1"))


@pytest.mark.parametrize("text", ["169.254.169.254", "100.100.100.200", "fd00:ec2::254"])
def test_a_metadata_service_is_admitted_only_by_its_own_name(text: str) -> None:
    address = ip_address(text)
    assert not AddressPolicy.parse(["0.0.0.0/0", "::/0"]).admits(address)
    assert AddressPolicy.parse([text]).admits(address)


def test_a_network_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/33"):
        AddressPolicy.parse(["10.0.0.0/33"])
