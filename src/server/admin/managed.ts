/** The managed configuration in the admin API: entries, changes, history, export, and the key that seals their secrets. */
import {
  partsOf,
  SECTIONS,
  type EntryKey,
  type Section,
  type Sections,
} from '../../config/managed.ts'
import { readJson } from '../../endpoints/shared/body.ts'
import { ConfigError, GatewayError, NotPossible, toErrorBody } from '../../errors/errors.ts'
import { toYaml } from '../../config/config.ts'
import { checkParameters } from '../../errors/query.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { entryNotices } from '../../gateway/notices.ts'
import { entryIn, sealedNames, type ManagedEntry } from '../../gateway/managed-document.ts'
import { EntriesChanged, type Applied, type Managed } from '../../gateway/managed.ts'
import { manageablePlugins, withOption } from '../../gateway/manageable.ts'
import { priceChanges } from '../../models/price-changes.ts'
import { note, revisionOf } from './audit.ts'
import {
  managedChange,
  managedRevert,
  managedUndo,
  type EntryAnswer,
  type ManagedAnswer,
  type PluginAnswer,
} from './resources/managed.ts'
import { moment } from './resources/settings.ts'
import {
  bodyOf,
  incomingOf,
  missing,
  needs,
  read,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'

export const managedRoutes: Routes = {
  '/managed': { GET: needs('config', listEntries), POST: needs('config', changeEntries) },
  '/managed/history': { GET: needs('config', listHistory) },
  '/managed/revert': { POST: needs('config', revert) },
  '/managed/undo': { POST: needs('config', undo) },
  '/managed/export': { GET: needs('config', exportEntries) },
  '/plugins': { GET: needs('config', listPlugins) },
  '/secret': { GET: needs('config', showSecret) },
  '/secret/rotate': { POST: needs('config', rotateSecret) },
}

/** A change may be as large as the layer. */
const BODY_LIMIT = 4 * 1024 * 1024
/** What an object of the audit log is called. */
const NOUNS: Readonly<Record<Section, string>> = {
  providers: 'provider',
  models: 'model',
  engines: 'engine',
  sinks: 'sink',
}

function listEntries({ gateway, query }: AdminRequest): Answer {
  checkParameters(query, new Set())
  const { managed } = gateway
  const { revision, durable, enabled, sealing, sections } = managed
  const entries = keysIn(sections).map((key) => entryView(gateway, key, sections))
  const { kid = null, source } = sealing
  const data = { revision, durable, enabled, sealing: { kid, source }, entries }
  return { body: { data: data satisfies ManagedAnswer } }
}

async function changeEntries(request: AdminRequest): Promise<Answer> {
  const {
    changes,
    dry_run: dryRun,
    note: summary,
  } = read(managedChange, await readJson(incomingOf(request), BODY_LIMIT))
  return applied(request, dryRun, ({ managed }) =>
    managed.change(changes, {
      by: request.actor.id,
      note: summary,
      dryRun,
      expected: revisionOf(request),
    }),
  )
}

async function revert(request: AdminRequest): Promise<Answer> {
  const { to, dry_run: dryRun } = read(managedRevert, await bodyOf(request))
  return applied(request, dryRun, async ({ managed }) => {
    const options = { by: request.actor.id, note: `revert to ${to}`, dryRun }
    return (await managed.revert(to, options)) ?? missing('revision', String(to))
  })
}

async function undo(request: AdminRequest): Promise<Answer> {
  const { revision, dry_run: dryRun } = read(managedUndo, await bodyOf(request))
  return applied(request, dryRun, async ({ managed }) => {
    const options = { by: request.actor.id, note: `undo of ${revision}`, dryRun }
    return (await managed.undo(revision, options)) ?? missing('revision', String(revision))
  })
}

/** Carries a change out, records it, and answers with what it has changed. */
async function applied(
  request: AdminRequest,
  dryRun: boolean,
  change: (gateway: Gateway) => Promise<Applied>,
): Promise<Answer> {
  const { gateway } = request
  try {
    const done = await change(gateway)
    if (!dryRun) await noteAll(request, done)
    const [before, after] = done.catalogs.map((catalog) => catalog.all())
    const entries = done.keys.map((key) => entryView(gateway, key, done.after))
    const data = {
      revision: done.revision,
      applied: !dryRun,
      entries,
      models: differences(before!, after!),
      prices: priceChanges(before!, after!),
      warnings: entries.flatMap(({ warnings }) => warnings),
    }
    return { body: { data } }
  } catch (error) {
    if (error instanceof EntriesChanged) {
      const { sections } = gateway.managed
      const keys = error.keys.filter((key) => entryIn(sections, key))
      const data = keys.map((key) => entryView(gateway, key, sections))
      return { status: 412, body: { ...toErrorBody(error), data } }
    }
    if (!(error instanceof ConfigError)) throw error
    const { issues } = error
    const [first] = issues
    const message = issues.map(({ path, message }) => `${path}: ${message}`).join('; ')
    const options = { param: first?.path ?? null }
    const shown = new GatewayError(400, 'invalid_request_error', 'invalid_config', message, options)
    return { status: 400, body: { ...toErrorBody(shown), issues, data: null } }
  }
}

async function noteAll(request: AdminRequest, { keys, before, after }: Applied): Promise<void> {
  for (const key of keys) {
    const [section, name] = partsOf(key)
    const [former, next] = [entryIn(before, key), entryIn(after, key)]
    await note(request, {
      action: `${NOUNS[section]}.${next ? (former ? 'update' : 'create') : 'remove'}`,
      object: `${NOUNS[section]}:${name}`,
      before: former ? shownValue(former.value) : {},
      after: next ? { ...shownValue(next.value), revision: next.revision } : { removed: true },
    })
  }
}

interface Named {
  readonly id: string
}

function differences(before: readonly Named[], after: readonly Named[]) {
  const former = new Map(before.map((model) => [model.id, shownModel(model)]))
  const present = new Set(after.map(({ id }) => id))
  return {
    added: after.filter(({ id }) => !former.has(id)).map(({ id }) => id),
    removed: before.filter(({ id }) => !present.has(id)).map(({ id }) => id),
    changed: after
      .filter((one) => former.has(one.id) && former.get(one.id) !== shownModel(one))
      .map(({ id }) => id),
  }
}

/** What clients and operators see of a model, as text that can be compared. What its vendors are paid is in big integers. */
function shownModel(model: object): string {
  const { prices: _, priceChanges: __, listed: ___, ...shown } = model as Record<string, unknown>
  return JSON.stringify(shown, (_name, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  )
}

async function listHistory({ gateway, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set())
  const data = (await gateway.managed.history()).map(({ revision, at, by, summary }) => ({
    revision,
    at: moment(at),
    by,
    summary,
  }))
  return { body: { data, next: null } }
}

async function listPlugins({ query }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set())
  const data = (await manageablePlugins()).map<PluginAnswer>(
    ({ kind, name, plugin, fields, deploymentFields }) => ({
      kind,
      name,
      plugin,
      fields,
      deployment_fields: deploymentFields,
    }),
  )
  return { body: { data, next: null } }
}

async function showSecret({ gateway: { managed } }: AdminRequest): Promise<Answer> {
  return { body: { data: await secretView(managed) } }
}

async function rotateSecret(request: AdminRequest): Promise<Answer> {
  const { managed } = request.gateway
  if (managed.sealing.source === 'variable') {
    const message =
      'The key is in SLUICEGATE_SECRET: set a new one there, put the old one into SLUICEGATE_SECRET_PREVIOUS, and restart.'
    throw new NotPossible(message)
  }
  if (managed.sealing.kid === undefined) throw new NotPossible('Nothing is sealed yet.')
  await managed.rotate()
  const data = await secretView(managed)
  await note(request, { action: 'secret.rotate', object: 'secret', after: { kid: data.kid } })
  return { body: { data } }
}

async function secretView(managed: Managed) {
  const { kid = null, source } = managed.sealing
  return { kid, source, ...(await managed.secrets()) }
}

// Entries as they are shown

function keysIn(sections: Sections<ManagedEntry>): EntryKey[] {
  return SECTIONS.flatMap((section) =>
    Object.keys(sections[section]).map((name) => `${section}/${name}` as const),
  )
}

function entryView(gateway: Gateway, key: EntryKey, sections: Sections<ManagedEntry>): EntryAnswer {
  const [section, name] = partsOf(key)
  const entry = entryIn(sections, key)
  const { managed, loaded } = gateway
  const shadow = entry ? shadowOf(managed, section, name) : undefined
  const leftOut = entry && managed.leftOut.get(key)
  return {
    section,
    name,
    value: entry ? shownValue(entry.value) : null,
    revision: entry?.revision ?? 0,
    changed_at: moment(entry?.changed.at ?? Date.now()),
    changed_by: entry?.changed.by ?? '',
    shadowed_by: shadow ?? null,
    left_out: leftOut ?? null,
    warnings: entry
      ? entryNotices(loaded.config, { noun: NOUNS[section], name, shadow, leftOut })
      : [],
  }
}

/** The file that has an entry of this name. */
function shadowOf(
  { base: { config, origins, file } }: Pick<Managed, 'base'>,
  section: Section,
  name: string,
): string | undefined {
  if (section === 'sinks') {
    return config.sinks.some((sink) => (sink.name ?? sink.use) === name) ? file : undefined
  }
  if (section === 'models') return origins.ownModels().includes(name) ? file : undefined
  const path = section === 'engines' ? ['search', 'engines', name] : ['providers', name]
  const origin = origins.of(path)
  return origin.from === 'configuration' || origin.from === 'environment'
    ? (origin.file ?? file)
    : undefined
}

/** A value in which each secret is `{"set": true}`. */
function shownValue(value: object): object {
  return withSecrets(value, () => ({ set: true }))
}

function withSecrets(value: object, secretOf: (name: string) => unknown): object {
  let { options } = value as { readonly options?: Readonly<Record<string, unknown>> }
  for (const name of sealedNames(value)) options = withOption(options ?? {}, name, secretOf(name))
  return options === undefined ? value : { ...value, options }
}

// Leaving for files

/** The layer as a configuration file, with a variable in place of each secret. */
function exportEntries({ gateway, query }: AdminRequest): Response {
  checkParameters(query, new Set())
  const { sections, base } = gateway.managed
  const variables: string[] = []
  const variableOf = (name: string, option: string) => {
    const wanted = `${name}_${option.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2')}`
    const plain = wanted
      .replaceAll(/\W/g, '_')
      .toUpperCase()
      .replace(/^(?=\d)/, '_')
    let variable = plain
    for (let i = 2; variables.includes(variable); i++) variable = `${plain}_${i}`
    variables.push(variable)
    return variable
  }
  const written = (section: Section) =>
    Object.fromEntries(
      Object.entries(sections[section])
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([name, { value }]) => [
          name,
          withSecrets(escaped(value) as object, (option) => `\${${variableOf(name, option)}}`),
        ]),
    )
  const parts = { providers: written('providers'), models: written('models') }
  const engines = written('engines')
  const sinks = Object.entries(written('sinks')).map(([name, sink]) => ({ ...sink, name }))
  const config = {
    ...(base.config.extends && { extends: base.config.extends }),
    ...Object.fromEntries(Object.entries(parts).filter(([, one]) => Object.keys(one).length > 0)),
    ...(Object.keys(engines).length > 0 && { search: { engines } }),
    ...(sinks.length > 0 && { sinks }),
  }
  const head = variables.map((name) => `# set ${name}\n`).join('')
  return new Response(head + toYaml(config), {
    headers: { 'content-type': 'text/yaml; charset=utf-8' },
  })
}

/** A value whose texts mean the same in a file. */
function escaped(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('${', () => '$${')
  if (Array.isArray(value)) return value.map(escaped)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, escaped(inner)]))
}
