export interface Completed {
  readonly name: string;
  readonly description: string;
  readonly options: readonly string[];
  /** Subcommands and fixed values of arguments; files are always completed. */
  readonly words: readonly string[];
  /** The values of each option that has a fixed list. */
  readonly choices: Readonly<Record<string, readonly string[]>>;
}

/** Each script completes commands, options, option values from fixed lists, fixed words, and file names. */
export const completions = { bash, zsh, fish } as const;

/** Separates words by line breaks, so that file names may contain spaces. */
function bash(commands: readonly Completed[]): string {
  const lines = (words: readonly string[]) => `$'${words.join("\\n")}'`;
  const cases = commands.flatMap(({ name, options, words, choices }) => [
    ...Object.entries(choices).map(([option, of]) => `    "${name} ${option}") words=${lines(of)}; files= ;;`),
    `    "${name} "*) words=${lines([...options, ...words])} ;;`,
  ]);
  const names = commands.map(({ name }) => name);
  return `_onceflow() {
  local IFS=$'\\n' current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" words="" files=1
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${lines([...names, "help", "--help", "--version"])} -- "$current"))
    return
  fi
  case "\${COMP_WORDS[1]} $before" in
${cases.join("\n")}
    "help "*) words=${lines(names)}; files= ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ -z "$files" ] || COMPREPLY+=($(compgen -f -- "$current"))
}
complete -o filenames -F _onceflow onceflow
`;
}

function zsh(commands: readonly Completed[]): string {
  const names = commands.map(({ name, description }) => `    '${name}:${description.replaceAll(":", "\\:")}'`);
  const cases = commands.flatMap(({ name, options, words, choices }) => [
    ...Object.entries(choices).map(([option, of]) => `    "${name} ${option}") compadd -- ${of.join(" ")} ;;`),
    `    "${name} "*) compadd -- ${[...options, ...words].join(" ")}; _files ;;`,
  ]);
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
  case "\${words[2]} \${words[CURRENT-1]}" in
${cases.join("\n")}
    "help "*) _describe command commands ;;
  esac
}
compdef _onceflow onceflow
`;
}

function fish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name, description, options, words, choices }) => {
    const within = `complete -c onceflow -n '__fish_seen_subcommand_from ${name}'`;
    return [
      `complete -c onceflow -n __fish_use_subcommand -f -a ${name} -d '${description}'`,
      ...options.map((option) => `${within} -l ${option.slice(2)}${choices[option] ? ` -x -a '${choices[option].join(" ")}'` : ""}`),
      ...(words.length > 0 ? [`${within} -a '${words.join(" ")}'`] : []),
    ];
  });
  return `${lines.join("\n")}\n`;
}
