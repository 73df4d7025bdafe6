"""The endpoints of the roles, as the settings name them."""

import pytest

from synthesis.llm.writers import endpoints
from trace_site.lib.errors import TraceError


@pytest.fixture(autouse=True)
def common(settings):
    settings.LLM_BASE_URL = "https://models.example.com/v1"
    settings.LLM_API_KEY = "common-key"
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "big"


def test_all_roles_share_the_common_endpoint():
    assert len(set(endpoints().values())) == 1
    one = endpoints()["judge"]
    assert (one.base_url, one.api_key, one.model) == ("https://models.example.com/v1", "common-key", "big")
    assert one.attempt_timeout <= one.timeout


def test_a_role_has_what_is_its_own(settings):
    settings.LLM_JUDGE_BASE_URL = "https://judge.example.com/v1"
    settings.LLM_JUDGE_API_KEY = "judge-key"
    settings.LLM_JUDGE_MODEL = "small"
    settings.LLM_JUDGE_PRICE_IN, settings.LLM_JUDGE_PRICE_OUT = 1.5, 6.0
    settings.LLM_JUDGE_ANSWERS_AS = ["small-v2"]
    judge = endpoints()["judge"]
    assert (judge.base_url, judge.api_key, judge.model) == (
        "https://judge.example.com/v1",
        "judge-key",
        "small",
    )
    assert judge.cost(2_000_000, 1_000_000) == 9.0
    assert judge.answers_as == ("small-v2",)
    assert endpoints()["teacher"].base_url == "https://models.example.com/v1"


def test_the_common_key_goes_to_the_common_host_only(settings):
    settings.LLM_JUDGE_BASE_URL = "https://judge.example.com/v1"
    assert endpoints()["judge"].api_key == ""
    settings.LLM_JUDGE_BASE_URL = "http://models.example.com/v1"  # not encrypted
    assert endpoints()["judge"].api_key == ""
    settings.LLM_JUDGE_BASE_URL = "https://models.example.com/v2"
    assert endpoints()["judge"].api_key == "common-key"


@pytest.mark.parametrize(
    "url", ["https://[::1/v1", "ftp://models.example.com", "https://me:secret@models.example.com/v1"]
)
def test_an_address_that_cannot_be_is_named_without_its_secret(settings, url):
    settings.LLM_JUDGE_BASE_URL = url
    with pytest.raises(TraceError) as caught:
        endpoints()
    assert caught.value.code == "llm_host_refused"
    assert "secret" not in str(caught.value)


def test_hosts_outside_of_the_list_are_refused(settings):
    settings.LLM_ALLOWED_HOSTS = ["models.example.com"]
    assert endpoints()["judge"].allowed_hosts == ("models.example.com",)
    settings.LLM_JUDGE_BASE_URL = "https://judge.example.com/v1"
    with pytest.raises(TraceError, match="LLM_ALLOWED_HOSTS"):
        endpoints()
