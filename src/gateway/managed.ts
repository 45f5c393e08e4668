/**
 * Vendors, models, search engines and sinks that are set up at run time: their store, and the queue of everything that changes the
 * configuration. Each change is an immutable document, and one small record, the head, names the one in force.
 */
import { join } from 'node:path'
import type { Config, LoadedConfig } from '../config/config.ts'
import {
  entriesOf,
  keysOf,
  layerWithout,
  mapSections,
  partsOf,
  sinkNamesOf,
  type EntryKey,
  type ManagedLayer,
  type Section,
  type Sections,
} from '../config/managed.ts'
import { isObject } from '../errors/checks.ts'
import { ConfigError, GatewayError, type ConfigIssue } from '../errors/errors.ts'
import { show } from '../errors/issues.ts'
import type { Finding } from '../observe/alerts.ts'
import { logEvent } from '../observe/events.ts'
import { randomId } from '../state/ids.ts'
import type { Records } from '../state/records.ts'
import { kidOf, NoSecret, NotOpened, Sealing, type Sealed } from '../state/sealing.ts'
import type { Generations, PreparedConfig } from './generations.ts'
import {
  checkSize,
  differing,
  EMPTY,
  entryIn,
  hasMoved,
  keyOf,
  pathOf,
  sealedIn,
  sealedOf,
  type ManagedDocument,
  type ManagedEntry,
} from './managed-document.ts'
import { checkEntry, manageableOf, optionOf, withOption } from './manageable.ts'
import { warnOfRestart } from './restart-settings.ts'
import type { Shared } from './shared.ts'

/** One revision of the managed layer. */
interface ManagedRevision {
  readonly revision: number
  /** Id of its document. */
  readonly doc: string
  /** ms since epoch */
  readonly at: number
  readonly by: string
  readonly summary: string
}

interface ManagedHead {
  readonly revision: number
  /** Id of the document in force. */
  readonly doc: string
  /** The last revisions, the newest first. */
  readonly history: readonly ManagedRevision[]
}

/** One wanted change; null removes the entry. */
interface EntryChange {
  readonly section: Section
  readonly name: string
  readonly value: Readonly<Record<string, unknown>> | null
  /** The revision of the entry that is to be changed. */
  readonly revision?: number | undefined
}

interface ChangeOptions {
  readonly by: string
  readonly note?: string | undefined
  /** Whether everything but the commit is done. */
  readonly dryRun?: boolean | undefined
  /** The revision of the layer that is to be changed. */
  readonly expected?: number | undefined
}

/** A change that is in force, or would be. */
export interface Applied {
  readonly revision: number
  readonly keys: readonly EntryKey[]
  readonly before: Sections<ManagedEntry>
  readonly after: Sections<ManagedEntry>
  /** The configurations before and after it. */
  readonly catalogs: readonly [before: Catalog, after: Catalog]
}

type Catalog = PreparedConfig['runtime']['catalog']

/** What a change is refused for: the entries are not those that the client knows. */
export class EntriesChanged extends GatewayError {
  readonly keys: readonly EntryKey[]
  constructor(
    keys: readonly EntryKey[],
    message = 'The configuration has been changed since it was read.',
  ) {
    super(412, 'invalid_request_error', 'revision_changed', message)
    this.keys = keys
  }
}

const HEAD = 'managed:head'
const INDEX = 'managed'
const READ_MS = 2000
/** How often a change is tried that another gateway overtakes. */
const ATTEMPTS = 3
/** How often entries are left out one after the other, before all are: plugins of each kind are set up after those of another. */
const ROUNDS = 8
const HISTORY = 20
const SECRET_FILE = 'secret'
const ENTRY_NAME = /^(?!__proto__$|constructor$|prototype$)[^\s\p{C}]{1,200}$/u

