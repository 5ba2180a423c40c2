import type { WriteStream } from "node:tty";

/**
 * Shows frames on the alternate screen of a terminal: each frame replaces the one before in one write, without clearing the screen first, so that nothing flickers.
 * `close` brings back the screen and the cursor as they were; so does the end of the process.
 */
export class Screen {
  readonly #out: WriteStream;
  readonly #restore = (): void => {
    this.#out.write(`${syncEnd}${cursorShown}${mainScreen}`);
  };
  #open = true;

  constructor(out: WriteStream, onResize: () => void) {
    this.#out = out;
    out.write(`${alternateScreen}${cursorHidden}`);
    process.on("exit", this.#restore);
    out.on("resize", onResize);
    this.#onResize = onResize;
  }

  readonly #onResize: () => void;

  get columns(): number {
    return this.#out.columns || 80;
  }

  get rows(): number {
    return this.#out.rows || 24;
  }

  /** Lines that do not fit are left out: the caller says so in one of the others. */
  draw(lines: readonly string[]): void {
    if (!this.#open) return;
    const text = lines.slice(0, this.rows).map((line) => `${line}${clearToEndOfLine}`);
    this.#out.write(`${syncBegin}${home}${text.join("\r\n")}${clearBelow}${syncEnd}`);
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    process.off("exit", this.#restore);
    this.#out.off("resize", this.#onResize);
    this.#restore();
  }
}

const [alternateScreen, mainScreen] = ["\u001b[?1049h", "\u001b[?1049l"];
const [cursorHidden, cursorShown] = ["\u001b[?25l", "\u001b[?25h"];
/** The terminal shows what is between these at once. Terminals that do not know them ignore them. */
const [syncBegin, syncEnd] = ["\u001b[?2026h", "\u001b[?2026l"];
const home = "\u001b[H";
const clearToEndOfLine = "\u001b[K";
const clearBelow = "\u001b[J";
