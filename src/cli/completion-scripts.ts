export interface Completed {
  readonly name: string;
  readonly description: string;
  readonly options: readonly string[];
  /** What its arguments may be, besides files. */
  readonly words: readonly string[];
}

/** Each completes commands, options and fixed words, and files otherwise. */
export const completions = { bash, zsh, fish } as const;

function bash(commands: readonly Completed[]): string {
  const cases = commands.map(({ name, options, words }) => `    ${name}) words="${[...options, ...words].join(" ")}" ;;`);
  return `_onceflow() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(" ")} --help --version" -- "$current"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}
complete -o filenames -F _onceflow onceflow
`;
}

function zsh(commands: readonly Completed[]): string {
  const names = commands.map(({ name, description }) => `    '${name}:${description.replaceAll(":", "\\:")}'`);
  const cases = commands.map(({ name, options, words }) => `    ${name}) compadd -- ${[...options, ...words].join(" ")}; _files ;;`);
  return `#compdef onceflow
_onceflow() {
  local -a commands
  commands=(
${names.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "\${words[2]}" in
${cases.join("\n")}
  esac
}
compdef _onceflow onceflow
`;
}

function fish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name, description, options, words }) => [
    `complete -c onceflow -n __fish_use_subcommand -f -a ${name} -d '${description}'`,
    ...options.map((option) => `complete -c onceflow -n '__fish_seen_subcommand_from ${name}' -l ${option.slice(2)}`),
    ...(words.length > 0 ? [`complete -c onceflow -n '__fish_seen_subcommand_from ${name}' -a '${words.join(" ")}'`] : []),
  ]);
  return `${lines.join("\n")}\n`;
}
