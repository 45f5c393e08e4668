/** The help of the program and of its commands, and the completion of a shell: both are made from the table. */
import { CommandError, type Command, type Group, type OptionSpecs } from './command.ts'
import { SHARED, REMOTE } from './asked.ts'
import { padded, size, styled, width, wrapped } from './output.ts'

export const PROGRAM = 'sluicegate'
const MANUAL = `${PROGRAM} docs`
const EXAMPLES = [
  'keys create local --name laptop --cap 5/month',
  'requests list --status 5xx --from 7d',
  'usage --by key,model --from 30d',
]

/** Options that many commands take; they are one paragraph at the end of their help. */
const COMMON: ReadonlySet<string> = new Set(['csv', ...Object.keys({ ...REMOTE, ...SHARED })])

/** The groups with a line for each noun, on one screen of 80 columns and 40 rows; with all, every command. */
export function overview(groups: readonly Group[], all: boolean): string {
  return [
    `${PROGRAM}: a gateway in front of model vendors. Without a command it starts.\n\n`,
    all
      ? groups
          .map(({ name, commands }) => {
            const rows = commands.map((one) => [usageOf(one, ''), one.help] as const)
            return `${styled('bold', name)}\n${columns(rows)}`
          })
          .join('\n')
      : groups.map(nouns).join(''),
    `\nExamples\n${EXAMPLES.map((one) => `  ${PROGRAM} ${one}\n`).join('')}`,
    `More: "<command> --help", "--help --all" for every command, "${MANUAL}".\n`,
  ].join('')
}

/** A group: short nouns beside its name, and a line for each noun with more than two commands. */
function nouns({ name, commands }: Group): string {
  const byNoun = Map.groupBy(commands, (one) => one.name.split(' ')[0]!)
  const all = [...byNoun].map(([noun, of]) => {
    const verbs = of.flatMap((one) => one.name.slice(noun.length + 1) || [])
    return { noun, verbs, isShort: of.length < 3 }
  })
  const short = all.filter(({ isShort }) => isShort)
  const beside = short.map(({ noun, verbs }) => `${noun} ${verbs.join('/')}`.trimEnd()).join(', ')
  const others = all.filter(({ isShort }) => !isShort)
  const rows = [...Map.groupBy(others, ({ verbs }) => verbs.join(' '))].map(
    ([verbs, of]) => [of.map(({ noun }) => noun).join(', '), verbs] as const,
  )
  return `${styled('bold', name)}${beside && `: ${beside}`}\n${columns(rows)}`
}

/** The help of a command, and the commands that begin with its word; or the commands of a family such as `keys`. */
export function helpOf(
  word: string,
  command: Command | undefined,
  { commands, page }: Group,
): string {
  const family = commands.filter(({ name }) => name.startsWith(`${word} `))
  const related = family.map((one) => [usageOf(one, ''), one.help] as const)
  const manual = `\nMore: ${MANUAL} ${page}\n`
  if (!command)
    return `Usage: ${PROGRAM} ${word} <command> [options]\n\n${columns(related)}${manual}`
  const options = Object.entries({ ...command.options, ...SHARED }) as [
    string,
    OptionSpecs[string],
  ][]
  const own = options.filter(([name]) => !COMMON.has(name)).map(optionLine)
  const common = options.filter(([name]) => COMMON.has(name)).map(optionLine)
  const { example } = command
  return [
    `${command.help}\n\nUsage: ${usageOf(command)} [options]\n`,
    own.length > 0 ? `\nOptions:\n${columns(own)}` : '',
    command.name === word && family.length > 0 ? `\nRelated commands:\n${columns(related)}` : '',
    example === undefined ? '' : `\nExample:\n  ${PROGRAM} ${example}`,
    manual,
    `\nCommon options:\n${columns(common)}`,
  ].join('')
}

function optionLine([name, { value, optional, help }]: [string, OptionSpecs[string]]) {
  const shown = value && (optional ? `[=<${value}>]` : ` <${value}>`)
  return [`--${name}${shown ?? ''}`, help] as const
}

