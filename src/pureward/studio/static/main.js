import { getJson } from "./api.js";
import { Sketching } from "./sketch.js";

function tell(sentence) {
  const problem = document.getElementById("problem");
  problem.textContent = sentence;
  problem.hidden = !sentence;
}

// The cookie has the token now; the address need not show it.
history.replaceState(null, "", "/");
try {
  const overview = await getJson("/api/overview");
  document.getElementById("sketch").hidden = false;
  const sketching = new Sketching(overview, tell);
  await sketching.open(0);
} catch (error) {
  tell(error.message);
  throw error;
}
