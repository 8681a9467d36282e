import type { Command } from 'commander';
import { argument, command, loadCommands, nothing } from '../command.js';
import { oneOf } from '../options.js';
import { writeOut } from '../output.js';

const HELP = `
  bash   tapekeep completion bash > ~/.local/share/bash-completion/completions/tapekeep
  zsh    tapekeep completion zsh > "\${fpath[1]}/_tapekeep"
  fish   tapekeep completion fish > ~/.config/fish/completions/tapekeep.fish

It completes commands, options, and the words of options that take one of a few; else names of files.`;

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Prints a script that completes the command line. It holds every name, so that nothing is started. */
export default command({
  args: { shell: argument('bash, zsh or fish', (text) => oneOf(text, 'shell', SHELLS)) },
  help: HELP,
  needs: nothing,
  async run(_, { shell }, made) {
    let root = made;
    while (root.parent !== null) root = root.parent;
    const places = placesOf(await loadCommands(root), '');
    await writeOut(SCRIPTS[shell](places));
    return undefined;
  },
});

interface Word {
  readonly text: string;
  readonly about: string;
}

/** What may follow the names of commands. */
interface Place {
  /** `gaps fill`; empty for the program itself. */
  readonly path: string;
  readonly commands: readonly Word[];
  readonly options: readonly Word[];
  /** By option, the words that it takes. */
  readonly choices: ReadonlyMap<string, readonly string[]>;
}

function placesOf(one: Command, path: string): Place[] {
  const visible = one.createHelp();
  const options = [...visible.visibleOptions(one), ...visible.visibleGlobalOptions(one)];
  const children = visible.visibleCommands(one);
  const textsOf = (option: (typeof options)[number]) =>
    [option.short, option.long].filter((text) => text !== undefined);
  const place: Place = {
    path,
    commands: children.map((child) => ({ text: child.name(), about: child.description() })),
    options: options.flatMap((option) =>
      textsOf(option).map((text) => ({ text, about: option.description })),
    ),
    choices: new Map(
      options.flatMap((option) =>
        textsOf(option).flatMap((text) =>
          option.argChoices === undefined ? [] : [[text, option.argChoices] as const],
        ),
      ),
    ),
  };
  return [place, ...children.flatMap((child) => placesOf(child, `${path} ${child.name()}`.trim()))];
}

const textsOf = (words: readonly Word[]) => words.map(({ text }) => text).join(' ');

/** Knows the place from the words before, and offers what may follow there. */
function bashScript(places: readonly Place[]): string {
  const named = places.filter(({ path }) => path !== '').map(({ path }) => `"${path}"`);
  const lines = places.flatMap(({ path, commands, options, choices }) => [
    ...[...choices].map(
      ([option, words]) => `    "${path}|${option}") words="${words.join(' ')}" ;;`,
    ),
    `    "${path}|"*) words="${textsOf([...commands, ...options])}" ;;`,
  ]);
  return `_tapekeep() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" path="" next words i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="\${path:+$path }\${COMP_WORDS[i]}"
    case "$next" in
      ${named.join('|')}) path="$next" ;;
    esac
  done
  case "$path|$before" in
${lines.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _tapekeep tapekeep
`;
}

/** The shell takes what is written for bash. */
function zshScript(places: readonly Place[]): string {
  return `#compdef tapekeep
autoload -U +X bashcompinit && bashcompinit
${bashScript(places)}`;
}

const quoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

function fishScript(places: readonly Place[]): string {
  const named = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  const lines = places.flatMap(({ path, commands, options, choices }) => {
    const start = `complete -c tapekeep -n ${quoted(`test (__tapekeep_place) = "${`tapekeep ${path}`.trim()}"`)}`;
    return [
      ...commands.map(({ text, about }) => `${start} -a ${text} -d ${quoted(about)}`),
      ...options.map(({ text, about }) => {
        const words = choices.get(text);
        const name = text.startsWith('--') ? `-l ${text.slice(2)}` : `-s ${text.slice(1)}`;
        const takes = words === undefined ? '' : ` -x -a ${quoted(words.join(' '))}`;
        return `${start} ${name}${takes} -d ${quoted(about)}`;
      }),
    ];
  });
  return `function __tapekeep_place
  set -l place ''
  for word in (commandline -opc)[2..]
    set -l next (string trim -- "$place $word")
    if contains -- $next ${named.join(' ')}
      set place $next
    end
  end
  string trim -- "tapekeep $place"
end
${lines.join('\n')}
`;
}

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;
