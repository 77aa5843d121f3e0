// Requests to the gateway: JSON, streams of server-sent events, and failures with what to do about them.

const KEY = "attendant-key";
// Of what fails within a stream, which began with 200: by the error's type, as serving/gateway/errors.py has them.
const STATUSES = { invalid_request_error: 400, rate_limit_error: 429, server_error: 503, timeout_error: 408 };
const PARTS = /^expected ([^]*?); found ([^]*); ([^]*)$/;

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
};

export class Failure extends Error {
  constructor(status, said, requestId = "") {
    super(said?.message ?? `status ${status}`);
    const parts = PARTS.exec(this.message);
    this.status = status;
    this.param = said?.param ?? "";
    this.requestId = requestId;
    [this.expected, this.found, this.remedy] = parts ? parts.slice(1) : ["", this.message, remedyOf(status)];
  }
}

function remedyOf(status) {
  if (status === 0) return "See whether the gateway runs, then try again.";
  if (status === 401) return "Enter a key that the gateway knows.";
  if (status === 413) return "Send something smaller.";
  if (status === 429 || status === 503) return "Wait a moment, then try again.";
  return status >= 500 ? "Look at the gateway's log, then try again." : "Correct the question.";
}

async function sent(path, options) {
  const headers = { ...(options.headers ?? {}), ...(key.get() ? { Authorization: `Bearer ${key.get()}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, { message: "The gateway does not answer." });
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new Failure(response.status, body?.error, response.headers.get("x-request-id") ?? "");
}

const asJson = (body) => ({ method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

export async function read(path) {
  return (await sent(path, {})).json();
}

export async function models() {
  return (await read("v1/models")).data;
}

export async function ask(path, body, signal) {
  return (await sent(path, { ...asJson(body), signal })).json();
}

export async function askFile(path, file, kind, signal) {
  return (await sent(path, { method: "POST", headers: { "Content-Type": kind }, body: file, signal })).json();
}

// Calls `onEvent` with each event of a stream as it comes; returns when the stream has ended.
export async function stream(path, body, signal, onEvent) {
  const response = await sent(path, { ...asJson({ ...body, stream: true }), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Failure(0, { message: "The stream ended early." });
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event === "data: [DONE]") return;
      if (!event.startsWith("data: ")) continue;
      const said = JSON.parse(event.slice(6));
      if (said.error) throw new Failure(STATUSES[said.error.type] ?? 500, said.error);
      onEvent(said);
    }
  }
}
