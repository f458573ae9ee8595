"""The process that serves: what it takes from Serve's types, and refuses before Ray starts."""

from pathlib import Path

import pytest
from ray.serve._private.common import DeploymentStatus, DeploymentStatusTrigger
from ray.serve.schema import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatusOverview,
    ServeStatus,
)

from configs.errors import SettingsError
from configs.paths import REPOSITORY
from deployments.serve_run import check_schema, main, to_states
from deployments.startup import ApplicationState, DeploymentState

PROFILES = [REPOSITORY / "serve_config.yaml", *sorted((REPOSITORY / "configs").glob("*.yaml"))]


def test_serves_status_becomes_plain_values() -> None:
    deployment = DeploymentStatusOverview(
        status=DeploymentStatus.DEPLOY_FAILED,
        status_trigger=DeploymentStatusTrigger.REPLICA_STARTUP_FAILED,
        replica_states={},
        message="boom",
    )
    application = ApplicationStatusOverview(
        status=ApplicationStatus.DEPLOYING,
        message="soon",
        last_deployed_time_s=0.0,
        deployments={"model": deployment},
    )
    assert to_states(ServeStatus(applications={"m0": application})) == {
        "m0": ApplicationState(
            "DEPLOYING", "soon", {"model": DeploymentState("DEPLOY_FAILED", "boom")}
        )
    }


def test_before_serve_has_started_there_is_no_state() -> None:
    assert to_states(ServeStatus()) == {}


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.name)
def test_serve_itself_takes_each_profile(path: Path) -> None:
    check_schema(path)


def test_what_serve_would_refuse_is_refused_with_the_key(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text("applications: [{import_path: nowhere}]")
    with pytest.raises(SettingsError, match=r"serve\.yaml: applications\.0\.import_path"):
        check_schema(path)


def test_a_mistake_ends_it_before_a_cluster_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "no.yaml")]) == 1
    assert capsys.readouterr().err.startswith("antiphon: cannot read")
