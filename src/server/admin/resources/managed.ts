/** Vendors, models, search engines and sinks that are set up at run time. */
import * as v from 'valibot'
import type { OptionField } from '../../../plugin/fields.ts'
import { type Notice, flag, text, whole } from './settings.ts'

const SECTION = 'one of providers, models, engines, sinks'
const REVISION = ' of a revision'
const value = v.record(v.string(), v.unknown(), 'an object')

/** `POST /managed`. */
export const managedChange = v.strictObject({
  changes: v.pipe(
    v.array(
      v.strictObject({
        section: v.picklist(['providers', 'models', 'engines', 'sinks'], SECTION),
        name: text(200),
        value: v.nullable(value),
        revision: v.optional(whole(0, Number.MAX_SAFE_INTEGER, REVISION)),
      }),
      'a list of changes',
    ),
    v.minLength(1, 'at least one change'),
    v.maxLength(1000, 'at most 1000 changes'),
  ),
  dry_run: v.optional(flag, false),
  note: v.optional(text(500)),
})

/** `POST /managed/revert`. */
export const managedRevert = v.strictObject({
  to: whole(1, Number.MAX_SAFE_INTEGER, REVISION),
  dry_run: v.optional(flag, false),
})

/** `POST /managed/undo`. */
export const managedUndo = v.strictObject({
  revision: whole(1, Number.MAX_SAFE_INTEGER, REVISION),
  dry_run: v.optional(flag, false),
})

/** `POST /providers/test` and its like: an entry in force, a draft, or a draft over an entry. */
export const draft = v.pipe(
  v.strictObject({
    name: v.optional(text(200)),
    use: v.optional(text(200)),
    options: v.optional(value),
  }),
  v.check(({ name, use }) => name !== undefined || use !== undefined, 'a "name" or a "use"'),
)
export type Draft = v.InferOutput<typeof draft>

/** `POST /models/:id/test`. */
export const modelTest = v.strictObject({ deployment: v.optional(text(500)) })

/** One entry; a secret of it is `{"set": true}`. */
export interface EntryAnswer {
  readonly section: string
  readonly name: string
  readonly value: object | null
  readonly revision: number
  readonly changed_at: string
  readonly changed_by: string
  /** The file that has an entry of this name, which wins. */
  readonly shadowed_by: string | null
  /** Why it is not in force. */
  readonly left_out: string | null
  readonly warnings: readonly Notice[]
}

/** What is set up at run time. */
export interface ManagedAnswer {
  readonly revision: number
  /** Whether it outlives the process. */
  readonly durable: boolean
  readonly enabled: boolean
  readonly sealing: { readonly kid: string | null; readonly source: string }
  readonly entries: readonly EntryAnswer[]
}

/** A plugin or a vendor that can be set up at run time. */
export interface PluginAnswer {
  readonly kind: 'provider' | 'search' | 'sink'
  readonly name: string
  readonly plugin: string
  readonly fields: readonly OptionField[]
  readonly deployment_fields: readonly OptionField[]
}

/** What came of a test; `ok` is null where it cannot be tested so. */
export interface TestAnswer {
  readonly ok: boolean | null
  readonly ms: number
  readonly message: string | null
  readonly cause: string | null
  readonly models?: readonly string[]
}

/** A model that a vendor names. */
export interface OfferAnswer {
  readonly id: string
  readonly model: string
  readonly name: string | null
  readonly modality: string | null
  readonly context_length: number | null
  readonly pricing: Readonly<Record<string, unknown>> | null
  readonly price_source: { readonly from: string | null; readonly checked_at: string | null } | null
  readonly capabilities: readonly string[] | null
  /** The models of this gateway that it serves already. */
  readonly served_as: readonly string[]
}

/** A vendor as it is used: of a file, of the environment, or set up at run time. */
export interface ProviderAnswer {
  readonly name: string
  readonly use: string
  /** Its own address, without what could be a secret; null where the plugin knows it. */
  readonly address: string | null
  readonly from: string
  /** The file or the variable that has it. */
  readonly where: string | null
  /** Models that have a deployment at it. */
  readonly models: number
  /** Calls and failures of a day; null without the index of usage. */
  readonly last_24h: {
    readonly calls: number
    readonly failures: Readonly<Record<string, number>>
  } | null
  /** When a call last got its whole answer, since the start. */
  readonly last_success: string | null
  /** Whether its key is set; null where it takes none. */
  readonly key: 'set' | 'not set' | null
  /** Who has set it up at run time, and when; null for one of a file. */
  readonly changed: { readonly at: string; readonly by: string; readonly revision: number } | null
  /** Why it is not in force. */
  readonly left_out: string | null
}
