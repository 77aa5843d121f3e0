import numpy as np

from clients.answer import Delta, whole_answers


def said(text, candidate, *tokens, **more):
    logprobs = tuple(-float(token) for token in tokens)
    return Delta(text=text, candidate=candidate, token_ids=tokens, logprobs=logprobs, output_tokens=len(tokens), **more)


def test_pieces_of_several_answers_that_come_mixed_are_put_together_by_candidate():
    pieces = [
        said("b", 1, 5, input_tokens=3),
        said("a", 0, 1, 2, input_tokens=3),
        said("c", 1, input_tokens=3, finish_reason="stop", score=-0.5),
        said("d", 0, 4, input_tokens=3, finish_reason="length"),
    ]
    first, second = whole_answers(pieces)
    assert (first.text, first.token_ids, first.finish_reason, first.score) == ("ad", (1, 2, 4), "length", None)
    assert (second.text, second.token_ids, second.finish_reason, second.score) == ("bc", (5,), "stop", -0.5)
    assert first.logprobs == (-1.0, -2.0, -4.0)
    assert [(answer.input_tokens, answer.output_tokens) for answer in (first, second)] == [(3, 3), (3, 1)]


def test_a_response_with_nothing_but_text_is_a_piece_without_the_rest():
    outputs = {
        "text_output": np.array([["é".encode()]], dtype=object),
        "finish_reason": np.array([[b""]], dtype=object),
        "output_ids": np.array([[3, 4]], dtype=np.int32),
    }
    assert Delta.of(outputs) == Delta(text="é", token_ids=(3, 4))


def test_the_most_probable_tokens_come_in_rows_one_for_each_token():
    outputs = {
        "text_output": np.array([[b"ab"]], dtype=object),
        "finish_reason": np.array([[b"stop"]], dtype=object),
        "output_ids": np.array([[3, 4]], dtype=np.int32),
        "sequence_index": np.array([[2]], dtype=np.int32),
        "top_ids": np.array([[[3, 5], [4, 6]]], dtype=np.int32),
        "top_log_probs": np.array([[[-0.5, -1.5], [-0.25, -2.0]]], dtype=np.float32),
    }
    piece = Delta.of(outputs)
    assert piece.candidate == 2
    assert piece.top_logprobs == (((3, -0.5), (5, -1.5)), ((4, -0.25), (6, -2.0)))
