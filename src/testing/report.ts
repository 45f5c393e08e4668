/** Checks, the order in which they run, and the report of a kit. */
import type { FailureClass } from '../plugin.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import { inTime } from '../lifetime/scope.ts'
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
  /** It is called when checks begin, and with their results when they have ended. */
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
  readonly kind: 'provider' | 'guard' | 'search' | 'sink' | 'payments'
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
const MAX_NOTE_CHARACTERS = 1000
/** The folder of the gateway's own code. */
const GATEWAY = new URL('..', import.meta.url).pathname

export function kitDefaults({ seed, timeoutMs = TIMEOUT_MS }: KitOptions) {
  return { seed: seed ?? Math.floor(Math.random() * 2 ** 31), patience: new Patience(timeoutMs) }
}

/** A plugin is not waited for any more after this many waits without a result. */
const MOST_STALLS = 3

export class StalledError extends Error {
  constructor(what: string, ms: number) {
    super(`${what} within ${ms / 1000} s`)
    this.name = 'StalledError'
  }
}

/** The waits for one plugin. A plugin that stalls again and again is not waited for any more, so that a run has an end. */
export class Patience {
  readonly ms: number
  #stalls = 0

  constructor(ms: number) {
    this.ms = ms
  }

  get isOver(): boolean {
    return this.#stalls >= MOST_STALLS
  }

  /** Waits for one of many answers. @throws StalledError */
  async wait<T>(promise: Promise<T>, what: string): Promise<T> {
    return inTime(promise, this.isOver ? 0 : this.ms, () => {
      this.#stalls++
      return new StalledError(what, this.ms)
    })
  }

  /** Waits for what happens once in a run. @throws StalledError */
  async waitOnce<T>(promise: Promise<T>, what: string, ms = this.ms): Promise<T> {
    return inTime(promise, ms, () => new StalledError(what, ms))
  }

  /** @throws StalledError where the plugin is not waited for any more */
  throwIfOver(): void {
    if (this.isOver) throw new StalledError('no answer', this.ms)
  }
}

const WITHIN: Readonly<Record<string, string>> = { usage: 'answer', 'stream rules': 'answer' }

/** Checks of what has been seen, and of the end. */
const AFTER_STALLS = ['secrets', 'close']

export class CheckRun {
  readonly checks: Check[] = []
  readonly #only: string | undefined
  readonly #onProgress: KitOptions['onProgress']
  readonly #patience: Patience

