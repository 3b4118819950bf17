// The sketch of one episode by one person: undo, and saving with revisions.
import { Refused, putJson } from "./api.js";
import { copyOf, emptySketch, merge, same, takeTheirs } from "./merge.js";

const MOST_UNDO = 200;
const RETRY = 2000; // milliseconds

export class Store {
  // changed(store) is called when the sketch or the state of saving changes.
  constructor(path, steps, stored, changed) {
    this.path = path;
    this.changed = changed;
    this.base = stored ? copyOf(stored) : emptySketch(steps);
    this.revision = stored?.revision ?? 0;
    this.sketch = copyOf(this.base);
    this.before = [];
    this.after = [];
    this.conflict = null;
    this.problem = "";
    this.saving = null;
    this.recover();
  }

  // A draft that this tab could not save before it was reloaded.
  recover() {
    const draft = JSON.parse(sessionStorage.getItem(this.path) ?? "null");
    if (draft?.mine?.rewards?.length !== this.sketch.rewards.length) return;
    this.meet(draft.base, draft.mine, { ...this.base, revision: this.revision });
    this.save();
  }

  get dirty() {
    return !same(this.sketch, this.base);
  }

  // Call before a change that one undo takes back.
  begin() {
    this.before.push(copyOf(this.sketch));
    if (this.before.length > MOST_UNDO) this.before.shift();
    this.after = [];
  }

  step(from, to) {
    if (!from.length) return;
    to.push(copyOf(this.sketch));
    this.sketch = from.pop();
    this.save();
  }

  undo() {
    this.step(this.before, this.after);
  }

  redo() {
    this.step(this.after, this.before);
  }

  // Save until the server has what is shown; one request at a time.
  save() {
    this.keepDraft();
    this.changed(this);
    this.saving ??= this.send().finally(() => {
      this.saving = null;
      this.changed(this);
    });
    return this.saving;
  }

  async send() {
    while (this.dirty && !this.conflict) {
      const sent = copyOf(this.sketch);
      try {
        const answer = await putJson(this.path, { ...sent, revision: this.revision });
        this.base = sent;
        this.revision = answer.revision;
        this.problem = "";
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.status === 409) {
          this.meet(this.base, this.sketch, error.body.stored);
        } else {
          this.problem = error.message;
          this.changed(this);
          // A server that was killed may come back, and another tab may bring its new token.
          await new Promise((done) => setTimeout(done, RETRY));
        }
      }
      this.keepDraft();
      this.changed(this);
    }
  }

  // Another tab saved the episode: merge, and ask where both changed the same steps.
  meet(base, mine, theirs) {
    const { merged, conflicts } = merge(base, mine, theirs);
    this.sketch = merged;
    // Undo must not take back what the other tab did.
    const joined = (each) => merge(base, each, theirs).merged;
    [this.before, this.after] = [this.before.map(joined), this.after.map(joined)];
    this.base = copyOf(theirs);
    this.revision = theirs.revision;
    this.conflict = conflicts.length ? { conflicts, theirs: copyOf(theirs) } : null;
  }

  settle(mine) {
    const { conflicts, theirs } = this.conflict;
    if (!mine) {
      this.begin();
      this.sketch = takeTheirs(this.sketch, theirs, conflicts);
    }
    this.conflict = null;
    this.save();
  }

  keepDraft() {
    if (this.dirty) {
      const draft = { base: this.base, mine: this.sketch };
      try {
        sessionStorage.setItem(this.path, JSON.stringify(draft));
      } catch {
        // The browser's store is full: the server still gets the sketch.
      }
    } else sessionStorage.removeItem(this.path);
  }
}
