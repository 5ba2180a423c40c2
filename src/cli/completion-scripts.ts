export interface Completed {
  readonly name: string;
  readonly description: string;
  readonly options: readonly CompletedOption[];
  /** Fixed values of arguments; files are always completed. */
  readonly words: readonly string[];
  /** Subcommands. */
  readonly commands: readonly Completed[];
}

interface CompletedOption {
  /** With its dashes. */
  readonly name: string;
  readonly description: string;
  readonly takesValue: boolean;
  /** All values, if they are a fixed list. */
  readonly choices: readonly string[];
}

/** Each script completes commands, subcommands, options, option values from fixed lists, fixed words, and file names. */
export const completions = { bash, zsh, fish } as const;

/** A command and the words that lead to it: `runs list`. */
interface Place {
  readonly path: string;
  readonly command: Completed;
}

/** Subcommands come before the command that has them: the first pattern that matches counts. */
function placesOf(commands: readonly Completed[], before = ""): Place[] {
  return commands.flatMap((command) => {
    const path = `${before}${command.name}`;
    return [...placesOf(command.commands, `${path} `), { path, command }];
  });
}

/** Patterns for the paths of subcommands: `"runs list"|"runs show"`. */
const subcommandPaths = (commands: readonly Completed[]): string =>
  placesOf(commands)
    .filter(({ path }) => path.includes(" "))
    .map(({ path }) => `"${path}"`)
    .join("|");

const optionNames = ({ options }: Completed): string[] => [...options.map(({ name }) => name), "--help"];
const wordsOf = ({ commands, words }: Completed): string[] => [...commands.map(({ name }) => name), ...words];

/** Separates words by line breaks, so that file names may contain spaces. */
function bash(commands: readonly Completed[]): string {
  const lines = (words: readonly string[]) => `$'${words.join("\\n")}'`;
  const cases = placesOf(commands).flatMap(({ path, command }) => [
    ...valueCases(path, command, (choices) => (choices.length > 0 ? `words=${lines(choices)}; files=` : "words=")),
    `    "${path} "*) words=${lines([...optionNames(command), ...wordsOf(command)])} ;;`,
  ]);
  const names = commands.map(({ name }) => name);
  return `_onceflow() {
  local IFS=$'\\n' current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" path="\${COMP_WORDS[1]}" words="" files=1
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${lines([...names, "help", "--help", "--version"])} -- "$current"))
    return
  fi
  if [ "$COMP_CWORD" -gt 2 ]; then
    case "$path \${COMP_WORDS[2]}" in
      ${subcommandPaths(commands)}) path="$path \${COMP_WORDS[2]}" ;;
    esac
  fi
  case "$path $before" in
${cases.join("\n")}
    "help "*) words=${lines(names)}; files= ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ -z "$files" ] || COMPREPLY+=($(compgen -f -- "$current"))
}
complete -o filenames -F _onceflow onceflow
`;
}

/** What follows an option that takes a value: one of its choices, or a file name. */
function valueCases(path: string, { options }: Completed, then: (choices: readonly string[]) => string): string[] {
  return options.filter(({ takesValue }) => takesValue).map(({ name, choices }) => `    "${path} ${name}") ${then(choices)} ;;`);
}

function zsh(commands: readonly Completed[]): string {
  const described = ({ name, description }: Completed) => `'${name}:${description.replaceAll(":", "\\:")}'`;
  const cases = placesOf(commands).flatMap(({ path, command }) => [
    ...valueCases(path, command, (choices) => (choices.length > 0 ? `compadd -- ${choices.join(" ")}` : "_files")),
    `    "${path} "*) compadd -- ${[...optionNames(command), ...wordsOf(command)].join(" ")}; _files ;;`,
  ]);
  return `#compdef onceflow
_onceflow() {
  local -a commands
  local place="\${words[2]}"
  commands=(
${commands.map((command) => `    ${described(command)}`).join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  if (( CURRENT > 3 )); then
    case "$place \${words[3]}" in
      ${subcommandPaths(commands)}) place="$place \${words[3]}" ;;
    esac
  fi
  case "$place \${words[CURRENT-1]}" in
${cases.join("\n")}
    "help "*) _describe command commands ;;
  esac
}
compdef _onceflow onceflow
`;
}

function fish(commands: readonly Completed[]): string {
  const lines = commands.flatMap((command) => [
    `complete -c onceflow -n __fish_use_subcommand -f -a ${command.name} -d '${command.description}'`,
    ...fishLines(command, `__fish_seen_subcommand_from ${command.name}`),
  ]);
  return `${lines.join("\n")}\n`;
}

function fishLines({ options, words, commands }: Completed, seen: string): string[] {
  const names = commands.map(({ name }) => name).join(" ");
  const here = `complete -c onceflow -n '${seen}${names === "" ? "" : `; and not __fish_seen_subcommand_from ${names}`}'`;
  return [
    ...options.map(({ name, description, takesValue, choices }) => {
      const value = choices.length > 0 ? ` -x -a '${choices.join(" ")}'` : takesValue ? " -r" : "";
      return `${here} -l ${name.slice(2)}${value} -d '${description}'`;
    }),
    ...(words.length > 0 ? [`${here} -a '${words.join(" ")}'`] : []),
    ...commands.map(({ name, description }) => `${here} -f -a ${name} -d '${description}'`),
    ...commands.flatMap((command) => fishLines(command, `${seen}; and __fish_seen_subcommand_from ${command.name}`)),
  ];
}
