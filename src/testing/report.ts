/** Checks, the order in which they run, and the report of a kit. */
import { UpstreamFailure } from '../errors/errors.ts'
import { hintFor } from './hints.ts'
import { redactSecrets } from './secrets.ts'

export interface KitOptions {
  /** Seed of everything random; by default a random one. */
  readonly seed?: number
  /** ms after which an operation of the plugin counts as stalled; default 5,000. */
  readonly timeoutMs?: number
  /** The only check that runs. */
  readonly only?: string
  /** Also measures time and memory, which takes seconds; `testPlugin` does. */
  readonly thorough?: boolean
  /** Called when checks begin, and with their results when they have ended. */
  readonly onProgress?: (progress: KitProgress) => void
}

export type KitProgress =
  | { readonly name: string; readonly on: string | null }
  | { readonly ended: readonly Check[] }

export interface Check {
  readonly name: string
  /** Name of the case or situation that was checked; null if there is none. */
  readonly on: string | null
  readonly result: 'ok' | 'failed' | 'skipped'
  /** The problems, the reason for skipping, or observations. */
  readonly notes: readonly string[]
  /** The change that repairs a failed check, and where it is explained. */
  readonly hint?: string
}

interface Named {
  readonly kind: 'provider' | 'guard' | 'search' | 'sink'
  readonly name: string
  readonly api: number
}

export interface KitReport extends Named {
  readonly seed: number
  readonly cases: readonly string[]
  readonly ok: boolean
  readonly checks: readonly Check[]
  readonly failed: readonly Check[]
}

const TIMEOUT_MS = 5000
const MAX_NOTE_CHARACTERS = 300

export function kitDefaults({ seed, timeoutMs = TIMEOUT_MS }: KitOptions) {
  return { seed: seed ?? Math.floor(Math.random() * 2 ** 31), timeoutMs }
}

const WITHIN: Readonly<Record<string, string>> = { usage: 'answer', 'stream rules': 'answer' }

export class CheckRun {
  readonly checks: Check[] = []
  readonly #only: string | undefined
  readonly #onProgress: KitOptions['onProgress']

  constructor({ only, onProgress }: KitOptions) {
    this.#only = only
    this.#onProgress = onProgress
  }

  /** Runs checks of one name, unless others are wanted. Their errors are problems of the plugin. */
  async run(
    name: string,
    on: string | null,
    check: () => Check | readonly Check[] | Promise<Check | readonly Check[]>,
  ): Promise<readonly Check[]> {
    const only = this.#only
    const within = WITHIN[only ?? '']
    if (only !== undefined && only !== name && within !== name) return []
    this.#onProgress?.({ name, on })
    const ended = await Promise.resolve()
      .then(check)
      .then(
        (found) => [found].flat(),
        (error) => [toCheck(name, on, [describeError(error)])],
      )
    const wanted = within === name ? ended.filter((check) => check.name === only) : ended
    this.checks.push(...wanted)
    this.#onProgress?.({ ended: wanted })
    return ended
  }
}

/** The report of checks, without secrets, with short notes, and with a hint for each that has failed. */
export function reportOf(
  { kind, name, api }: Named,
  { seed, cases }: { readonly seed: number; readonly cases: readonly string[] },
  checks: readonly Check[],
  secrets: readonly string[],
): KitReport {
  const shown = checks.map((check) => presentable(kind, check, secrets))
  const failed = shown.filter(({ result }) => result === 'failed')
  return { kind, name, api, seed, cases, ok: failed.length === 0, checks: shown, failed }
}

/** A check that has failed if there are problems. @param seen notes of a check that has passed */
export function toCheck(
  name: string,
  on: string | null,
  problems: readonly string[],
  seen: readonly string[] = [],
): Check {
  const failed = problems.length > 0
  return { name, on, result: failed ? 'failed' : 'ok', notes: failed ? problems : seen }
}

export function skipped(name: string, on: string | null, why: string): Check {
  return { name, on, result: 'skipped', notes: [why] }
}

export function describeError(error: unknown): string {
  if (UpstreamFailure.is(error)) return `${error.failure} (${error.message})`
  if (error instanceof Error) return `${error.name}: ${error.message}`
  return `a thrown ${typeof error}`
}

/** The problem if an error is not a failure of one of the given classes; undefined if it is. */
export function notFailure(error: unknown, classes: readonly string[]): string | undefined {
  const wanted = classes.join(' or ')
  if (error === undefined) return `it ended without an error; expected ${wanted}`
  if (!UpstreamFailure.is(error)) {
    return `it threw ${describeError(error)}; expected host.fail with ${wanted}`
  }
  return classes.includes(error.failure)
    ? undefined
    : `it was ${describeError(error)}; expected ${wanted}`
}

function presentable(kind: Named['kind'], check: Check, secrets: readonly string[]): Check {
  const notes = check.notes.map((note) => {
    const line = redactSecrets(note, secrets).replace(/\s+/g, ' ')
    return line.length > MAX_NOTE_CHARACTERS ? `${line.slice(0, MAX_NOTE_CHARACTERS)}…` : line
  })
  const hint = check.result === 'failed' ? { hint: hintFor(kind, check.name) } : {}
  return { ...check, notes, ...hint }
}
