/** Settings of accounts, keys and teams from the options of a command, and queries of lists. */
import { readFileSync } from 'node:fs'
import type { Settings } from '../server/admin/resources/settings.ts'
import { CommandError, type Arguments, type OptionSpecs } from './command.ts'
import { cell } from './output.ts'

/** The value that removes a setting. */
const NONE = 'none'

/** Readers of options, by the name of their value. Others are taken as they are. */
const READERS: Readonly<Record<string, (text: string, option: string) => unknown>> = {
  n: wholeNumber,
  'usd[/day|/month]': readCap,
  ids: (text) => text.split(',').map((id) => id.trim()),
  file: (path) => readPolicyFile(path),
  'on|off': readSwitch,
}

export function optionsOf(settings: Settings): OptionSpecs {
  return Object.fromEntries(
    Object.entries(settings).flatMap(([member, { option }]) => {
      if (!option) return []
      const { name, value, help } = option
      return [[name, { value, help, member, ...(value === 'date' && { time: 'later' as const }) }]]
    }),
  )
}

export function settingsIn({ text }: Arguments, settings: Settings): Record<string, unknown> {
  const changes = Object.entries(settings).flatMap(([member, { option }]) => {
    const value = option && text[option.name]
    if (value === undefined) return []
    const read = READERS[option!.value] ?? ((text) => text)
    return [[member, value === NONE ? null : read(value, `--${option!.name}`)]]
  })
  return { name: text.name, ...Object.fromEntries(changes) }
}

/** A change with the settings that options name. @throws CommandError if none is given */
export function changeIn(args: Arguments, settings: Settings, command: string): object {
  const change = settingsIn(args, settings)
  if (Object.values(change).some((value) => value !== undefined)) return change
  throw new CommandError(`Nothing to change: "${command} --help" lists the settings.`, 2)
}

/** The moment of an option; null for `none`. */
export function momentIn({ text }: Arguments, option: string): string | null | undefined {
  return text[option] === NONE ? null : text[option]
}

/** @throws CommandError where an option is missing that a command needs */
export function required({ text }: Arguments, option: string, why: string): string {
  const value = text[option]
  if (value) return value
  throw new CommandError(`${why}: --${option} <text> is required.`, 2)
}

function wholeNumber(text: string, option: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new CommandError(
    `${option} takes a whole number or "none", not ${JSON.stringify(text)}.`,
    2,
  )
}

function readSwitch(text: string, option: string): boolean {
  if (text === 'on' || text === 'off') return text === 'on'
  throw new CommandError(`${option} takes "on", "off" or "none", not ${JSON.stringify(text)}.`, 2)
}

function readCap(text: string): { usd: string; scope: string } {
  const [usd = '', scope = 'lifetime'] = text.split('/')
  return { usd, scope }
}

/** A policy from a JSON file; "none" is the one that forbids nothing. @throws CommandError */
export function readPolicyFile(path: string): unknown {
  if (path === NONE) return { version: 1 }
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    const reason = error instanceof SyntaxError ? 'it is not JSON' : (error as Error).message
    throw new CommandError(`The policy cannot be read from ${path}: ${reason}.`, 2)
  }
}

export function shown(value: unknown): unknown {
  if (JSON.isRawJSON(value)) return value
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}

/** A path with the values of options as its query; those of lists are separated by commas. */
export function withQuery(
  path: string,
  { text }: Pick<Arguments, 'text'>,
  names: readonly string[],
  more = {},
): string {
  const query = new URLSearchParams(more)
  for (const name of names) {
    for (const value of text[name]?.split(',') ?? []) query.append(name.replace('-', '_'), value)
  }
  return query.size === 0 ? path : `${path}?${query}`
}

/** The limits of an object in words, such as `5 USD a week, 40000 tokens a minute for anthropic/*`. */
export function limitsOf({ limits }: any): string {
  const words = (limits ?? []).map(({ unit, window, value, models }: any) => {
    const per = window && window !== 'lifetime' ? [window === '5h' ? 'per 5h' : `a ${window}`] : []
    const whose = models ? [`for ${models.join(' ')}`] : []
    const noun = { usd: 'USD', concurrent: 'at once' }[unit as string] ?? unit
    return [cell(value), noun, ...per, ...whose].join(' ')
  })
  return words.join(', ') || '-'
}

/** Unit and window of a name such as `cap.week`. @throws CommandError */
export function limitKind(name: string) {
  const [head = '', window] = name.split('.')
  if (name === 'rpm') return { unit: 'requests', window: 'minute' }
  if (name === 'concurrency') return { unit: 'concurrent' }
  const unit = { cap: 'usd', requests: 'requests', tokens: 'tokens' }[head]
  if (unit && window) return { unit, window }
  throw new CommandError(
    `Name the limit as rpm, concurrency, cap.<window>, requests.<window> or tokens.<window>, not ${JSON.stringify(name)}.`,
    2,
  )
}
