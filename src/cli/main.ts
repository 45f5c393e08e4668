/** Finds the command, parses its options, runs it, and prints errors. */
import { parseArgs } from 'node:util'
import { nearest } from '../errors/nearest.ts'
import {
  CommandError,
  type Arguments,
  type Command,
  type Group,
  type OptionSpecs,
} from './command.ts'
import { failed } from './fatal.ts'
import { PROGRAM, usageOf } from './help.ts'
import { HEALTH } from './health-command.ts'
import { SHARED } from './asked.ts'
import { withCommand } from './default-command.ts'

/** An argument, although it begins as an option does: no option is a number. */
const NEGATIVE = /^-\d+(\.\d+)?$/
const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }
const DAY_MS = 86_400_000
/** Options of which one command takes one. */
const EXCLUSIVE = [
  ['json', 'csv'],
  ['data', 'url'],
  ['data', 'token'],
  ['limit', 'all'],
  ['for', 'seconds'],
  ['cases', 'input'],
  ['cases', 'output'],
] as const
const HELP: ReadonlySet<string> = new Set(['help', '--help', '-h'])

/**
 * Runs the command line.
 * @returns the exit status: 0 for success, 1 for a failure, 2 for wrong arguments, 74 when settlements are only in the log
 */
export async function main(line: readonly string[]): Promise<number> {
  const argv = withCommand(line)
  const isJson = argv.includes('--json')
  // The reader of the output may close the pipe, as `head` does; a gateway has to continue.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  try {
    const wantsHelp = argv.some((word) => HELP.has(word))
    const end = argv.findIndex((word) => word.startsWith('-'))
    const words = argv.slice(0, end < 0 ? argv.length : end).filter((word) => !HELP.has(word))
    if (words[0] === HEALTH.name && !wantsHelp) {
      await HEALTH.run(argumentsOf(HEALTH, argv.slice(1)))
      return 0
    }
    const { GROUPS, COMMANDS } = await import('./commands.ts')
    if (wantsHelp) {
      const { say } = await import('./output.ts')
      const { overview } = await import('./help.ts')
      say(
        words.length === 0
          ? overview(GROUPS, argv.includes('--all'))
          : await helpFor(words, GROUPS),
      )
      return 0
    }
    const command = commandOf(words, COMMANDS)
    const args = argumentsOf(command, argv.slice(command.name.split(' ').length))
    const { page } = await import('./output.ts')
    page.isWide = args.on.has('wide')
    await command.run(args)
    return 0
  } catch (error) {
    return failed(error, isJson)
  }
}

/** The help of a command, or of a family such as `keys`. */
async function helpFor(words: readonly string[], groups: readonly Group[]): Promise<string> {
  const { helpOf } = await import('./help.ts')
  const [word = ''] = words
  const isOf = ({ name }: Command) => name === word || name.startsWith(`${word} `)
  const group = groups.find(({ commands }) => commands.some(isOf)) ?? groups[0]!
  const isFamily = words.length === 1 && !group.commands.some(({ name }) => name === word)
  const all = groups.flatMap(({ commands }) => commands)
  const isKnown = isFamily && group.commands.some(isOf)
  // A family such as `ledger` has commands in several groups.
  return helpOf(word, isKnown ? undefined : commandOf(words, all), { ...group, commands: all })
}

function commandOf(words: readonly string[], commands: readonly Command[]): Command {
  const [first = '', second = ''] = words
  const command =
    commands.find(({ name }) => name === `${first} ${second}`) ??
    commands.find(({ name }) => name === first)
  if (command) return command
  const family = commands.filter(({ name }) => name.startsWith(`${first} `))
  if (family.length > 0) {
    const verbs = family.map(({ name }) => name.slice(first.length + 1))
    const meant = nearest(second, verbs)
    const wrong = second ? `"${first}" has no command "${second}"` : `"${first}" needs a command`
    const hint = meant ? `did you mean "${first} ${meant}"?` : `it has ${verbs.join(', ')}.`
    throw new CommandError(`${wrong}; ${hint}`, 2)
  }
  const meant = nearest(first, new Set(commands.map(({ name }) => name.split(' ')[0]!)))
  const hint = meant ? `did you mean "${meant}"?` : `"${PROGRAM} --help" lists the commands.`
  throw new CommandError(`There is no command "${first}"; ${hint}`, 2)
}

