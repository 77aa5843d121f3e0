"""``/v1/models``."""

from typing import Any, Literal

from pydantic import BaseModel


class TensorCard(BaseModel):
    """One input.

    Attributes:
        name: its name.
        dtype: element type, in NumPy's words.
        shape: its sizes without the batch; none where one varies.
    """

    name: str
    dtype: str
    shape: list[int | None]


class ModelCard(BaseModel):
    """One model.

    Attributes:
        id: its name.
        task: what it is for.
        example: one question and its right answer, as the model's canary asks it; empty if it has none.
        options: of docs/reference/sampling-parameters.md, those that it takes.
        image_size: height and width of the image that it sees; none if it sees none.
        labels: how many a classifier tells apart; none if it is none.
        explains: what ``/v1/explain`` can show of it.
        max_length: most positions of its cache; none if it writes no text.
        chat: whether it has a chat template.
        token_ids_only: whether it has no tokenizer, so that prompts and answers are token ids.
        inputs: of a custom model, as ``/v1/predict`` takes them; none of another.
        outputs: of a custom model: name → sizes, likewise.
        label_names: of a custom model's last axis, if its maker named them.
        ready: whether it answered its example rightly on some server, some seconds ago.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["attendant"] = "attendant"
    task: str
    example: dict[str, Any]
    options: list[str]
    image_size: list[int] | None
    labels: int | None
    explains: list[str]
    max_length: int | None
    chat: bool
    token_ids_only: bool
    inputs: list[TensorCard] | None
    outputs: dict[str, list[int | None]] | None
    label_names: list[str] | None
    ready: bool


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]
