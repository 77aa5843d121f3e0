"""A small history of a worker that is killed, written by hand: nothing in it is wrong."""

TOKENS = list(range(10, 22))
TEXT = "one two three"
EXPECT = {"ended_s": 2.0, "back_s": 8.0, "others_failed": 0, "silence_s": 5.0}


class Story:
    """Events, each a little later than the one before."""

    def __init__(self):
        self.events, self.at, self.count = [], 100.0, 0

    def tell(self, kind, after=0.01, **fields):
        self.at += after
        self.events.append({"at": self.at, "kind": kind, **fields})

    def send(self, traffic, model, source, via="grpc"):
        self.count += 1
        request = f"r{self.count}"
        self.tell(
            "sent", request=request, client=f"{traffic} 0", traffic=traffic, model=model, input=source, via=via, round=0
        )
        return request

    def respond(self, request, **fields):
        self.tell("response", request=request, **{"candidate": 0, "tokens": None, "text": None, **fields})

    def end(self, request, how="ok", code="", after=0.01):
        self.tell("end", after=after, request=request, how=how, code=code, message="")

    def stream(self, parts=4):
        request = self.send("streams", "stdlib-lm", "generate 0")
        for part in range(parts):
            self.respond(request, tokens=TOKENS[3 * part : 3 * part + 3], text="")
        return request

    def classify(self):
        request = self.send("unary", "digits-vit", "image 0")
        self.respond(request, tokens=[4], id=request)
        self.end(request)

    def ask_gateway(self):
        request = self.send("openai", "stdlib-lm", "generate 0", via="gateway")
        self.respond(request, text=TEXT[:5])
        self.respond(request, alive=True)
        self.respond(request, text=TEXT[5:])
        self.end(request)


def true_history(**expect):
    story = Story()
    story.tell("reference", model="stdlib-lm", input="generate 0", answers={"0": {"tokens": TOKENS, "text": TEXT}})
    story.tell("reference", model="digits-vit", input="image 0", answers={"0": {"tokens": [4], "text": "4"}})
    holds = {"rss_mb": {"worker 7 stdlib-lm": 90.0}, "descriptors": {"worker 7 stdlib-lm": 20}}
    story.tell("sample", quiet=True, round=-1, **holds)
    traffics = {"streams": ["stdlib-lm"], "openai": ["stdlib-lm"], "unary": ["digits-vit"]}
    models = ["digits-vit", "stdlib-lm"]
    names = {"round": 0, "scenario": "worker-killed", "target": "stdlib-lm", "traffics": traffics, "models": models}
    story.tell("round", **names, expect=EXPECT | expect, started=True)
    story.end(story.stream())
    story.ask_gateway()
    story.classify()
    cut_off = story.stream(parts=2)
    story.tell("fault", round=0, phase="injected")
    story.tell("process", what="died", pid=6, role="worker", model="stdlib-lm", round=0)
    story.tell("fault", round=0, phase="removed")
    story.end(cut_off, "error", "server_unreachable", after=0.5)
    story.classify()
    story.at += 5
    story.end(story.stream())
    story.ask_gateway()
    story.classify()
    story.tell("sample", quiet=True, round=0, **{name: dict(values) for name, values in holds.items()})
    story.tell("finished", round=0, well=True)
    return story.events
