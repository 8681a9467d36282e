import type { Command } from 'commander';
import { argument, command, LISTED, loadCommands, nothing } from '../command.js';
import { wordArgument } from '../options.js';
import { writeOut } from '../output.js';

const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Prints a script that completes the command line. It holds every name, so that nothing is started. */
export default command({
  args: { shell: argument('the shell that completes', wordArgument('shell', SHELLS)) },
  help: `
  bash   tapekeep completion bash > ~/.local/share/bash-completion/completions/tapekeep
  zsh    tapekeep completion zsh > "\${fpath[1]}/_tapekeep"
  fish   tapekeep completion fish > ~/.config/fish/completions/tapekeep.fish

It completes commands, options, and values that are one of a few words, lists of them too; other values
as names of files.`,
  needs: nothing,
  async run(_, { shell }, made) {
    let root = made;
    while (root.parent !== null) root = root.parent;
    const places = placesOf(await loadCommands(root), '');
    await writeOut(SCRIPTS[shell](places));
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
  /** The commands below it, or the words that its arguments take. */
  readonly words: readonly Word[];
  readonly options: readonly (Word & {
    readonly takesValue: boolean;
    /** The words that it takes, where they are few. */
    readonly choices: readonly string[];
  })[];
}

function placesOf(one: Command, path: string): Place[] {
  const visible = one.createHelp();
  const children = visible.visibleCommands(one);
  const standard = children.filter((child) => LISTED.get(child)?.isStandard);
  const options = [
    ...[one, ...standard].flatMap((which) => visible.visibleOptions(which)),
    ...visible.visibleGlobalOptions(one),
  ];
  const siblings = visible.visibleCommands(one.parent ?? one).filter((some) => some !== one);
  const place: Place = {
    path,
    words: [
      ...(one.name() === 'help' ? siblings : children).map((child) => ({
        text: child.name(),
        about: child.description(),
      })),
      ...one.registeredArguments.flatMap(({ argChoices = [], description }) =>
        argChoices.map((text) => ({ text, about: description })),
      ),
    ],
    options: [...new Map(options.map((option) => [option.long, option])).values()].flatMap(
      ({ short, long, description, required, argChoices = [] }) =>
        [short, long]
          .filter((text) => text !== undefined)
          .map((text) => ({ text, about: description, takesValue: required, choices: argChoices })),
    ),
  };
  return [place, ...children.flatMap((child) => placesOf(child, `${path} ${child.name()}`.trim()))];
}

const textsOf = (words: readonly Word[]) => words.map(({ text }) => text).join(' ');

/**
 * Knows the place from the words before, and offers what may follow there. Where that is no word, the
 * shell completes files. Of `--option=value` bash makes three words and zsh one; lists grow at their end, by words
 * that they do not hold yet.
 */
function bashScript(places: readonly Place[]): string {
  const named = places.filter(({ path }) => path !== '').map(({ path }) => `"${path}"`);
  const lines = places.flatMap(({ path, words, options }) => [
    ...options
      .filter(({ takesValue }) => takesValue)
      .map(({ text, choices }) => `    "${path}|${text}") offered="${choices.join(' ')}" ;;`),
    `    "${path}|"*) offered="${textsOf(words)}" flags="${textsOf(options)}" ;;`,
  ]);
  return `_tapekeep() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
  local place="" next offered="" flags="" list="" held word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="\${place:+$place }\${COMP_WORDS[i]}"
    case "$next" in
      ${named.join('|')}) place="$next" ;;
    esac
  done
  if [[ "$current" == --*=* ]]; then before="\${current%%=*}" list="\${current%%=*}=" current="\${current#*=}"
  elif [[ "$current" == "=" ]]; then current=""
  elif [[ "$before" == "=" ]]; then before="\${COMP_WORDS[COMP_CWORD-2]}"
  fi
  case "$place|$before" in
${lines.join('\n')}
  esac
  if [[ "$current" == -* || -z "$offered" ]]; then offered="$flags"
  elif [[ "$current" == *,* ]]; then
    held="\${current%,*}" list+="\${current%,*},"
    for word in \${held//,/ }; do
      offered=" $offered "
      offered="\${offered/ $word / }"
    done
  fi
  COMPREPLY=($(compgen -P "$list" -W "$offered" -- "\${current##*,}"))
}
complete -o default -F _tapekeep tapekeep
`;
}

/** The shell takes what is written for bash. It runs the file at the first completion, as that function. */
function zshScript(places: readonly Place[]): string {
  return `#compdef tapekeep
autoload -U +X bashcompinit && bashcompinit
${bashScript(places)}[[ "\${funcstack[1]}" != _tapekeep ]] || _bash_complete -o default -F _tapekeep
`;
}

const quoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

function fishScript(places: readonly Place[]): string {
  const named = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  const lines = places.flatMap(({ path, words, options }) => {
    const start = `complete -c tapekeep -n ${quoted(`test (__tapekeep_place) = "${`tapekeep ${path}`.trim()}"`)}`;
    return [
      ...words.map(({ text, about }) => `${start} -f -a ${text} -d ${quoted(about)}`),
      ...options.map(({ text, about, takesValue, choices }) => {
        const name = text.startsWith('--') ? `-l ${text.slice(2)}` : `-s ${text.slice(1)}`;
        const value =
          choices.length > 0
            ? ` -x -a ${quoted(`(__tapekeep_words ${choices.join(' ')})`)}`
            : takesValue
              ? ' -r -F'
              : '';
        return `${start} ${name}${value} -d ${quoted(about)}`;
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
function __tapekeep_words
  set -l list (string match -r -- '^(?:--[^=]*=)?(.*,)' (commandline -ct))[2]
  for word in $argv
    contains -- $word (string split , -- $list); or echo "$list$word"
  end
end
${lines.join('\n')}
`;
}

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;