interface ManagedOptions extends Pick<Shared, 'records' | 'log'> {
  readonly generations: Generations
  readonly loaded: LoadedConfig
  /** Whether other gateways use the same state. */
  readonly isShared: boolean
  /** Logs what a change does to prices. */
  readonly logged: (use: () => void) => Promise<void>
}

/** A configuration with the layer, set up. */
interface Prepared {
  readonly config: PreparedConfig
  readonly document: ManagedDocument
  readonly leftOut: ReadonlyMap<EntryKey, string>
}

/** The one owner of changes of the configuration. The gateway calls {@link Managed.tick} from time to time. */
export class Managed {
  readonly sealing: Sealing
  readonly #records: Records
  readonly #log: Shared['log']
  readonly #generations: Generations
  readonly #isShared: boolean
  readonly #logged: ManagedOptions['logged']
  /** The configuration of the files. */
  #base: LoadedConfig
  #document = EMPTY
  #leftOut: ReadonlyMap<EntryKey, string> = new Map()
  #error: { readonly revision: number; readonly message: string } | undefined
  #readAt = -Infinity
  #queue: Promise<unknown> = Promise.resolve()
  #reading = false

  constructor({ records, log, generations, loaded, isShared, logged }: ManagedOptions) {
    this.#records = records
    this.#log = log
    this.#generations = generations
    this.#base = loaded
    this.#isShared = isShared
    this.#logged = logged
    const { state } = loaded.config
    const file = state.driver === 'file' ? join(state.path, SECRET_FILE) : undefined
    this.sealing = new Sealing({ ...loaded.sealing, file, isShared })
  }

  /** Whether entries can be set up here. */
  get enabled(): boolean {
    return this.#base.config.managed && this.#base.withManaged !== undefined
  }

  /** Whether the layer outlives the process. */
  get durable(): boolean {
    return this.#base.config.state.driver !== 'memory'
  }

  get revision(): number {
    return this.#document.revision
  }

  /** The configuration of the files alone. */
  get base(): LoadedConfig {
    return this.#base
  }

  get sections(): Sections<ManagedEntry> {
    return this.#document.sections
  }

  /** Why entries are not in force, by entry. */
  get leftOut(): ReadonlyMap<EntryKey, string> {
    return this.#leftOut
  }

  /** What this gateway tells of the layer that it serves. */
  get report() {
    const kid = this.sealing.kid
    return {
      revision: this.revision,
      error: this.#error?.message ?? null,
      ...(kid !== undefined && { kid }),
    }
  }

  /** Uses the stored layer, if there is one. Never rejects for a layer that cannot be used: the files serve alone then. */
  async start(): Promise<void> {
    try {
      await this.#begin()
    } catch (error) {
      const message =
        'the vendors and models of the store could not be read; those of the file are served'
      this.#log.error(message, error)
    }
  }

  /** Waits for changes that are under way. */
  async close(): Promise<void> {
    await this.#queue
  }

  async #begin(): Promise<void> {
    const head = await this.#records.get<ManagedHead>(HEAD)
    if (!head) return
    if (!this.enabled) {
      this.#log.warn('managed: false, so that vendors and models of the store are not served')
      return
    }
    const mode = this.sealing.openMode
    if (mode !== undefined)
      this.#log.warn(`the file "secret" of the data folder has mode ${mode}: make it 600`)
    await this.#inTurn(() => this.#follow(head))
    if (this.#base.sealing.previous !== undefined) await this.#sealAnew()
  }