  constructor({ only, onProgress }: KitOptions, patience: Patience) {
    this.#only = only
    this.#onProgress = onProgress
    this.#patience = patience
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
    const stalls = this.#patience.isOver && !AFTER_STALLS.includes(name)
    const ended = await Promise.resolve()
      .then(() => (stalls ? skipped(name, on, 'it stalls') : check()))
      .then(
        (checks) => [checks].flat(),
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
  if (error instanceof Error) return `${error.name}: ${error.message}${placeOf(error)}`
  return `a thrown ${typeof error}`
}

/** The place in the code of a plugin that threw; empty for errors of the gateway and of Node. Test runners may load files with a query. */
function placeOf({ stack = '' }: Error): string {
  const [first = ''] = stack
    .split('\n')
    .filter((line) => /^ *at .*\.[cm]?[jt]s(?:\?[^:]*)?:\d+/.test(line))
  if (first.includes(GATEWAY) || /node:|node_modules/.test(first)) return ''
  const [, file, at] = /([^/(]+\.[cm]?[jt]s)(?:\?[^:]*)?:(\d+:\d+)\)?$/.exec(first) ?? []
  return file ? ` (${file}:${at})` : ''
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

/** The problems if an error is not the failure of a case. @param retry_after_ms the wait that it has to report */
export function failureProblems(
  { failure, retry_after_ms }: { failure?: FailureClass; retry_after_ms?: number },
  error: unknown,
): string[] {
  if (!failure)
    return error === undefined ? [] : [`expected an answer, it failed: ${describeError(error)}`]
  const problem = notFailure(error, [failure])
  if (problem) return [problem]
  const wait = UpstreamFailure.is(error) ? error.retryAfterMs : undefined
  if (wait === retry_after_ms) return []
  return [`retry_after_ms: expected ${retry_after_ms ?? 'none'}, found ${wait ?? 'none'}`]
}

function presentable(kind: Named['kind'], check: Check, secrets: readonly string[]): Check {
  const notes = check.notes.map((note) => {
    const line = redactSecrets(note, secrets).replace(/\s+/g, ' ')
    return line.length > MAX_NOTE_CHARACTERS ? `${line.slice(0, MAX_NOTE_CHARACTERS)}…` : line
  })
  const hint = check.result === 'failed' ? { hint: hintFor(kind, check.name) } : {}
  return { ...check, notes, ...hint }
}

// The repair of each failed check: a sentence, and its heading in the guide.

const GUIDE = 'docs/plugins/testing.md'

/** The key is the name of the check; where kinds differ, kind and name. */
const HINTS: Readonly<Record<string, string>> = {
  'set up':
    'Give the plugin its address in baseURL, url or endpoint, and return the methods of its kind from "setup".',
  cases: 'Write the case that the note names, in the folder that --cases names.',
  answer: 'Make the answer what the case expects, or correct the case.',
  'stream rules': 'Put text into delta.content, and give every choice an end.',
  usage:
    'Report the counts of the vendor once, as integers, with cached tokens inside prompt_tokens.',
  cuts: 'Read the bytes with host.sse, host.lines or host.readJson, and keep no state that depends on the pieces.',
  'cut off': "End an answer only with the vendor's own mark of its end.",
  'left out':
    'Give what an event says when it comes, and a finish_reason only where the vendor has said one.',
  unreadable:
    'Throw for what cannot be read, leave out events of unknown kinds, and go on with the next one.',
  'stream off':
    'Give the same answer whether "stream" is on or off; ask for the form that the cases show.',
  cancel: 'Pass the signal to every request, and let go of the response when the reader leaves.',
  'back-pressure': 'Return the flow of the response with steps, and read nothing ahead.',
  hang: 'Pass the signal to host.request.',
  errors:
    'Throw host.failure(response) for a status that is not 2xx, and host.fail for an answer that cannot be read.',
  events:
    'Send what the case expects, or correct the case; resolve when the receiver has the events, and leave out unknown names.',
  texts: 'Give one vector, rank or result for each text, as the gateway reads them.',
  models:
    "Name each model once, as it is called, from the vendor's own list; end with the signal, and fail where there is no list.",
  conversations: 'Send everything that the client wrote, in the form that the vendor takes.',
  forwarded:
    'Send the member to the vendor, or name it in "ignores" if the vendor has no word for it.',
  repeat: 'Keep no state between calls: make a step with memory anew for each answer.',
  signal: 'Pass the signal to every request.',
  secrets: 'Leave keys, accounts and addresses out of errors and logs; host.failure does.',
  close: 'Release everything in "close", in less than five seconds.',
  time: 'Look at each character a bounded number of times.',
  memory: 'Bound what is kept between calls, and keep nothing of an answer that has ended.',
  console: 'Use host.log in place of the console.',
  'own connections': 'Use host.request or host.http in place of fetch and node:http.',
  uncaught: 'Await every promise, and throw in no callback.',
  handles: 'End timers, servers and workers in "close".',
  input: 'Give one verdict for each text, in their order.',
  output: 'Judge an answer as the case expects.',
  pads: 'Judge a text by what stands in it, wherever that is, and give places from its beginning.',
  locate:
    'Give all ranges of the text with their labels, whatever rules are in force, and throw where the guard cannot look.',
  'in force': 'Look at context.rules, and block only for rules that are there.',
  'hold-back': 'Let safeOffset stay before the first character that may belong to a match.',
  release: 'Let safeOffset follow the text, or set needsFullText if the guard needs all of it.',
  interleaved: 'Keep the state of a stream in the object that streamOutput returns.',
  local: 'Judge without requests, timers and promises, or say execution: "remote".',
  down: 'Throw when the service gives no verdict that can be read.',
  once: 'Ask once for each text, with host.request or host.http.',
  verdicts:
    'Throw when a member of the answer that the verdict needs is missing or of another type.',
  results: 'Make the results what the case expects, or correct the case.',
  payments:
    'Make the page and the events what the case expects, or correct the case; ids are those of payments, refunds and disputes.',
  signature:
    'Verify the signature by the raw bytes, with its time, before anything is read, and give undefined where it is not right.',
  query: 'Send query.text(limit) as it is, encoded for its place.',
  domains: 'Narrow by domains only as far as the service can exactly, and say so in "narrows".',
  fields: 'Give absolute http(s) addresses, and text without HTML.',
}

function hintFor(kind: string, check: string): string {
  const hint = HINTS[`${kind} ${check}`] ?? HINTS[check] ?? 'See the note.'
  return `${hint} (${GUIDE}#${check.replaceAll(' ', '-')})`
}

export function allHints(): Readonly<Record<string, string>> {
  return HINTS
}
