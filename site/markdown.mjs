/** The anchor of a heading, in GitHub's form, so that one link works in the repository and on the site. */
export function slug(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

/** Renders ```mermaid blocks with the component in .vitepress/theme, which draws them in the browser. */
export function mermaidFences(md) {
  const other = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index];
    if (info.trim() !== "mermaid") return other(tokens, index, ...rest);
    return `<MermaidDiagram code="${encodeURIComponent(content)}" />\n`;
  };
}

/** Our pages are Markdown, not Vue templates: `{{x}}` in text or inline code is not interpolated. */
export function noInterpolation(md) {
  for (const rule of ["text", "code_inline"]) {
    const other = md.renderer.rules[rule];
    md.renderer.rules[rule] = (...given) => other(...given).replaceAll("{{", "&#123;&#123;");
  }
}