function argumentsOf(command: Command, argv: readonly string[]): Arguments {
  const specs = { ...command.options, ...SHARED }
  const { tokens } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      Object.entries(specs).map(([name, { value, optional }]) => [
        name,
        { type: value && !optional ? ('string' as const) : ('boolean' as const) },
      ]),
    ),
    allowPositionals: true,
    strict: false,
    tokens: true,
  })
  const positionals: string[] = []
  const text: Record<string, string> = {}
  const all: Record<string, string[]> = {}
  const on = new Set<string>()
  const negatives = new Set<number>()
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    if (NEGATIVE.test(argv[token.index]!)) {
      // The parser gives a token for each character.
      if (!negatives.has(token.index)) positionals.push(argv[token.index]!)
      negatives.add(token.index)
      continue
    }
    const spec = Object.hasOwn(specs, token.name) ? specs[token.name] : undefined
    if (!spec) throw unknownOption(token.rawName, specs)
    if (spec.optional) {
      on.add(token.name)
      if (token.value !== undefined) text[token.name] = token.value
    } else if (!spec.value) {
      if (token.value !== undefined) throw new CommandError(`${token.rawName} takes no value.`, 2)
      on.add(token.name)
    } else if (token.value === undefined || (!token.inlineValue && token.value.startsWith('--'))) {
      throw new CommandError(`${token.rawName} needs a value: ${token.rawName} <${spec.value}>`, 2)
    } else {
      text[token.name] = timed(token.value, token.rawName, spec.time)
      ;(all[token.name] ??= []).push(token.value)
    }
  }
  const isGiven = (name: string) => on.has(name) || text[name] !== undefined
  const both = EXCLUSIVE.find((pair) => pair.every(isGiven))
  if (both) {
    throw new CommandError(`--${both[0]} and --${both[1]} exclude each other: give one of them.`, 2)
  }
  const names = command.arguments ?? []
  if (positionals.length < names.length) {
    const missing = names.slice(positionals.length).map((name) => `<${name}>`)
    throw new CommandError(`Missing ${missing.join(' and ')}.\nUsage: ${usageOf(command)}`, 2)
  }
  const further = command.repeated ? Infinity : command.optional === undefined ? 0 : 1
  const most = names.length + further
  if (positionals.length > most) {
    const extra = JSON.stringify(positionals[most])
    throw new CommandError(`${extra} is one argument too many.\nUsage: ${usageOf(command)}`, 2)
  }
  return { positionals, text, all, on }
}

/** The text of a time as the admin API takes it. @throws CommandError */
function timed(text: string, option: string, time: OptionSpecs[string]['time']): string {
  if (time === undefined) return text
  return time === 'length' ? String(secondsOf(text, option)) : momentOf(text, option, time)
}

function unknownOption(rawName: string, specs: OptionSpecs): CommandError {
  const names = Object.keys(specs)
  const meant = nearest(rawName.replace(/^-+/, ''), names)
  const hint = meant
    ? `did you mean --${meant}?`
    : `there are ${names.map((name) => `--${name}`).join(', ')}.`
  return new CommandError(`There is no option ${rawName}; ${hint}`, 2)
}

// The one reader of times: lengths such as `7d`, and moments.

/** @throws CommandError for a text that is no length */
function secondsOf(text: string, option: string): number {
  const seconds = lengthOf(text)
  if (seconds !== undefined) return seconds
  const message = `${option} takes a length such as 30s, 15m, 12h, 7d or 4w, not ${JSON.stringify(text)}.`
  throw new CommandError(message, 2)
}

/**
 * A moment as ISO 8601; "none" stays as it is.
 * @param side whether a length means from now on, or before now
 * @throws CommandError for a text that is neither
 */
function momentOf(text: string, option: string, side: 'later' | 'ago'): string {
  if (text === 'none') return text
  const now = Date.now()
  // A number alone is no time from now: one that means days would end a key in seconds.
  const seconds = /^\d+$/.test(text) ? undefined : lengthOf(text)
  if (seconds !== undefined) {
    return new Date(now + (side === 'ago' ? -1000 : 1000) * seconds).toISOString()
  }
  const today = now - (now % DAY_MS)
  const words: Readonly<Record<string, number>> = {
    now,
    today,
    yesterday: today - DAY_MS,
    tomorrow: today + DAY_MS,
  }
  if (Object.hasOwn(words, text)) return new Date(words[text]!).toISOString()
  const isMonth = /^\d{4}-\d\d$/.test(text)
  const isDay = /^\d{4}-\d\d-\d\d$/.test(text)
  const isMoment = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$/.test(text)
  const whole = isMonth ? `${text}-01T00:00:00Z` : isDay ? `${text}T00:00:00Z` : text
  const at = new Date(/(Z|[+-]\d\d:\d\d)$/.test(whole) ? whole : `${whole}Z`)
  const isReal = !isDay || at.toJSON()?.startsWith(text)
  if ((isMonth || isDay || isMoment) && isReal && !Number.isNaN(at.getTime())) {
    return isMoment ? text : at.toISOString()
  }
  const near = side === 'ago' ? ', today or yesterday' : ' or tomorrow'
  const length =
    side === 'ago' ? 'back from now such as 12h or 7d' : 'from now on such as 12h or 30d'
  throw new CommandError(
    `${option} takes a moment such as 2027-01-31, 2027-01-31T08:00:00Z${near}, or a length ${length}, not ${JSON.stringify(text)}.`,
    2,
  )
}

function lengthOf(text: string): number | undefined {
  const [, digits, unit = 's'] = /^(\d{1,9})([smhdw])?$/.exec(text) ?? []
  return digits === undefined ? undefined : Number(digits) * SECONDS[unit]!
}
