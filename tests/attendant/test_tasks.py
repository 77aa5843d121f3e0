"""Every function that a task's record names is there, in the room that it says."""

from dataclasses import fields
from importlib.util import find_spec

import pytest

from attendant.errors import ArtefactError
from attendant.tasks import TASKS, resolve, task_named

HOOKS = [
    (task.name, value)
    for task in TASKS.values()
    for field in fields(task)
    if isinstance(value := getattr(task, field.name), str) and ":" in value
]


@pytest.mark.parametrize(("task", "hook"), HOOKS)
def test_a_function_that_a_record_names_exists(task, hook):
    assert resolve(hook) is not None


@pytest.mark.parametrize("task", TASKS)
def test_a_body_that_a_record_names_is_a_file_of_the_backends(task):
    assert find_spec(TASKS[task].body).origin.endswith(TASKS[task].body.replace(".", "/") + ".py")


@pytest.mark.parametrize("task", TASKS)
def test_a_record_stands_under_its_own_name_and_has_graphs(task):
    assert task_named(task).name == task
    assert resolve(f"models.tasks.{task}:GRAPHS").task == task


def test_a_task_that_answers_with_text_names_its_engine():
    assert [task.name for task in TASKS.values() if task.engine] == [
        task.name for task in TASKS.values() if task.answers == "text"
    ]


def test_an_unknown_task_is_refused_with_those_that_there_are():
    with pytest.raises(ArtefactError, match="paint"):
        task_named("paint")
