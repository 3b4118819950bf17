import { getJson } from "./api.js";
import { Evidence } from "./evidence.js";
import { Sketching } from "./sketch.js";
import { byId, element } from "./viewer.js";

function tell(sentence) {
  byId("problem").textContent = sentence;
  byId("problem").hidden = !sentence;
}

function choose(view) {
  for (const id of ["sketch", "evidence"]) {
    byId(id).hidden = id !== view;
    byId(`view-${id}`)?.setAttribute("aria-pressed", id === view);
  }
  for (const id of ["source-label", "annotator-label", "status"]) byId(id).hidden = view !== "sketch";
}

// The cookie has the token now; the address need not show it.
history.replaceState(null, "", "/");
try {
  const overview = await getJson("/api/overview");
  const views = [];
  if (overview.sources.length) views.push(["sketch", "Sketch"]);
  if (overview.runs) views.push(["evidence", "Evidence"]);
  for (const [id, name] of views.length > 1 ? views : []) {
    const button = element("button", name);
    button.id = `view-${id}`;
    button.addEventListener("click", () => choose(id));
    byId("views").append(button);
  }
  choose(views[0][0]);
  await Promise.all([
    overview.sources.length && new Sketching(overview, tell).open(0),
    overview.runs && new Evidence(tell).start(),
  ]);
} catch (error) {
  tell(error.message);
  throw error;
}
