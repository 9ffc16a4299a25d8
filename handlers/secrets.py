"""The shapes of services' secrets: the rules of gitleaks, version 8, as data.

Taken from its `config/gitleaks.toml` (commit b58d3f10). Left out: rules that go by a file's name, and `generic-api-key`,
`curl-auth-user`, `curl-auth-header`, `private-key` and `jwt`, for which `secrets.py` has its own. The part of a rule that
only names what stands before a secret is left out too, because a match covers what is redacted. Entropy and lists of
exceptions are not used: here a false alarm costs a word, and a miss costs a secret.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.linear_pattern import LinearMatch, compiled, compiled_together

# MIT License
#
# Copyright (c) 2019 Zachary Rice
#
# Permission is hereby granted, free of charge, to any person obtaining a copy
# of this software and associated documentation files (the "Software"), to deal
# in the Software without restriction, including without limitation the rights
# to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
# copies of the Software, and to permit persons to whom the Software is
# furnished to do so, subject to the following conditions:
#
# The above copyright notice and this permission notice shall be included in all
# copies or substantial portions of the Software.
#
# THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
# IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
# FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
# AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
# LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
# OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
# SOFTWARE.


class Rule(NamedTuple):
    """A regular expression in RE2's syntax, for texts that contain one of `keywords` in any case.

    `group` is the group with the secret: by default the first one, and the whole match if there is none.
    """

    name: str
    keywords: tuple[str, ...]
    pattern: str
    group: int | None = None


# fmt: off
RULES: Final = (
    Rule("1password-secret-key", ("a3-",), r"\bA3-[A-Z0-9]{6}-(?:(?:[A-Z0-9]{11})|(?:[A-Z0-9]{6}-[A-Z0-9]{5}))-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}\b"),
    Rule("1password-service-account-token", ("ops_",), r"ops_eyJ[a-zA-Z0-9+/]{250,}={0,3}"),
    Rule("adafruit-api-key", ("adafruit",), r"""(?i)(?:adafruit)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9_-]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("adobe-client-id", ("adobe",), r"""(?i)(?:adobe)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("adobe-client-secret", ("p8e-",), r"""\b(p8e-(?i)[a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("age-secret-key", ("age-secret-key-1",), r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    Rule("airtable-api-key", ("airtable",), r"""(?i)(?:airtable)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{17})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("airtable-personnal-access-token", ("airtable",), r"\b(pat[[:alnum:]]{14}\.[a-f0-9]{64})\b"),
    Rule("algolia-api-key", ("algolia",), r"""(?i)(?:algolia)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("alibaba-access-key-id", ("ltai",), r"""\b(LTAI(?i)[a-z0-9]{20})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("alibaba-secret-key", ("alibaba",), r"""(?i)(?:alibaba)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{30})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("anthropic-admin-api-key", ("sk-ant-admin01",), r"""\b(sk-ant-admin01-[a-zA-Z0-9_\-]{93}AA)(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("anthropic-api-key", ("sk-ant-api03",), r"""\b(sk-ant-api03-[a-zA-Z0-9_\-]{93}AA)(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("artifactory-api-key", ("akcp",), r"\bAKCp[A-Za-z0-9]{69}\b"),
    Rule("artifactory-reference-token", ("cmvmd",), r"\bcmVmd[A-Za-z0-9]{59}\b"),
    Rule("asana-client-id", ("asana",), r"""(?i)(?:asana)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9]{16})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("asana-client-secret", ("asana",), r"""(?i)(?:asana)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("atlassian-api-token", ("atlassian", "confluence", "jira", "atatt3"), r"""(?i)(?:(?-i:ATLASSIAN|[Aa]tlassian)|(?-i:CONFLUENCE|[Cc]onfluence)|(?-i:JIRA|[Jj]ira))(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{20}[a-f0-9]{4})(?:[\x60'"\s;]|\\[nr]|$)|\b(ATATT3[A-Za-z0-9_\-=]{186})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("authress-service-client-access-key", ("sc_", "ext_", "scauth_", "authress_"), r"""\b((?:sc|ext|scauth|authress)_(?i)[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.(?-i:acc)[_-][a-z0-9-]{10,32}\.[a-z0-9+/_=-]{30,120})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("aws-access-token", ("a3t", "akia", "asia", "abia", "acca"), r"\b((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b"),
    Rule("aws-amazon-bedrock-api-key-long-lived", ("absk",), r"""\b(ABSK[A-Za-z0-9+/]{109,269}={0,2})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("aws-amazon-bedrock-api-key-short-lived", ("bedrock-api-key-",), r"bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"),
    Rule("azure-ad-client-secret", ("q~",), r"""(?:^|[\\'"\x60\s>=:(,)])([a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34})(?:$|[\\'"\x60\s<),])"""),
    Rule("beamer-api-token", ("beamer",), r"""(?i)(?:beamer)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(b_[a-z0-9=_\-]{44})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("bitbucket-client-id", ("bitbucket",), r"""(?i)(?:bitbucket)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("bitbucket-client-secret", ("bitbucket",), r"""(?i)(?:bitbucket)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9=_\-]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("bittrex-access-key", ("bittrex",), r"""(?i)(?:bittrex)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("bittrex-secret-key", ("bittrex",), r"""(?i)(?:bittrex)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("cisco-meraki-api-key", ("meraki",), r"""(?i:[\w.-]{0,50}?(?:(?-i:[Mm]eraki|MERAKI))(?:[ \t\w.-]{0,20})[\s'"]{0,3})(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9a-f]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("clickhouse-cloud-api-secret-key", ("4b1d",), r"\b(4b1d[A-Za-z0-9]{38})\b"),
    Rule("clojars-api-token", ("clojars_",), r"(?i)CLOJARS_[a-z0-9]{60}"),
    Rule("cloudflare-api-key", ("cloudflare",), r"""(?i)(?:cloudflare)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9_-]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("cloudflare-global-api-key", ("cloudflare",), r"""(?i)(?:cloudflare)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{37})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("cloudflare-origin-ca-key", ("cloudflare", "v1.0-"), r"""\b(v1\.0-[a-f0-9]{24}-[a-f0-9]{146})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("codecov-access-token", ("codecov",), r"""(?i)(?:codecov)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("cohere-api-token", ("cohere", "co_api_key"), r"""(?i:[\w.-]{0,50}?(?:cohere|CO_API_KEY)(?:[ \t\w.-]{0,20})[\s'"]{0,3})(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-zA-Z0-9]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("coinbase-access-token", ("coinbase",), r"""(?i)(?:coinbase)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9_-]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("confluent-access-token", ("confluent",), r"""(?i)(?:confluent)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{16})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("confluent-secret-key", ("confluent",), r"""(?i)(?:confluent)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("contentful-delivery-api-token", ("contentful",), r"""(?i)(?:contentful)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9=_\-]{43})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("databricks-api-token", ("dapi",), r"""\b(dapi[a-f0-9]{32}(?:-\d)?)(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("datadog-access-token", ("datadog",), r"""(?i)(?:datadog)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("defined-networking-api-token", ("dnkey",), r"""(?i)(?:dnkey)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(dnkey-[a-z0-9=_\-]{26}-[a-z0-9=_\-]{52})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("digitalocean-access-token", ("doo_v1_",), r"""\b(doo_v1_[a-f0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("digitalocean-pat", ("dop_v1_",), r"""\b(dop_v1_[a-f0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("digitalocean-refresh-token", ("dor_v1_",), r"""(?i)\b(dor_v1_[a-f0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("discord-api-token", ("discord",), r"""(?i)(?:discord)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("discord-client-id", ("discord",), r"""(?i)(?:discord)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9]{18})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("discord-client-secret", ("discord",), r"""(?i)(?:discord)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9=_\-]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("doppler-api-token", ("dp.pt.",), r"dp\.pt\.(?i)[a-z0-9]{43}"),
    Rule("droneci-access-token", ("droneci",), r"""(?i)(?:droneci)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("dropbox-api-token", ("dropbox",), r"""(?i)(?:dropbox)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{15})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("dropbox-long-lived-api-token", ("dropbox",), r"""(?i)(?:dropbox)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{11}(AAAAAAAAAA)[a-z0-9\-_=]{43})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("dropbox-short-lived-api-token", ("dropbox",), r"""(?i)(?:dropbox)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(sl\.[a-z0-9\-=_]{135})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("duffel-api-token", ("duffel_",), r"duffel_(?:test|live)_(?i)[a-z0-9_\-=]{43}"),
    Rule("dynatrace-api-token", ("dt0c01.",), r"dt0c01\.(?i)[a-z0-9]{24}\.[a-z0-9]{64}"),
    Rule("easypost-api-token", ("ezak",), r"\bEZAK(?i)[a-z0-9]{54}\b"),
    Rule("easypost-test-api-token", ("eztk",), r"\bEZTK(?i)[a-z0-9]{54}\b"),
    Rule("etsy-access-token", ("etsy",), r"""(?i)(?:(?-i:ETSY|[Ee]tsy))(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{24})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("facebook-access-token", ("facebook",), r"""(?i)\b(\d{15,16}(\||%)[0-9a-z\-_]{27,40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("facebook-page-access-token", ("eaam", "eaac"), r"""\b(EAA[MC](?i)[a-z0-9]{100,})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("facebook-secret", ("facebook",), r"""(?i)(?:facebook)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("fastly-api-token", ("fastly",), r"""(?i)(?:fastly)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9=_\-]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("finicity-api-token", ("finicity",), r"""(?i)(?:finicity)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("finicity-client-secret", ("finicity",), r"""(?i)(?:finicity)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{20})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("finnhub-access-token", ("finnhub",), r"""(?i)(?:finnhub)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{20})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("flickr-access-token", ("flickr",), r"""(?i)(?:flickr)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("flutterwave-encryption-key", ("flwseck_test",), r"FLWSECK_TEST-(?i)[a-h0-9]{12}"),
    Rule("flutterwave-public-key", ("flwpubk_test",), r"FLWPUBK_TEST-(?i)[a-h0-9]{32}-X"),
    Rule("flutterwave-secret-key", ("flwseck_test",), r"FLWSECK_TEST-(?i)[a-h0-9]{32}-X"),
    Rule("flyio-access-token", ("fo1_", "fm1", "fm2_"), r"""\b((?:fo1_[\w-]{43}|fm1[ar]_[a-zA-Z0-9+\/]{100,}={0,3}|fm2_[a-zA-Z0-9+\/]{100,}={0,3}))(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("frameio-api-token", ("fio-u-",), r"fio-u-(?i)[a-z0-9\-_=]{64}"),
    Rule("freshbooks-access-token", ("freshbooks",), r"""(?i)(?:freshbooks)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("gcp-api-key", ("aiza",), r"""\b(AIza[\w-]{35})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("github-app-token", ("ghu_", "ghs_"), r"(?:ghu|ghs)_[0-9a-zA-Z]{36}"),
    Rule("github-fine-grained-pat", ("github_pat_",), r"github_pat_\w{82}"),
    Rule("github-oauth", ("gho_",), r"gho_[0-9a-zA-Z]{36}"),
    Rule("github-pat", ("ghp_",), r"ghp_[0-9a-zA-Z]{36}"),
    Rule("github-refresh-token", ("ghr_",), r"ghr_[0-9a-zA-Z]{36}"),
    Rule("gitlab-cicd-job-token", ("glcbt-",), r"glcbt-[0-9a-zA-Z]{1,5}_[0-9a-zA-Z_-]{20}"),
    Rule("gitlab-deploy-token", ("gldt-",), r"gldt-[0-9a-zA-Z_\-]{20}"),
    Rule("gitlab-feature-flag-client-token", ("glffct-",), r"glffct-[0-9a-zA-Z_\-]{20}"),
    Rule("gitlab-feed-token", ("glft-",), r"glft-[0-9a-zA-Z_\-]{20}"),
    Rule("gitlab-incoming-mail-token", ("glimt-",), r"glimt-[0-9a-zA-Z_\-]{25}"),
    Rule("gitlab-kubernetes-agent-token", ("glagent-",), r"glagent-[0-9a-zA-Z_\-]{50}"),
    Rule("gitlab-oauth-app-secret", ("gloas-",), r"gloas-[0-9a-zA-Z_\-]{64}"),
    Rule("gitlab-pat", ("glpat-",), r"glpat-[\w-]{20}"),
    Rule("gitlab-pat-routable", ("glpat-",), r"\bglpat-[0-9a-zA-Z_-]{27,300}\.[0-9a-z]{2}[0-9a-z]{7}\b"),
    Rule("gitlab-ptt", ("glptt-",), r"glptt-[0-9a-f]{40}"),
    Rule("gitlab-rrt", ("gr1348941",), r"GR1348941[\w-]{20}"),
    Rule("gitlab-runner-authentication-token", ("glrt-",), r"glrt-[0-9a-zA-Z_\-]{20}"),
    Rule("gitlab-runner-authentication-token-routable", ("glrt-",), r"\bglrt-t\d_[0-9a-zA-Z_\-]{27,300}\.[0-9a-z]{2}[0-9a-z]{7}\b"),
    Rule("gitlab-scim-token", ("glsoat-",), r"glsoat-[0-9a-zA-Z_\-]{20}"),
    Rule("gitlab-session-cookie", ("_gitlab_session=",), r"_gitlab_session=[0-9a-z]{32}"),
    Rule("gitter-access-token", ("gitter",), r"""(?i)(?:gitter)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9_-]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("gocardless-api-token", ("live_", "gocardless"), r"""(?i)(?:gocardless)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(live_(?i)[a-z0-9\-_=]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("grafana-api-key", ("eyjrijoi",), r"""(?i)\b(eyJrIjoi[A-Za-z0-9]{70,400}={0,3})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("grafana-cloud-api-token", ("glc_",), r"""(?i)\b(glc_[A-Za-z0-9+/]{32,400}={0,3})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("grafana-service-account-token", ("glsa_",), r"""(?i)\b(glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("harness-api-key", ("pat.", "sat."), r"(?:pat|sat)\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9]{24}\.[a-zA-Z0-9]{20}"),
    Rule("hashicorp-tf-api-token", ("atlasv1",), r"(?i)[a-z0-9]{14}\.(?-i:atlasv1)\.[a-z0-9\-_=]{60,70}"),
    Rule("heroku-api-key", ("heroku",), r"""(?i)(?:heroku)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("heroku-api-key-v2", ("hrku-aa",), r"""\b((HRKU-AA[0-9a-zA-Z_-]{58}))(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("hubspot-api-key", ("hubspot",), r"""(?i)(?:hubspot)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("huggingface-access-token", ("hf_",), r"""\b(hf_(?i:[a-z]{34}))(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("huggingface-organization-api-token", ("api_org_",), r"""\b(api_org_(?i:[a-z]{34}))(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("infracost-api-token", ("ico-",), r"""\b(ico-[a-zA-Z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("intercom-api-key", ("intercom",), r"""(?i)(?:intercom)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9=_\-]{60})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("intra42-client-secret", ("intra", "s-s4t2ud-", "s-s4t2af-"), r"""\b(s-s4t2(?:ud|af)-(?i)[abcdef0123456789]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("jfrog-api-key", ("jfrog", "artifactory", "bintray", "xray"), r"""(?i)(?:jfrog|artifactory|bintray|xray)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{73})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("jfrog-identity-token", ("jfrog", "artifactory", "bintray", "xray"), r"""(?i)(?:jfrog|artifactory|bintray|xray)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("jwt-base64", ("zxlk",), r"\bZXlK(?:(?P<alg>aGJHY2lPaU)|(?P<apu>aGNIVWlPaU)|(?P<apv>aGNIWWlPaU)|(?P<aud>aGRXUWlPaU)|(?P<b64>aU5qUWlP)|(?P<crit>amNtbDBJanBi)|(?P<cty>amRIa2lPaU)|(?P<epk>bGNHc2lPbn)|(?P<enc>bGJtTWlPaU)|(?P<jku>cWEzVWlPaU)|(?P<jwk>cWQyc2lPb)|(?P<iss>cGMzTWlPaU)|(?P<iv>cGRpSTZJ)|(?P<kid>cmFXUWlP)|(?P<key_ops>clpYbGZiM0J6SWpwY)|(?P<kty>cmRIa2lPaUp)|(?P<nonce>dWIyNWpaU0k2)|(?P<p2c>d01tTWlP)|(?P<p2s>d01uTWlPaU)|(?P<ppt>d2NIUWlPaU)|(?P<sub>emRXSWlPaU)|(?P<svt>emRuUWlP)|(?P<tag>MFlXY2lPaU)|(?P<typ>MGVYQWlPaUp)|(?P<url>MWNtd2l)|(?P<use>MWMyVWlPaUp)|(?P<ver>MlpYSWlPaU)|(?P<version>MlpYSnphVzl1SWpv)|(?P<x>NElqb2)|(?P<x5c>NE5XTWlP)|(?P<x5t>NE5YUWlPaU)|(?P<x5ts256>NE5YUWpVekkxTmlJNkl)|(?P<x5u>NE5YVWlPaU)|(?P<zip>NmFYQWlPaU))[a-zA-Z0-9\/\\_+\-\r\n]{40,}={0,2}", 0),
    Rule("kraken-access-token", ("kraken",), r"""(?i)(?:kraken)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9\/=_\+\-]{80,90})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("kucoin-access-token", ("kucoin",), r"""(?i)(?:kucoin)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{24})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("kucoin-secret-key", ("kucoin",), r"""(?i)(?:kucoin)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("launchdarkly-access-token", ("launchdarkly",), r"""(?i)(?:launchdarkly)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9=_\-]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("linear-api-key", ("lin_api_",), r"lin_api_(?i)[a-z0-9]{40}"),
    Rule("linear-client-secret", ("linear",), r"""(?i)(?:linear)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("linkedin-client-id", ("linkedin", "linked_in", "linked-in"), r"""(?i)(?:linked[_-]?in)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{14})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("linkedin-client-secret", ("linkedin", "linked_in", "linked-in"), r"""(?i)(?:linked[_-]?in)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{16})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("lob-api-key", ("test_", "live_"), r"""(?i)(?:lob)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}((live|test)_[a-f0-9]{35})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("lob-pub-api-key", ("test_pub", "live_pub", "_pub"), r"""(?i)(?:lob)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}((test|live)_pub_[a-f0-9]{31})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("looker-client-id", ("looker",), r"""(?i)(?:looker)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{20})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("looker-client-secret", ("looker",), r"""(?i)(?:looker)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{24})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("mailchimp-api-key", ("mailchimp",), r"""(?i)(?:MailchimpSDK.initialize|mailchimp)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{32}-us\d\d)(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("mailgun-private-api-token", ("mailgun",), r"""(?i)(?:mailgun)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(key-[a-f0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("mailgun-pub-key", ("mailgun",), r"""(?i)(?:mailgun)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(pubkey-[a-f0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("mailgun-signing-key", ("mailgun",), r"""(?i)(?:mailgun)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-h0-9]{32}-[a-h0-9]{8}-[a-h0-9]{8})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("mapbox-api-token", ("mapbox",), r"""(?i)(?:mapbox)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(pk\.[a-z0-9]{60}\.[a-z0-9]{22})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("mattermost-access-token", ("mattermost",), r"""(?i)(?:mattermost)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{26})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("maxmind-license-key", ("_mmk",), r"""\b([A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("messagebird-api-token", ("messagebird", "message-bird", "message_bird"), r"""(?i)(?:message[_-]?bird)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{25})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("messagebird-client-id", ("messagebird", "message-bird", "message_bird"), r"""(?i)(?:message[_-]?bird)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("microsoft-teams-webhook", ("webhook.office.com", "webhookb2", "incomingwebhook"), r"https://[a-z0-9]+\.webhook\.office\.com/webhookb2/[a-z0-9]{8}-([a-z0-9]{4}-){3}[a-z0-9]{12}@[a-z0-9]{8}-([a-z0-9]{4}-){3}[a-z0-9]{12}/IncomingWebhook/[a-z0-9]{32}/[a-z0-9]{8}-([a-z0-9]{4}-){3}[a-z0-9]{12}", 0),
    Rule("netlify-access-token", ("netlify",), r"""(?i)(?:netlify)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9=_\-]{40,46})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("new-relic-browser-api-token", ("nrjs-",), r"""(?i)(?:new-relic|newrelic|new_relic)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(NRJS-[a-f0-9]{19})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("new-relic-insert-key", ("nrii-",), r"""(?i)(?:new-relic|newrelic|new_relic)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(NRII-[a-z0-9-]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("new-relic-user-api-id", ("new-relic", "newrelic", "new_relic"), r"""(?i)(?:new-relic|newrelic|new_relic)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("new-relic-user-api-key", ("nrak",), r"""(?i)(?:new-relic|newrelic|new_relic)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(NRAK-[a-z0-9]{27})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("notion-api-token", ("ntn_",), r"""\b(ntn_[0-9]{11}[A-Za-z0-9]{32}[A-Za-z0-9]{3})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("npm-access-token", ("npm_",), r"""(?i)\b(npm_[a-z0-9]{36})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("nytimes-access-token", ("nytimes", "new-york-times", "newyorktimes"), r"""(?i)(?:nytimes|new-york-times,|newyorktimes)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9=_\-]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("octopus-deploy-api-key", ("api-",), r"""\b(API-[A-Z0-9]{26})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("okta-access-token", ("okta",), r"""(?i:[\w.-]{0,50}?(?:(?-i:[Oo]kta|OKTA))(?:[ \t\w.-]{0,20})[\s'"]{0,3})(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(00[\w=\-]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("openai-api-key", ("t3blbkfj",), r"""\b(sk-(?:proj|svcacct|admin)-(?:[A-Za-z0-9_-]{74}|[A-Za-z0-9_-]{58})T3BlbkFJ(?:[A-Za-z0-9_-]{74}|[A-Za-z0-9_-]{58})\b|sk-[a-zA-Z0-9]{20}T3BlbkFJ[a-zA-Z0-9]{20})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("openshift-user-token", ("sha256~",), r"\b(sha256~[\w-]{43})(?:[^\w-]|\z)"),
    Rule("perplexity-api-key", ("pplx-",), r"""\b(pplx-[a-zA-Z0-9]{48})(?:[\x60'"\s;]|\\[nr]|$|\b)"""),
    Rule("plaid-api-token", ("plaid",), r"""(?i)(?:plaid)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("plaid-client-id", ("plaid",), r"""(?i)(?:plaid)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{24})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("plaid-secret-key", ("plaid",), r"""(?i)(?:plaid)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{30})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("planetscale-api-token", ("pscale_tkn_",), r"""\b(pscale_tkn_(?i)[\w=\.-]{32,64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("planetscale-oauth-token", ("pscale_oauth_",), r"""\b(pscale_oauth_[\w=\.-]{32,64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("planetscale-password", ("pscale_pw_",), r"""(?i)\b(pscale_pw_(?i)[\w=\.-]{32,64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("postman-api-token", ("pmak-",), r"""\b(PMAK-(?i)[a-f0-9]{24}\-[a-f0-9]{34})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("prefect-api-token", ("pnu_",), r"""\b(pnu_[a-zA-Z0-9]{36})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("privateai-api-token", ("privateai", "private_ai", "private-ai"), r"""(?i:[\w.-]{0,50}?(?:private[_-]?ai)(?:[ \t\w.-]{0,20})[\s'"]{0,3})(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("pulumi-api-token", ("pul-",), r"""\b(pul-[a-f0-9]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("pypi-upload-token", ("pypi-ageichlwas5vcmc",), r"pypi-AgEIcHlwaS5vcmc[\w-]{50,1000}"),
    Rule("rapidapi-access-token", ("rapidapi",), r"""(?i)(?:rapidapi)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9_-]{50})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("readme-api-token", ("rdme_",), r"""\b(rdme_[a-z0-9]{70})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("rubygems-api-token", ("rubygems_",), r"""\b(rubygems_[a-f0-9]{48})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("scalingo-api-token", ("tk-us-",), r"""\b(tk-us-[\w-]{48})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sendbird-access-id", ("sendbird",), r"""(?i)(?:sendbird)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sendbird-access-token", ("sendbird",), r"""(?i)(?:sendbird)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sendgrid-api-token", ("sg.",), r"""\b(SG\.(?i)[a-z0-9=_\-\.]{66})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sendinblue-api-token", ("xkeysib-",), r"""\b(xkeysib-[a-f0-9]{64}\-(?i)[a-z0-9]{16})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sentry-access-token", ("sentry",), r"""(?i)(?:sentry)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sentry-org-token", ("sntrys_eyjpyxqio",), r"\bsntrys_eyJpYXQiO[a-zA-Z0-9+/]{10,200}(?:LCJyZWdpb25fdXJs|InJlZ2lvbl91cmwi|cmVnaW9uX3VybCI6)[a-zA-Z0-9+/]{10,200}={0,2}_[a-zA-Z0-9+/]{43}(?:[^a-zA-Z0-9+/]|\z)"),
    Rule("sentry-user-token", ("sntryu_",), r"""\b(sntryu_[a-f0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("settlemint-application-access-token", ("sm_aat",), r"""\b(sm_aat_[a-zA-Z0-9]{16})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("settlemint-personal-access-token", ("sm_pat",), r"""\b(sm_pat_[a-zA-Z0-9]{16})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("settlemint-service-access-token", ("sm_sat",), r"""\b(sm_sat_[a-zA-Z0-9]{16})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("shippo-api-token", ("shippo_",), r"""\b(shippo_(?:live|test)_[a-fA-F0-9]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("shopify-access-token", ("shpat_",), r"shpat_[a-fA-F0-9]{32}"),
    Rule("shopify-custom-access-token", ("shpca_",), r"shpca_[a-fA-F0-9]{32}"),
    Rule("shopify-private-app-access-token", ("shppa_",), r"shppa_[a-fA-F0-9]{32}"),
    Rule("shopify-shared-secret", ("shpss_",), r"shpss_[a-fA-F0-9]{32}"),
    Rule("sidekiq-secret", ("bundle_enterprise__contribsys__com", "bundle_gems__contribsys__com"), r"""(?i)(?:BUNDLE_ENTERPRISE__CONTRIBSYS__COM|BUNDLE_GEMS__CONTRIBSYS__COM)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-f0-9]{8}:[a-f0-9]{8})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sidekiq-sensitive-url", ("gems.contribsys.com", "enterprise.contribsys.com"), r"(?i)\bhttps?://([a-f0-9]{8}:[a-f0-9]{8})@(?:gems.contribsys.com|enterprise.contribsys.com)(?:[\/|\#|\?|:]|$)"),
    Rule("slack-app-token", ("xapp",), r"(?i)xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+"),
    Rule("slack-bot-token", ("xoxb",), r"xoxb-[0-9]{10,13}-[0-9]{10,13}[a-zA-Z0-9-]*"),
    Rule("slack-config-access-token", ("xoxe.xoxb-", "xoxe.xoxp-"), r"(?i)xoxe.xox[bp]-\d-[A-Z0-9]{163,166}"),
    Rule("slack-config-refresh-token", ("xoxe-",), r"(?i)xoxe-\d-[A-Z0-9]{146}"),
    Rule("slack-legacy-bot-token", ("xoxb",), r"xoxb-[0-9]{8,14}-[a-zA-Z0-9]{18,26}"),
    Rule("slack-legacy-token", ("xoxo", "xoxs"), r"xox[os]-\d+-\d+-\d+-[a-fA-F\d]+"),
    Rule("slack-legacy-workspace-token", ("xoxa", "xoxr"), r"xox[ar]-(?:\d-)?[0-9a-zA-Z]{8,48}"),
    Rule("slack-user-token", ("xoxp-", "xoxe-"), r"xox[pe](?:-[0-9]{10,13}){3}-[a-zA-Z0-9-]{28,34}"),
    Rule("slack-webhook-url", ("hooks.slack.com",), r"(?:https?://)?hooks.slack.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{43,56}"),
    Rule("snyk-api-token", ("snyk",), r"""(?i)(?:snyk[_.-]?(?:(?:api|oauth)[_.-]?)?(?:key|token))(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sonar-api-token", ("sonar",), r"""(?i)(?:sonar[_.-]?(login|token))(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}((?:squ_|sqp_|sqa_)?[a-z0-9=_\-]{40})(?:[\x60'"\s;]|\\[nr]|$)""", 2),
    Rule("sourcegraph-access-token", ("sgp_", "sourcegraph"), r"""(?i)\b(\b(sgp_(?:[a-fA-F0-9]{16}|local)_[a-fA-F0-9]{40}|sgp_[a-fA-F0-9]{40}|[a-fA-F0-9]{40})\b)(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("square-access-token", ("sq0atp-", "eaaa"), r"""\b((?:EAAA|sq0atp-)[\w-]{22,60})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("squarespace-access-token", ("squarespace",), r"""(?i)(?:squarespace)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("stripe-access-token", ("sk_test", "sk_live", "sk_prod", "rk_test", "rk_live", "rk_prod"), r"""\b((?:sk|rk)_(?:test|live|prod)_[a-zA-Z0-9]{10,99})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sumologic-access-id", ("sumo",), r"""(?i:[\w.-]{0,50}?(?:(?-i:[Ss]umo|SUMO))(?:[ \t\w.-]{0,20})[\s'"]{0,3})(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(su[a-zA-Z0-9]{12})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("sumologic-access-token", ("sumo",), r"""(?i)(?:(?-i:[Ss]umo|SUMO))(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{64})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("telegram-bot-api-token", ("telegr",), r"""(?i)(?:telegr)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9]{5,16}:(?-i:A)[a-z0-9_\-]{34})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("travisci-access-token", ("travis",), r"""(?i)(?:travis)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{22})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("twilio-api-key", ("sk",), r"SK[0-9a-fA-F]{32}"),
    Rule("twitch-api-token", ("twitch",), r"""(?i)(?:twitch)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{30})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("twitter-access-secret", ("twitter",), r"""(?i)(?:twitter)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{45})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("twitter-access-token", ("twitter",), r"""(?i)(?:twitter)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([0-9]{15,25}-[a-zA-Z0-9]{20,40})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("twitter-api-key", ("twitter",), r"""(?i)(?:twitter)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{25})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("twitter-api-secret", ("twitter",), r"""(?i)(?:twitter)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{50})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("twitter-bearer-token", ("twitter",), r"""(?i)(?:twitter)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(A{22}[a-zA-Z0-9%]{80,100})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("typeform-api-token", ("tfp_",), r"""(?i)(?:typeform)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(tfp_[a-z0-9\-_\.=]{59})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("vault-batch-token", ("hvb.",), r"""\b(hvb\.[\w-]{138,300})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("vault-service-token", ("hvs.", "s."), r"""\b((?:hvs\.[\w-]{90,120}|s\.(?i:[a-z0-9]{24})))(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("yandex-access-token", ("yandex",), r"""(?i)(?:yandex)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(t1\.[A-Z0-9a-z_-]+[=]{0,2}\.[A-Z0-9a-z_-]{86}[=]{0,2})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("yandex-api-key", ("yandex",), r"""(?i)(?:yandex)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(AQVN[A-Za-z0-9_\-]{35,38})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("yandex-aws-access-token", ("yandex",), r"""(?i)(?:yandex)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(YC[a-zA-Z0-9_\-]{38})(?:[\x60'"\s;]|\\[nr]|$)"""),
    Rule("zendesk-secret-key", ("zendesk",), r"""(?i)(?:zendesk)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}([a-z0-9]{40})(?:[\x60'"\s;]|\\[nr]|$)"""),
)
# fmt: on


REDACTED: Final = "[redacted]"

# The two long expressions are compiled when they are first used: commands that show no text don't wait for them.

# Names of secrets -----------------------------------------------------------------------------------------------------

_WORDS: Final = (
    r"passw(?:or)?ds?|passwrd|passphrase|passcode|secrets?|token|credentials?"
    r"|(?:api|access|account|auth|client|crypto|database|db|decrypt(?:ion)?|deploy|encrypt(?:ion)?|hmac|license|master"
    r"|priv(?:ate)?|secret|service|shared|sign(?:ing)?|ssh|storage|subscription|webhook)[-_. ]?key"
    r"|(?:github|gitlab|gh|azure|ado|devops|jira|personal)[-_]?pat"
)
"""What a name of a secret ends with, whatever is before it."""
_SHORT_WORDS: Final = r"pass|pwd|creds"
"""The same, but only as a word of the name: `DB_PASS`, `dbPass`, not `bypass`."""
_TAIL: Final = (
    r"(?:[-_]?(?:pem|der|base(?:64)?|b64|hash|value|string|plain|raw|old|new|prod(?:uction)?|dev|staging|live|test))?"
    r"(?:[-_]?\d{1,3})?"
)
"""What may follow the word without changing what the name is: `privateKeyPem`, `SECRET_KEY_BASE`, `PASSWORD_2`."""

_SECRET_KEY: Final = (
    rf"(?:(?:{_WORDS}|authorization|cookies?)|(?:\b|_)(?:{_SHORT_WORDS}|auth)|(?-i:[a-z](?:P(?:ass|wd)|Creds)|_PAT))"
    rf"{_TAIL}$"
)
_LONGEST_NAME: Final = 64

# Rules ----------------------------------------------------------------------------------------------------------------

_NAME: Final = (
    rf"((?:\w?[-_.]?(?:{_WORDS})|(?:\w*_|\b)(?:{_SHORT_WORDS})|(?-i:[a-z](?:P(?:ass|wd)|Creds)|_PAT)){_TAIL})"
)
_QUOTED: Final = (
    r"\"(?:[^\"\\\n]|\\.)+|'(?:[^'\\\n]|\\.)+|\x60[^\x60\n]+"
    r"|\\+\"(?:[^\"\\\n]|\\+[^\"\\\n])+|\\+'(?:[^'\\\n]|\\+[^'\\\n])+"
)
"""A value with its first quote. In a JSON text inside a JSON text, the quotes have backslashes."""
_BARE: Final = r"[^\s\"'\x60\\]+(?:(?:\\+|[\"'\x60]\w)[^\s\"'\x60\\]+)*"
_BARE_ARGUMENT: Final = r"[^\s\"'\x60\\-][^\s\"'\x60]*"
_BETWEEN: Final = r"[\]\[\d'\"\\]{0,8}[ \t]*(?:=>|:=|[!=]=?=?|:)[ \t]*@?"
_ASSIGNED: Final = rf"(?i){_NAME}(?:({_BETWEEN})({_QUOTED}|{_BARE})|(?:[ \t]*\(|[ \t]+)({_QUOTED}))"
_OPTION: Final = rf"(?i)--?[\w-]*?{_NAME}[ \t]+({_QUOTED}|{_BARE_ARGUMENT})"
_SCHEME: Final = r"(?i)\b(?:bearer|(basic)) +([\w.~+/=-]{8,})"
_HEADER: Final = (
    r"(?i)\b(?:(?:proxy-)?authorization|(?:set-)?cookie2?)\\*['\"]?[ \t]*(?:={1,3}|:)[ \t]*\\*['\"]?"
    r"(digest [^\r\n]+|[^\s'\"\\=][^'\"\\\r\n]*)"
)
"""The rest of the line: the scheme is not known, and a cookie has spaces."""
_ADDRESS: Final = r"://[^\s/:\"'<>]{0,64}:([^\s\"'<>]+)@"
"""user:password@ in an address. A password may contain `/` and `@`, so it ends at the last `@` of the word."""
_USER: Final = r"(?:^|\s)(?:-u|--user|--proxy-user)[ =]?['\"]?[^\s:'\"]*[A-Za-z][^\s:'\"]*:([^\s'\"]+)"
_LOGIN: Final = r"\blogin\s+\S+\s+password\s+(\S+)"
"""A line of ~/.netrc."""
_KNOWN: Final = (
    r"\bsk-[\w-]{16,}"  # OpenAI, Anthropic
    r"|\bgh[opsur]_\w{20,}"
    r"|\bgithub_pat_\w{20,}"
    r"|\bglpat-[\w-]{16,}"
    r"|\bxox[a-z]-[\w-]{10,}"  # Slack
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # Amazon
    r"|\bAIza[\w-]{30,}"  # Google
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"  # a JSON Web Token
)
_PRIVATE_KEY: Final = (
    r"----[- ]BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-?[- ]----(?s:.)*?"
    r"(?:----[- ]END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-?[- ]----|\z)"
)

_PLACEHOLDER: Final = (
    r"(?:\?|\.{3}|…|\*+|null|nil|none|true|false|undefined|str(?:ing)?|bytes|int|bool(?:ean)?|any|object|dict|list"
    r"|\$\{?(?-i:[A-Z_][A-Z0-9_]*)\}?|\$\d|%s|\{\w{0,30}\}|<[\w -]{1,40}>|\[redacted\])[,;)\]}]*"
)
"""A value that only stands for one: a type, a variable, a placeholder."""
_COUNT: Final = re.compile(r"\d{1,6}[,;)\]}.]*", re.ASCII)
_PATH: Final = re.compile(r"/[\w./-]*[,;]?")
_TEST: Final = re.compile(r"\[?[\"']?[\w./-]*(?:::\w+)*")
_PORT: Final = re.compile(r"\d{1,5}[/?#]", re.ASCII)
_MAY_HAVE: Final = (str, list, dict)
"""What may have a secret in it. A number, a boolean or null has none."""

_LISTS: Final = ("to_pass",)
"""Ends of names that only look like names of secrets: lists of tests that are to pass."""
_WORDS_OF_PROSE: Final = ("token", "secret", "secrets", "pass")
_SHORTEST_IN_PROSE: Final = 6
"""Characters of a word after `token: `, which prose and code have as well. `token=` is an assignment."""


_QUOTES: Final = b"\"'`"
_REDACTED: Final = REDACTED.encode()


class _OwnRule(NamedTuple):
    """An expression for texts in which one of `hints` is found, in any case.

    The secret is the last group that takes part in a match, or all of it. `is_secret` judges the groups and the secret.
    """

    hints: tuple[str, ...]
    pattern: str
    is_secret: Callable[[Sequence[str | None], str], bool] = lambda _groups, _value: True


def _is_value(groups: Sequence[str | None], value: str) -> bool:
    """Whether a value that follows a secret's name can be the secret.

    A value that is kept must not contain a name and a value itself, because it is not searched again.
    """
    name, between, assigned, _ = groups
    name = (name or "").lower()
    if _stands_for_secret(value) or not any(each.isalnum() for each in value):
        return False
    if name.endswith("pwd") and _PATH.fullmatch(value):
        return False
    if name.endswith(_LISTS) and _TEST.fullmatch(value):
        return False
    if name.endswith(("token", "secret")) and _COUNT.fullmatch(value):
        return False
    is_prose = name.lstrip("-.") in _WORDS_OF_PROSE and between != "=" and assigned == value
    return not (is_prose and value.isalnum() and len(value) < _SHORTEST_IN_PROSE)


def _stands_for_secret(value: str) -> bool:
    return re.fullmatch(_PLACEHOLDER, value, re.IGNORECASE) is not None


def _is_option(_groups: Sequence[str | None], value: str) -> bool:
    return not _stands_for_secret(value)


def _is_credential(groups: Sequence[str | None], value: str) -> bool:
    """Words of prose follow Basic as well: "basic authentication"."""
    return groups[0] is None or not (value.isalpha() and value.islower())


def _is_password(_groups: Sequence[str | None], value: str) -> bool:
    """What follows the colon may also be a port: `http://localhost:4873/@scope/name`."""
    return _PORT.match(value) is None or "://" in value


_ANY_NAME: Final = rf"(?:{_WORDS}|{_SHORT_WORDS}|(?-i:_PAT)){_TAIL}"
_OWN: Final = (
    _OwnRule(
        ("sk-", "gh[opsur]_", "github_pat_", "glpat-", "xox[a-z]-", "akia", "asia", "aiza", r"eyj[\w-]{8}"),
        _KNOWN,
    ),
    _OwnRule(("---- begin", "-----begin"), _PRIVATE_KEY),
    _OwnRule((r"://[^\s/:\"'<>]*:",), _ADDRESS, _is_password),
    _OwnRule((r"(?:auth(?:orization)?|cookies?2?)\\*['\"]?[ \t]*[=:]",), _HEADER),
    _OwnRule(("bearer ", "basic "), _SCHEME, _is_credential),
    _OwnRule(
        (rf"{_ANY_NAME}[\]\[\d'\"\\]*[ \t]*(?:[=:]|!=|\([\"'\x60]|[ \t][\"'\x60])",), _ASSIGNED, _is_value
    ),
    _OwnRule((rf"-[\w-]*{_ANY_NAME}[ \t\"]",), _OPTION, _is_option),
    _OwnRule((r"(?:^|\s)(?:-u|--user|--proxy-user)[ =]?['\"]?[^\s:'\"]+:",), _USER),
    _OwnRule((r"\blogin\s",), _LOGIN),
)
_SHARPER: Final = {
    "sk": r"(?-i:SK)[0-9a-f]{8}",
    "s.": r"\bs\.[a-z0-9]{12}",
    "pat.": r"pat\.[\w-]{12}",
    "sat.": r"sat\.[\w-]{12}",
    "a3-": r"\ba3-[a-z0-9]{6}-",
    "ops_": "ops_eyj",
    "live_": r"live_[\w=-]{8}",
    "test_": r"test_[a-f0-9]{8}",
    "_pub": r"_pub_[a-f0-9]",
    "sc_": r"\bsc_[a-z0-9]+\.[a-z0-9]+\.acc",
    "ext_": r"\bext_[a-z0-9]+\.[a-z0-9]+\.acc",
    "intra": "s-s4t2",
}
"""Instead of keywords that ordinary text has as well. Each text in which something is found costs further passes."""


class Secrets:
    """What looks like a secret: the known shapes, and further `patterns` of the operator's. Raises `BadPattern`."""

    def __init__(self, patterns: Iterable[str]) -> None:
        by_hint: dict[str, list[_OwnRule | Rule | str]] = {}
        for own in _OWN:
            for hint in own.hints:
                by_hint.setdefault(f"(?i){hint}", []).append(own)
        for rule in RULES:
            for keyword in rule.keywords:
                by_hint.setdefault(f"(?i){_SHARPER.get(keyword, re.escape(keyword))}", []).append(rule)
        for pattern in patterns:
            compiled(pattern)
            by_hint.setdefault(pattern, []).append(pattern)
        self._rules = tuple(by_hint.values())
        self._find = compiled_together(tuple(by_hint)).Match
        self._short_key = lru_cache(maxsize=4096)(self.without)

    def without(self, text: str) -> str:
        """The text, with `[redacted]` for everything that looks like a secret. It is unchanged if nothing does."""
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            # Half a character, as in the name of a file that is not UTF-8: RE2 reads no such text, and a log never raises.
            readable = text.encode(errors="backslashreplace").decode()
            cleaned = self.without(readable)
            return text if cleaned == readable else cleaned
        hints = self._find(encoded)
        if not hints:
            return text
        # RE2 searches UTF-8: so the text is encoded once, and not for each rule.
        clean = encoded
        for rule in dict.fromkeys(rule for hint in sorted(hints) for rule in self._rules[hint]):
            clean = _without(rule, clean)
        return text if clean == encoded else clean.decode()

    def without_in_key(self, key: str) -> str:
        """The same for a key of an object: most objects have the keys of others, so what is known of short ones is kept."""
        return self._short_key(key) if len(key) <= _LONGEST_NAME else self.without(key)

    def may_be_in(self, line: bytes) -> bool:
        """Whether anything in a line of UTF-8 hints at a secret."""
        return bool(self._find(line))


def _without(rule: _OwnRule | Rule | str, text: bytes) -> bytes:
    """The UTF-8 of a text without what the rule finds."""
    if isinstance(rule, str):
        # An operator's pattern may match nothing at all, between any two characters.
        return compiled(rule).sub(REDACTED, text.decode()).encode()

    def instead(match: LinearMatch) -> bytes:
        groups = match.groups()
        numbers = [number for number, each in enumerate(groups, 1) if each is not None] or [0]
        whole, first = match[0], match.start()
        if isinstance(rule, Rule):
            number = numbers[0] if rule.group is None else rule.group
            start, end = match.start(number) - first, match.end(number) - first
        else:
            start, end = match.start(numbers[-1]) - first, match.end(numbers[-1]) - first
            start = end - len(whole[start:end].lstrip(b"\\").lstrip(_QUOTES))
            words = [None if each is None else each.decode() for each in groups]
            if not rule.is_secret(words, whole[start:end].decode()):
                return whole
        return b"".join((whole[:start], _REDACTED, whole[end:]))

    return compiled(rule.pattern).sub(instead, text)


@cache
def secrets_with(patterns: tuple[str, ...] = ()) -> Secrets:
    """The known shapes and these `patterns`, read once. Raises `BadPattern`."""
    return Secrets(patterns)


def without_secrets(line: bytes) -> bytes:
    """A line of JSON, or what is left of it when everything that looks like a secret is `[redacted]`."""
    if not secrets_with().may_be_in(line):
        return line
    value: JsonValue = json.loads(line)
    cleaned = json_without_secrets(value)
    return line if cleaned == value else json.dumps(cleaned).encode()


def text_without_secrets(text: str, patterns: tuple[str, ...] = ()) -> str:
    """A text with `[redacted]` for everything that looks like a secret, also by the operator's `patterns`."""
    return secrets_with(patterns).without(text)


def json_without_secrets(value: JsonValue, patterns: tuple[str, ...] = ()) -> JsonValue:
    """A value with `[redacted]` for everything that its key, its looks or the operator's `patterns` mark as a secret."""
    return _value_without(value, secrets_with(patterns))


def _value_without(value: JsonValue, secrets: Secrets) -> JsonValue:
    if isinstance(value, str):
        return secrets.without(value)
    if isinstance(value, list):
        return [
            REDACTED if is_argument_of_secret(before, each) else _value_without(each, secrets)
            for before, each in zip([None, *value], value, strict=False)
        ]
    if isinstance(value, dict):
        return {
            secrets.without_in_key(key): each
            if not isinstance(each, _MAY_HAVE)
            else REDACTED
            if names_secret(key, each)
            else _value_without(each, secrets)
            for key, each in value.items()
        }
    return value  # a number, a boolean or null


def without_secrets_in(values: dict[str, JsonValue], patterns: tuple[str, ...] = ()) -> dict[str, JsonValue]:
    """Like `json_without_secrets`, for an object."""
    cleaned = json_without_secrets(values, patterns)
    assert isinstance(cleaned, dict)
    return cleaned


def names_secret(key: str, value: JsonValue) -> bool:
    """Whether the key says that its value is a secret. A number, a boolean or null is only a count or a switch."""
    if not isinstance(value, _MAY_HAVE) or not _is_secret_key(key):
        return False
    return isinstance(value, str) or not key.lower().endswith(_LISTS)


def is_argument_of_secret(option: JsonValue, value: JsonValue) -> bool:
    """Whether a word of a command is a secret, because the word before it is an option such as `--password`."""
    if not isinstance(option, str) or not option.startswith("-") or not isinstance(value, str):
        return False
    return _is_secret_key(option) and not value.startswith("-") and not _stands_for_secret(value)


@lru_cache(maxsize=1024)
def _is_secret_key(key: str) -> bool:
    return re.search(_SECRET_KEY, key[-_LONGEST_NAME:], re.IGNORECASE) is not None
