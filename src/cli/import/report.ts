/** What an import tells: the counts, the notes, and what it has written. Neither form shows a secret or a hash. */
import { notesInWords } from '../../import/notes.ts'
import { servedInWords } from '../../import/served.ts'
import type { MigratedKey, Migration, MigrationNote } from '../../plugin.ts'
import { cell, table } from '../output.ts'
import type { Applied } from './apply.ts'

const FREE_TIER =
  'Accounts are on the free tier until they get credits: repeat with --apply --credits <usd>, or use "credits add".'
const NOTHING_WRITTEN =
  'Nothing was written. Repeat with --out <folder>, and with --apply for accounts and keys.'

/** Everything that a run has found and done. */
export interface Report {
  readonly migration: Migration
  /** By id, why a model is not served. */
  readonly unserved: ReadonlyMap<string, string | undefined>
  readonly notes: readonly MigrationNote[]
  readonly written: readonly string[]
  readonly applied: Applied | undefined
  /** Accounts stay on the free tier where the source has no credit and none was given. */
  readonly onFreeTier: boolean
}

/** Models of a key that the table names. */
const MAX_MODELS = 4

/** The report as JSON has it. */
export function toData(report: Report): object {
  const { migration, unserved, notes, written, applied } = report
  return {
    summary: firstLine(report),
    config: migration.config,
    models: Object.fromEntries(migration.models),
    unserved: Object.fromEntries([...unserved].filter(([, reason]) => reason !== undefined)),
    variables: [...migration.env.keys()],
    needs: migration.needs,
    accounts: [...migration.accounts].map(([id, { name, settings, credit }]) => {
      return { id, name, ...settings, ...(credit !== undefined && { credit }) }
    }),
    keys: migration.keys.map(({ row, account, id, name, disabled, settings }) => {
      return { row, account_id: account, id, name, disabled, ...settings }
    }),
    notes,
    written,
    applied: applied && { accounts: applied.accounts, keys: applied.keys },
  }
}

/** The report for people. @param all whether to name what has no effect */
export function toText(report: Report, all: boolean): string {
  const { migration, notes, written, applied } = report
  const { models, needs, env, keys } = migration
  const lines = [
    firstLine(report),
    '',
    ...(notes.length === 0 ? ['Everything was mapped.'] : notesInWords(notes, all)),
    '',
    ...(models.size > 0 ? [modelTable(report)] : []),
    ...(keys.length > 0 ? [keyTable(keys)] : []),
    ...(needs.length > 0 ? [`Variables that the gateway needs: ${needs.join(', ')}`] : []),
    ...(env.size > 0 ? [`Secrets for .env: ${count(env.size, 'value')}`] : []),
    ...(report.onFreeTier && migration.accounts.size > 0 ? [FREE_TIER] : []),
    ...written.map((path) => `Wrote ${path}`),
    ...(applied ? [summaryOf(applied)] : []),
    ...(written.length === 0 && !applied ? [NOTHING_WRITTEN] : []),
  ]
  return `${lines.join('\n')}\n`
}

/** Such as `21 of 23 models served, 2 not (no price); 10 keys: 8 active, 2 disabled`. */
function firstLine({ migration: { keys }, unserved }: Report): string {
  const models = servedInWords([...unserved.values()])
  if (keys.length === 0) return models
  const disabled = keys.filter((key) => key.disabled).length
  return `${models}; ${count(keys.length, 'key')}: ${keys.length - disabled} active, ${disabled} disabled`
}

function modelTable({ migration, unserved }: Report): string {
  const rows = [...migration.models].map(([id, { aliases, deployments = [] }]) => [
    id,
    unserved.get(id) ?? 'served',
    aliases,
    deployments.map(({ provider, model = '*' }) => `${String(provider)}/${String(model)}`),
  ])
  return table(['MODEL', 'STATE', 'ALIASES', 'DEPLOYMENTS'], rows)
}

function keyTable(keys: readonly MigratedKey[]): string {
  const rows = keys.map(({ row, account, name, disabled, settings }) => {
    const shown = Object.entries(settings).map(
      ([member, value]) => `${member} ${cell(shortened(value))}`,
    )
    return [row, account, name, disabled ? 'disabled' : 'active', shown]
  })
  return table(['ROW', 'ACCOUNT', 'KEY', 'STATE', 'SETTINGS'], rows)
}

/** A long list with its first elements. */
function shortened(value: unknown): unknown {
  if (!Array.isArray(value) || value.length <= MAX_MODELS) return value
  return [...value.slice(0, MAX_MODELS), `and ${value.length - MAX_MODELS} more`]
}

function summaryOf({ accounts, keys }: Applied): string {
  return (
    `Accounts: ${accounts.created} created, ${accounts.same} there already, ${accounts.credited} credited. ` +
    `Keys: ${keys.created} created, ${keys.same} there already, ${keys.refused} refused.`
  )
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}
