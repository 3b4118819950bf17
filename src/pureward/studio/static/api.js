// Requests to the server. An error of ours is {error: one sentence}.

export class Refused extends Error {
  constructor(message, status, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

async function asked(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new Refused("the server does not answer; start it again", 0, {});
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(body.error ?? `the server answered ${answer.status}`, answer.status, body);
}

export const getJson = async (path) => (await asked(path)).json();

export const getImage = async (path) =>
  createImageBitmap(await (await asked(path)).blob(), {
    colorSpaceConversion: "none",
    premultiplyAlpha: "none",
  });

export const putJson = async (path, value) =>
  (await asked(path, { method: "PUT", body: JSON.stringify(value) })).json();

export const postJson = async (path) => (await asked(path, { method: "POST" })).json();
