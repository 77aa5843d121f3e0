from __future__ import annotations

import os
import sys
from pathlib import Path

from serving.triton.server.environment import CHECKOUT, environment_from


def test_our_directories_come_before_the_users():
    inherited = {"LD_LIBRARY_PATH": "/cuda", "PATH": "/bin", "PYTHONPATH": "/mine"}
    environment = environment_from(inherited, (Path("/libs"), Path("/python")))
    assert environment["LD_LIBRARY_PATH"] == "/libs:/python:/cuda"
    assert environment["PATH"] == f"{Path(sys.executable).parent}:/bin:{os.defpath}"
    assert environment["PYTHONPATH"] == f"{CHECKOUT}:/mine"


def test_no_empty_entry_makes_the_loader_search_the_working_directory():
    environment = environment_from({}, ())
    assert "LD_LIBRARY_PATH" not in environment
    assert not environment["PYTHONPATH"].endswith(":")


def test_a_model_instance_gets_one_thread_unless_the_user_says_otherwise():
    assert environment_from({}, ())["OMP_NUM_THREADS"] == "1"
    assert environment_from({"OMP_NUM_THREADS": "4"}, ())["OMP_NUM_THREADS"] == "4"


def test_everything_else_is_left_alone():
    inherited = {"CUDA_VISIBLE_DEVICES": "1", "HOME": "/home/me"}
    assert inherited.items() <= environment_from(inherited, ()).items()


def test_a_model_can_import_serving_from_the_python_path():
    assert (CHECKOUT / "serving" / "triton" / "server" / "environment.py").exists()