export function usageOf(command: Command, program = `${PROGRAM} `): string {
  const names = (command.arguments ?? []).map((name) => ` <${name}>`)
  const last =
    command.optional === undefined ? '' : ` [${command.optional}]${command.repeated ? '…' : ''}`
  return `${program}${command.name}${names.join('')}${last}`
}

/** The widest left column that keeps the right one beside it. */
const MOST_LEFT = 34

function columns(rows: readonly (readonly [string, string])[]): string {
  const room = width()
  const fitting = rows.map(([left]) => size(left)).filter((one) => one <= MOST_LEFT)
  const left = Math.max(0, ...fitting)
  return rows
    .map(([name, text]) => {
      const beside = size(name) <= left || text === ''
      const head = beside ? `  ${padded(name, left)}  ` : `  ${name}\n${' '.repeat(left + 4)}`
      return wrapped(`${head}${text}`.trimEnd(), room, left + 4)
    })
    .map((line) => `${line}\n`)
    .join('')
}

/** The words of a name such as `on|off`; none where it stands for any text. */
function fixedValues(name = ''): readonly string[] {
  return /^[\w.-]+(?:\|[\w.-]+)+$/.test(name) ? name.split('|') : []
}

/** A script that completes commands and options, without a start of the program. @throws CommandError for another shell */
export function completion(shell: string, commands: readonly Command[]): string {
  if (shell !== 'bash' && shell !== 'zsh') {
    throw new CommandError(
      `There is a completion for bash and for zsh, not ${JSON.stringify(shell)}.`,
      2,
    )
  }
  const words = new Map<string, Set<string>>()
  const put = (at: string, word: string) => {
    if (!words.has(at)) words.set(at, new Set())
    words.get(at)!.add(word)
  }
  for (const { name, options, arguments: names = [] } of commands) {
    const [noun = '', verb] = name.split(' ')
    put('', noun)
    if (verb !== undefined) put(noun, verb)
    for (const value of fixedValues(names[0])) put(name, value)
    for (const [option, { value }] of Object.entries({ ...options, ...SHARED })) {
      put(name, `--${option}`)
      for (const one of fixedValues(value)) put(`--${option}`, one)
    }
    put(name, '--help')
  }
  // A line for each noun with several commands, one for the others, and one for fixed values.
  const lineOf = ([at]: [string, unknown]) => {
    const [noun = ''] = at.split(' ')
    const isFamily = commands.some(({ name }) => name.startsWith(`${noun} `))
    return at.startsWith('--') ? '--' : isFamily ? noun : ''
  }
  const cases = [...Map.groupBy(words, lineOf).values()].map((of) =>
    of.map(([at, all]) => `"${at}") words="${[...all].join(' ')}" ;;`).join(' '),
  )
  return [
    ...(shell === 'zsh'
      ? [
          '(( ${+functions[compdef]} )) || { autoload -U compinit && compinit }; autoload -U +X bashcompinit && bashcompinit',
        ]
      : []),
    `_${PROGRAM}() {`,
    '  local cur="${COMP_WORDS[COMP_CWORD]}" one="${COMP_WORDS[1]}" two="${COMP_WORDS[1]} ${COMP_WORDS[2]}" at',
    `  local values="$(_${PROGRAM}_words "\${COMP_WORDS[COMP_CWORD-1]}")"`,
    '  if [[ "${COMP_WORDS[COMP_CWORD-1]}" == --* && -n "$values" ]]; then',
    '    COMPREPLY=( $(compgen -W "$values" -- "$cur") ); return',
    '  fi',
    '  if [ "$COMP_CWORD" -eq 1 ]; then at=""',
    '  elif [ "$COMP_CWORD" -eq 2 ]; then at="$one"',
    '  else at="$two"; fi',
    `  COMPREPLY=( $(compgen -W "$(_${PROGRAM}_words "$at") $(_${PROGRAM}_words "$one")" -- "$cur") )`,
    '}',
    `_${PROGRAM}_words() {`,
    '  local words=""',
    '  case "$1" in',
    ...cases,
    '  esac',
    '  echo "$words"',
    '}',
    `complete -o default -F _${PROGRAM} ${PROGRAM}`,
    '',
  ].join('\n')
}
