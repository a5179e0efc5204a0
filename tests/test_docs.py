"""What the documents say, held against the code."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from icegate import config
from icegate.tables import reference

ROOT = Path(__file__).parent.parent


def test_the_page_of_tables_is_made_from_the_definitions() -> None:
    assert (ROOT / "docs/tables.md").read_text() == reference.render()


def test_every_link_in_the_documents_leads_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert set(re.findall(r"`make ([a-z0-9-]+)", page.read_text())) <= targets, page


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return parsed


def test_the_compose_file_hangs_together(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {"gateway", "query", "compactor", "collector", "s3"} <= set(services)
    for name, service in services.items():
        assert "image" in service, name
        assert set(service.get("depends_on", {})) <= set(services), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (ROOT / source).exists(), volume


def test_the_compose_file_sets_only_settings_that_exist(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(config.ENV_PREFIX)]:
        monkeypatch.delenv(name)
    for name, value in compose["services"]["gateway"]["environment"].items():
        monkeypatch.setenv(name, value)
    settings = config.load()
    assert settings.data == "s3://icegate/lake"
    assert settings.s3.path_style is True
    assert settings.catalog.uri is not None


def test_the_collector_configuration_uses_what_it_defines() -> None:
    parsed = yaml.safe_load((ROOT / "deploy/collector.yaml").read_text())
    for pipeline in parsed["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(parsed[kind])