  /** Replaces the configuration of the files. @throws ConfigError without having changed anything */
  async reload(next: LoadedConfig): Promise<void> {
    await this.#inTurn(async () => {
      const prepared = await this.#prepare(next, this.#document)
      prepared.config.use()
      this.#took(prepared)
      warnOfRestart(this.#log, this.#base.config, next.config)
      this.#base = next
    })
  }

  /** The first half of {@link Managed.reload}. A layer that changes before the second half is used after it. @throws ConfigError */
  async prepare(next: LoadedConfig): Promise<PreparedConfig> {
    const prepared = await this.#inTurn(() => this.#prepare(next, this.#document))
    return {
      ...prepared.config,
      use: () => {
        const present = this.#document
        prepared.config.use()
        this.#base = next
        this.#took(prepared)
        if (present === prepared.document) return
        // It came after the first half. What cannot be used is told by the next look at the store.
        this.#inTurn(() => this.#use(present)).catch(() => (this.#document = EMPTY))
      },
    }
  }

  /** Reads the head that other gateways may have changed. @param now steady ms */
  tick(now: number): void {
    if (!this.#isShared || !this.enabled || this.#reading || now - this.#readAt < READ_MS) return
    this.#readAt = now
    this.#reading = true
    void this.#look()
      // The state reports its own loss.
      .catch(() => undefined)
      .finally(() => (this.#reading = false))
  }

  findings(): Finding[] {
    const invalid = [...this.#leftOut].map(([object, message]): Finding => ({
      kind: 'managed.invalid',
      object,
      state: 'wrong',
      message,
    }))
    const present = keysOf({ sections: this.#document.sections })
      .filter((key) => !this.#leftOut.has(key))
      .map((object): Finding => ({ kind: 'managed.invalid', object, state: 'well', message: '' }))
    const behind: Finding = {
      kind: 'managed.behind',
      object: '',
      state: this.#error ? 'wrong' : 'well',
      message: this.#error
        ? `revision ${this.#error.revision} of the configuration cannot be used: ${this.#error.message}`
        : '',
    }
    return [...invalid, ...present, behind]
  }

  /** @returns revisions, the newest first */
  async history(): Promise<readonly ManagedRevision[]> {
    return (await this.#records.get<ManagedHead>(HEAD))?.history ?? []
  }

  /**
   * Changes entries: loads, sets up, stores, and then serves what was set up.
   * @throws ConfigError for entries that cannot be used; EntriesChanged; GatewayError
   */
  async change(changes: readonly EntryChange[], options: ChangeOptions): Promise<Applied> {
    return this.#write(options, async (present) => {
      const wrong = changes.filter(
        ({ section, name, revision }) =>
          revision !== undefined && revision !== present.sections[section][name]?.revision,
      )
      if (wrong.length > 0) throw new EntriesChanged(wrong.map(keyOf))
      return this.#changed(present, changes, options.by)
    })
  }

  /** Makes the layer what it was at a revision. @throws as {@link Managed.change}; undefined where there is no such revision */
  async revert(to: number, options: ChangeOptions): Promise<Applied | undefined> {
    const earlier = (await this.history()).find(({ revision }) => revision === to)
    if (!earlier) return undefined
    const { sections } = await this.#documentOf(earlier.doc)
    return this.#write(options, async (present) =>
      mapSections(sections, (entry, key) => {
        const now = entryIn(present.sections, key)
        const isSame = now && JSON.stringify(now.value) === JSON.stringify(entry.value)
        return isSame ? now : renewed(entry, present, options.by)
      }),
    )
  }

  /**
   * Gives the entries that one revision changed their state of before it, and leaves all others as they are.
   * @throws as {@link Managed.change}; EntriesChanged where one of them was changed since; undefined where the revision or the one before it is not kept
   */
  async undo(revision: number, options: ChangeOptions): Promise<Applied | undefined> {
    const history = await this.history()
    const at = history.findIndex((one) => one.revision === revision)
    if (at < 0 || (revision > 1 && !history[at + 1])) return undefined
    const after = await this.#documentOf(history[at]!.doc)
    const before = revision > 1 ? await this.#documentOf(history[at + 1]!.doc) : EMPTY
    const keys = differing(before.sections, after.sections)
    return this.#write(options, async (present) => {
      const others = keys.filter(
        (key) =>
          entryIn(present.sections, key)?.revision !== entryIn(after.sections, key)?.revision,
      )
      if (others.length > 0)
        throw new EntriesChanged(others, changedSince(others, present.sections))
      const next = mapSections(present.sections, (entry) => entry)
      for (const key of keys) {
        const [section, name] = partsOf(key)
        const former = entryIn(before.sections, key)
        if (former) next[section][name] = renewed(former, present, options.by)
        else delete next[section][name]
      }
      return next
    })
  }

  /** Sealed values of the layer, and those of its history and of it that another key has sealed. */
  async secrets(): Promise<{ readonly sealed: number; readonly others: number }> {
    const head = await this.#records.get<ManagedHead>(HEAD)
    if (!head) return { sealed: 0, others: 0 }
    const docs = await Promise.all(head.history.map(({ doc }) => this.#documentOf(doc)))
    const own = this.sealing.kid
    const others = docs.flatMap(sealedIn).filter(({ sealed }) => kidOf(sealed) !== own).length
    return { sealed: sealedIn(docs[0] ?? EMPTY).length, others }
  }

  /** Seals everything with a new key. Only where the key is in a file or of the process. */
  async rotate(): Promise<void> {
    this.sealing.addKey()
    await this.#sealAnew()
    this.sealing.dropFormer()
  }

  /** The value of an entry with its secrets. @throws NotOpened */
  opened(key: EntryKey, value: object): Readonly<Record<string, unknown>> {
    return this.#openEntry(key, value).value
  }

  // Reading

  async #look(): Promise<void> {
    const head = await this.#records.get<ManagedHead>(HEAD)
    if (!head || head.revision === this.revision || head.revision === this.#error?.revision) return
    await this.#inTurn(() => this.#follow(head))
  }

  async #follow(head: ManagedHead): Promise<void> {
    if (head.revision === this.revision) return
    try {
      await this.#use(await this.#documentOf(head.doc))
      this.#error = undefined
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      this.#error = { revision: head.revision, message }
      logEvent(this.#log, 'error', {
        event: 'managed.refused',
        message: `revision ${head.revision} of the managed configuration cannot be used: ${message}`,
        members: { revision: head.revision },
      })
    }
  }

  async #use(document: ManagedDocument): Promise<void> {
    const prepared = await this.#prepare(this.#base, document)
    await this.#logged(() => prepared.config.use())
    this.#took(prepared)
  }

  #took({ document, leftOut }: Prepared): void {
    for (const [key, message] of leftOut) {
      if (this.#leftOut.get(key) === message) continue
      logEvent(this.#log, 'error', {
        event: 'managed.left_out',
        message: `${key} is left out: ${message}`,
        members: { entry: key },
      })
    }
    this.#document = document
    this.#leftOut = leftOut
  }

  // Setting up

  /**
   * Sets up the files with a document. Entries that cannot be used are left out, and so is what needs them.
   * @param named a change is refused for them @throws ConfigError
   */
  async #prepare(
    base: LoadedConfig,
    document: ManagedDocument,
    named?: ReadonlySet<EntryKey>,
  ): Promise<Prepared> {
    if (!this.enabled) {
      return { config: await this.#generations.prepare(base), document, leftOut: new Map() }
    }
    const { layer, closed } = this.#open(document)
    const leftOut = new Map(closed)
    refuseNamed(leftOut, named)
    for (let attempt = 0; ; attempt++) {
      const remaining = layerWithout(layer, new Set(leftOut.keys()))
      try {
        const config = await this.#generations.prepare(await withLayer(base, remaining))
        return { config, document, leftOut }
      } catch (error) {
        if (!(error instanceof ConfigError) || keysOf(remaining).length === 0) throw error
        const owners = entriesOf(error.issues, remaining, sinkNamesOf(base.config.sinks, remaining))
        for (const [index, key] of owners.entries()) {
          if (key && !leftOut.has(key)) leftOut.set(key, textOf(error.issues[index]!))
        }
        refuseIssues(error, owners, named)
        if (attempt < ROUNDS && owners.every(Boolean)) continue
        for (const key of keysOf(remaining)) {
          if (!leftOut.has(key)) leftOut.set(key, error.issues.map(textOf).join('; '))
        }
      }
    }
  }

  /** The document with its secrets, without the entries that cannot be opened. */
  #open({ revision, sections }: ManagedDocument) {
    const closed = new Map<EntryKey, string>()
    const secrets: (readonly [EntryKey, string])[] = []
    const opened = mapSections(sections, (entry, key) => {
      try {
        const one = this.#openEntry(key, entry.value)
        secrets.push(...one.names.map((name) => [key, name] as const))
        return one.value
      } catch (error) {
        if (!(error instanceof NotOpened)) throw error
        closed.set(key, notOpenedText(key, error))
        return undefined
      }
    })
    const layer: ManagedLayer = { revision, sections: opened, secrets }
    return { layer, closed }
  }

  #openEntry(key: EntryKey, value: object) {
    const names: string[] = []
    let opened = value as Readonly<Record<string, unknown>>
    for (const { name, sealed } of sealedOf(value)) {
      names.push(name)
      const text = this.sealing.open(sealed, `${key}/${name}`)
      opened = { ...opened, options: withOption(opened.options as object as never, name, text) }
    }
    return { value: opened, names }
  }

  // Writing

  async #write(
    { by, note, dryRun = false, expected }: ChangeOptions,
    changed: (present: ManagedDocument) => Promise<Sections<ManagedEntry>>,
  ): Promise<Applied> {
    if (!this.enabled) throw refusal('managed_off', OFF)
    return this.#inTurn(async () => {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        // What is in the list before the head is read can be in no later head but this one's successor.
        const written = dryRun ? [] : await this.#records.list(INDEX)
        const head = await this.#records.get<ManagedHead>(HEAD)
        const present = head ? await this.#documentOf(head.doc) : EMPTY
        if (expected !== undefined && expected !== present.revision) throw new EntriesChanged([])
        const sections = await changed(present)
        const revision = present.revision + 1
        const document: ManagedDocument = { format: 1, revision, sections }
        checkSize(document)
        const keys = differing(present.sections, sections)
        const before = this.#generations.runtime.catalog.at()
        const prepared = await this.#prepare(this.#base, document, new Set(keys))
        const done = { keys, before: present.sections, after: sections }
        const after = prepared.config.runtime.catalog.at()
        try {
          this.#refuseLoss(prepared, keys)
          refuseUnpriced(prepared.config.runtime.config, keys)
          if (dryRun) {
            await prepared.config.discard()
            return { ...done, revision: present.revision, catalogs: [before, after] }
          }
          const summary = note ?? keys.join(', ').slice(0, 500)
          if (await this.#commit({ head, document, written }, { at: Date.now(), by, summary })) {
            await this.#logged(() => prepared.config.use())
            this.#took(prepared)
            this.#error = undefined
            return { ...done, revision, catalogs: [before, after] }
          }
        } catch (error) {
          await prepared.config.discard()
          throw error
        }
        await prepared.config.discard()
      }
      throw refusal('conflict', 'Another gateway is changing the configuration. Try again.')
    })
  }

  /** @returns false where another gateway was faster */
  async #commit(
    {
      head,
      document,
      written,
    }: { head: ManagedHead | undefined; document: ManagedDocument; written: readonly string[] },
    change: Pick<ManagedRevision, 'at' | 'by' | 'summary'>,
  ): Promise<boolean> {
    const doc = await this.#put(document)
    const { revision } = document
    const history = [{ revision, doc, ...change }, ...(head?.history ?? [])].slice(0, HISTORY)
    const next: ManagedHead = { revision, doc, history }
    const isDone = head
      ? await this.#records.replace(HEAD, next, head.revision)
      : await this.#records.create(HEAD, next)
    if (!isDone) {
      await this.#remove([doc])
      return false
    }
    const kept = new Set(history.map((one) => one.doc))
    await this.#remove(written.filter((one) => !kept.has(one)))
    return true
  }

  async #put(document: ManagedDocument): Promise<string> {
    const id = randomId('')
    await this.#records.add(INDEX, id)
    await this.#records.put(docKey(id), document)
    return id
  }

  /** Removes documents that no head names. What is not removed now is removed by the next change. */
  async #remove(ids: readonly string[]): Promise<void> {
    for (const id of ids) await this.#records.del(docKey(id))
    if (ids.length > 0) await this.#records.drop(INDEX, ...ids)
  }

  async #documentOf(id: string): Promise<ManagedDocument> {
    const document = await this.#records.get<ManagedDocument>(docKey(id))
    if (document?.format === 1 && isObject(document.sections)) return document
    throw new Error(
      `the document ${id} of the managed configuration is missing, or of another version`,
    )
  }

  /** The sections of a document after changes, with sealed secrets. @throws ConfigError, GatewayError */
  async #changed(
    { sections, revision }: ManagedDocument,
    changes: readonly EntryChange[],
    by: string,
  ): Promise<Sections<ManagedEntry>> {
    const next = mapSections(sections, (entry) => entry)
    const issues: ConfigIssue[] = []
    for (const { section, name, value } of changes) {
      if (!ENTRY_NAME.test(name)) {
        issues.push({
          path: section,
          message: `expected a name of at most 200 characters, found ${show(name)}`,
        })
      } else if (value === null) {
        if (!Object.hasOwn(next[section], name)) {
          issues.push({ path: `${section}.${name}`, message: 'there is no such entry' })
        }
        delete next[section][name]
      } else {
        const key = keyOf({ section, name })
        const stored = Object.hasOwn(next[section], name) ? next[section][name] : undefined
        const whole =
          section === 'models' ? value : await this.#withSecrets(key, value, stored?.value)
        issues.push(
          ...(await checkEntry(section, name, whole, (provider) =>
            fieldsOf(provider, next, this.#base.config),
          )),
        )
        next[section][name] = {
          value: whole,
          revision: revision + 1,
          changed: { at: Date.now(), by },
        }
      }
    }
    if (issues.length > 0) throw new ConfigError('the managed configuration', issues)
    return next
  }

  /** A value whose secrets are sealed: new ones, and those of the stored entry that are kept. */
  async #withSecrets(
    key: EntryKey,
    value: Readonly<Record<string, unknown>>,
    stored: object | undefined,
  ): Promise<Readonly<Record<string, unknown>>> {
    const [section] = partsOf(key)
    const { fields = [] } = (await manageableOf(section as 'providers', value.use)) ?? {}
    if (!isObject(value.options ?? {})) return value
    let options = (value.options ?? {}) as Readonly<Record<string, unknown>>
    const moved = hasMoved(value, stored, fields)
    for (const { name, kind } of fields) {
      if (kind !== 'secret') continue
      const option = optionOf(options, name)
      const kept = sealedOf(stored ?? {}).find((one) => one.name === name)?.sealed
      if (typeof option === 'string' && option !== '') {
        options = withOption(options, name, this.#seal(option, `${key}/${name}`))
      } else if (option === null || ((option === undefined || isMark(option)) && !kept)) {
        options = withOption(options, name, undefined)
      } else if (option === undefined || isMark(option)) {
        if (moved) throw secretRequired(key, name)
        options = withOption(options, name, kept)
      }
    }
    return {
      ...value,
      ...((value.options !== undefined || Object.keys(options).length > 0) && { options }),
    }
  }

  #seal(text: string, place: string): Sealed {
    try {
      return this.sealing.seal(text, place)
    } catch (error) {
      throw error instanceof NoSecret ? refusal('secret_missing', SECRET_MISSING) : error
    }
  }

  /** @throws ConfigError where a change would take entries out that it does not name */
  #refuseLoss({ leftOut }: Prepared, keys: readonly EntryKey[]): void {
    const lost = [...leftOut.keys()].filter((key) => !this.#leftOut.has(key))
    const cause = keys.find((key) => key.startsWith('providers/')) ?? keys[0]
    if (lost.length === 0 || cause === undefined) return
    const names = lost.map((key) => partsOf(key)[1]).join(', ')
    const message = `is used by ${names}: remove or move them in the same change`
    throw new ConfigError('the managed configuration', [{ path: pathOf(cause), message }])
  }

  /** Writes each document of the history again, sealed with the present key. A kill leaves values that one of the keys opens. */
  async #sealAnew(): Promise<void> {
    await this.#inTurn(async () => {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const head = await this.#records.get<ManagedHead>(HEAD)
        if (!head) return
        const docs = await Promise.all(head.history.map(({ doc }) => this.#documentOf(doc)))
        const own = this.sealing.kid
        const isDone = docs.flatMap(sealedIn).every(({ sealed }) => kidOf(sealed) === own)
        if (isDone) return
        const fresh = await Promise.all(docs.map((one) => this.#put(this.#sealedAnew(one))))
        const revision = head.revision + 1
        const [newest] = fresh
        const latest = await this.#documentOf(newest!)
        await this.#records.put(docKey(newest!), { ...latest, revision })
        const history = head.history.map((one, index) => ({ ...one, doc: fresh[index]! }))
        const next: ManagedHead = {
          revision,
          doc: newest!,
          history: history.with(0, { ...history[0]!, revision }),
        }
        if (await this.#records.replace(HEAD, next, head.revision)) {
          await this.#remove(head.history.map(({ doc }) => doc))
          await this.#use({ ...latest, revision })
          this.#log.info(
            'the secrets of the store are sealed with the new key; SLUICEGATE_SECRET_PREVIOUS is no longer needed',
          )
          return
        }
        await this.#remove(fresh)
      }
    })
  }

  #sealedAnew(document: ManagedDocument): ManagedDocument {
    const sections = mapSections(document.sections, (entry, key) => {
      let { value } = entry
      for (const { name, sealed } of sealedOf(value)) {
        const place = `${key}/${name}`
        try {
          const again = this.sealing.seal(this.sealing.open(sealed, place), place)
          const { options } = value as { readonly options: Readonly<Record<string, unknown>> }
          value = { ...value, options: withOption(options, name, again) }
        } catch (error) {
          // What no key opens stays as it is.
          if (!(error instanceof NotOpened)) throw error
        }
      }
      return { ...entry, value }
    })
    return { ...document, sections }
  }

  /** Runs after all changes that began before. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work, work)
    this.#queue = turn.catch(() => undefined)
    return turn
  }
}

const OFF = 'The configuration has managed: false, so that nothing is set up at run time.'
const SECRET_MISSING =
  'Several gateways share this state, so they need one key to seal secrets with: set SLUICEGATE_SECRET, the same 32 or more characters for each.'

function refusal(code: 'managed_off' | 'secret_missing' | 'conflict', message: string) {
  return new GatewayError(409, 'invalid_request_error', code, message)
}

/** A key belongs to its address: otherwise it could be read by pointing its provider at another server. */
function secretRequired(key: EntryKey, option: string): GatewayError {
  const message = 'The address has changed, so the key has to be given again.'
  const param = `${pathOf(key)}.options.${option}`
  return new GatewayError(400, 'invalid_request_error', 'secret_required', message, { param })
}

