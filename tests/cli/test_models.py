"""The command with MJCF and URDF files."""

import pytest

pytest.importorskip("typer", reason="the command line needs typer: pip install 'bricard[cli]'")

from tests.cli.test_cli import call, complaint

PENDULUM = """<robot name="pendulum"><link name="base"/>
  <link name="rod"><inertial><origin xyz="0.5 0 0"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint>
</robot>"""


@pytest.fixture
def pendulum(tmp_path):
    file = tmp_path / "pendulum.urdf"
    file.write_text(PENDULUM)
    return file


def test_info(pendulum):
    result = call("info", pendulum)
    assert result.exit_code == 0, result.output
    assert "hinge" in result.stdout
    assert "1 degree of freedom" in result.stdout


def test_run(pendulum, tmp_path):
    result = call("run", pendulum, "--t-end", "0.5", "-o", tmp_path / "pendulum.npz")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "pendulum.npz").stat().st_size > 0


def test_invalid_models(pendulum):
    assert "Its parameters are coordinates." in complaint("info", pendulum, "--set", "mass=3")
    pendulum.write_text(PENDULUM.replace('value="1"', 'value="-1"'))
    assert "its mass is negative" in complaint("info", pendulum)


HINGE = """<mujoco><worldbody><body name="rod"><joint name="hinge" axis="0 1 0"/>
  <inertial pos="0.5 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(("name", "text"), [("robot.urdf", PENDULUM), ("robot.xml", PENDULUM), ("robot.xml", HINGE)])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
def test_a_truncated_file(tmp_path, name, text, share):
    if text is HINGE and share:
        pytest.importorskip("mujoco", reason="MJCF is read by MuJoCo's parser: pip install 'bricard[mjcf]'")
    file = tmp_path / name
    file.write_text(text[: int(share * len(text))])
    shown = complaint("run", file, "-o", tmp_path / "robot.html")
    assert name in shown
    assert "Traceback" not in shown
    assert list(tmp_path.iterdir()) == [file]
