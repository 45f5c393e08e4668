/** Settings of accounts and keys from the options of a command, and how they are printed. */
import { readFileSync } from 'node:fs'
import type { Settings } from '../server/admin/resources/settings.ts'
import { CommandError, type Arguments } from './command.ts'
import { card } from './output.ts'

/** The value that removes a setting. */
const NONE = 'none'

/** Readers of options, by the name of their value. Others are taken as they are. */
const READERS: Readonly<Record<string, (text: string, option: string) => unknown>> = {
  n: wholeNumber,
  'usd[/day|/month]': readCap,
  ids: (text) => text.split(',').map((id) => id.trim()),
  file: readPolicyFile,
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

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** @throws CommandError for a text that is not a number of seconds, nor one with s, m, h or d */
export function secondsOf(text: string, option: string): number {
  const [, digits, unit = 's'] = /^(\d{1,9})([smhd])?$/.exec(text) ?? []
  if (digits !== undefined) return Number(digits) * SECONDS[unit]!
  const message = `${option} takes a time such as 7d, 12h or 3600, not ${JSON.stringify(text)}.`
  throw new CommandError(message, 2)
}

/** The moment of an option: a date, or a time from now on such as `30d`; null for `none`. */
export function momentIn({ text }: Arguments, option: string): string | null | undefined {
  const value = text[option]
  if (value === undefined || !/^\d+[smhd]?$/.test(value)) return value === NONE ? null : value
  return new Date(Date.now() + secondsOf(value, `--${option}`) * 1000).toISOString()
}

function wholeNumber(text: string, option: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new CommandError(
    `${option} takes a whole number or "none", not ${JSON.stringify(text)}.`,
    2,
  )
}

function readCap(text: string): { usd: string; scope: string } {
  const [usd = '', scope = 'lifetime'] = text.split('/')
  return { usd, scope }
}

/** A policy, or another value, from a JSON file. @throws CommandError */
export function readPolicyFile(path: string): unknown {
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

/** The query of the given options; values are separated by commas. */
export function queryOf({ text }: Arguments, names: readonly string[], more = {}): URLSearchParams {
  const query = new URLSearchParams(more)
  for (const name of names) {
    for (const value of text[name]?.split(',') ?? []) query.append(name.replace('-', '_'), value)
  }
  return query
}

export function filterOf({ text: { account } }: Arguments): string {
  return account === undefined ? '' : `?account=${encodeURIComponent(account)}`
}

/** The first argument of a command, for a path. */
export function segment({ positionals: [id = ''] }: Arguments): string {
  return encodeURIComponent(id)
}

export function keyCard(key: any): string {
  const { warnings, spend_cap: _, ...members } = key
  const policy = key.policy && JSON.stringify(key.policy)
  const lines = (warnings as string[]).map((warning) => `warning: ${warning}\n`)
  return `${card({ ...members, policy, models: key.models ?? 'all', cap: capOf(key) })}${lines.join('')}`
}

export function capOf({ spend_cap }: any): string {
  return spend_cap ? `${spend_cap.usd} USD, ${spend_cap.scope}` : '-'
}