/** `{"set": true}`, which stands for a secret in answers. */
function isMark(value: unknown): boolean {
  return isObject(value) && 'set' in value && Object.keys(value).length === 1
}

function notOpenedText(key: EntryKey, { kid }: NotOpened): string {
  const [section, name] = partsOf(key)
  const what = `${section.replace(/s$/, '')} ${JSON.stringify(name)}`
  return `The key of ${what} was sealed with another secret (${kid}): set SLUICEGATE_SECRET_PREVIOUS to it, or give the key again.`
}

/** An earlier entry as one of the next revision. */
function renewed(entry: ManagedEntry, present: ManagedDocument, by: string): ManagedEntry {
  return { ...entry, revision: present.revision + 1, changed: { at: Date.now(), by } }
}

/** Who changed the entries that therefore stay as they are. */
function changedSince(keys: readonly EntryKey[], sections: Sections<ManagedEntry>): string {
  const named = keys.map((key) => {
    const by = entryIn(sections, key)?.changed.by
    const [section, name] = partsOf(key)
    const what = `the ${section.replace(/s$/, '')} ${name}`
    return `${what} was ${by === undefined ? 'removed' : `changed by ${by}`}`
  })
  return `It cannot be taken back: since then ${named.join(', ')}.`
}

function docKey(id: string): string {
  return `managed:doc:${id}`
}

function textOf({ path, message }: ConfigIssue): string {
  return `${path}: ${message}`
}

/** The configuration of the files with what a layer adds. Everything else stays as it is. */
async function withLayer(base: LoadedConfig, layer: ManagedLayer): Promise<LoadedConfig> {
  if (keysOf(layer).length === 0) return base
  const merged = await base.withManaged!(layer)
  const { providers, models, wildcards, unpriced, search, sinks } = merged.config
  const { wildcards: _, unpriced: __, ...config } = base.config
  return {
    ...base,
    config: {
      ...config,
      providers,
      models,
      search,
      sinks,
      ...(wildcards && { wildcards }),
      ...(unpriced && { unpriced }),
    },
    secrets: merged.secrets,
    origins: merged.origins,
  }
}

/** @throws ConfigError where entries that a change names cannot be opened */
function refuseNamed(leftOut: ReadonlyMap<EntryKey, string>, named?: ReadonlySet<EntryKey>): void {
  const issues = [...leftOut]
    .filter(([key]) => named?.has(key))
    .map(([key, message]) => ({ path: pathOf(key), message }))
  if (issues.length > 0) throw new ConfigError('the managed configuration', issues)
}

/** @throws ConfigError with the issues of entries that a change names, and of what is no entry */
function refuseIssues(
  { issues }: ConfigError,
  owners: readonly (EntryKey | undefined)[],
  named?: ReadonlySet<EntryKey>,
): void {
  if (!named) return
  const own = issues.flatMap(({ path, message }, index) => {
    const key = owners[index]
    if (key === undefined) return [{ path, message }]
    if (!named.has(key)) return []
    // The client knows sinks and engines by their names.
    const rest = key.startsWith('sinks/') ? path.split('.').slice(2) : []
    const engine = key.startsWith('engines/') && path.replace('search.engines.', 'engines.')
    return [{ path: rest.length > 0 ? [pathOf(key), ...rest].join('.') : engine || path, message }]
  })
  if (own.length > 0) throw new ConfigError('the managed configuration', own)
}

/** @throws ConfigError for a model that a change names and that has no price */
function refuseUnpriced({ unpriced = [] }: Config, keys: readonly EntryKey[]): void {
  const issues = unpriced
    .filter(({ id }) => keys.includes(`models/${id}`))
    .map(({ id }) => ({
      path: `models.${id}.pricing`,
      message: 'is needed: no price list has this model',
    }))
  if (issues.length > 0) throw new ConfigError('the managed configuration', issues)
}

/** The fields of options of deployments at a provider, managed or of the file. */
async function fieldsOf(
  provider: unknown,
  sections: Sections<ManagedEntry>,
  { providers }: Config,
) {
  const name = String(provider)
  const entry = Object.hasOwn(sections.providers, name)
    ? sections.providers[name]!.value
    : providers[name]
  const { use } = (entry ?? {}) as { readonly use?: unknown }
  const plugin = typeof use === 'string' ? await manageableOf('providers', use) : undefined
  return plugin?.deploymentFields ?? []
}
