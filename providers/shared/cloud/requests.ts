/** Requests to the services that give credentials, and why a login failed. */
import { readFile } from 'node:fs/promises'
import type { Host } from '../../../src/plugin.ts'
import { tryParse } from '../http.ts'

/** What the sources of credentials ask with. */
export interface LoginRequests {
  /** It is aborted when the time of the login is up. */
  readonly signal: AbortSignal
  /**
   * Sends a request.
   * @param source the source of the credentials, for messages
   * @throws LoginFailure when no answer comes, and for another status than 2xx
   */
  ask(source: string, request: LoginRequest): Promise<LoginAnswer>
  /** A file of the operator. @throws LoginFailure with the path if it cannot be read */
  read(source: string, path: string): Promise<string>
  /** Keeps texts out of errors and logs; called before they are sent, and with those that came. */
  mask(...secrets: (string | undefined)[]): void
}

/** A request to a service that gives credentials. */
export interface LoginRequest {
  readonly url: string
  /** Default `GET`, and `POST` with a form or a body. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** It is sent URL-encoded; absent members are left out. */
  readonly form?: Readonly<Record<string, string | undefined>>
  /** The time limit for services that are there or not, in place of that of the login. */
  readonly withinMs?: number
}

/** An answer of such a service. */
export interface LoginAnswer {
  readonly text: string
  /** ms since epoch at the service; by the clock of this machine if it does not say. */
  readonly now: number
  /** @throws LoginFailure when it is not a JSON object */
  json(): Record<string, unknown>
}

/** Why a login failed. Its message is for the operator: never with a token, a key or the body of an answer. */
export class LoginFailure extends Error {
  /** How far the clock of the service that refused is ahead, in ms. */
  readonly aheadMs: number | undefined

  /** @param source the source of the credentials */
  constructor(source: string, reason: string, aheadMs?: number) {
    super(`${source}: ${reason}`)
    this.name = 'LoginFailure'
    this.aheadMs = aheadMs
  }

  /** Any error as one whose message can be shown: of an unknown one only its code or name. */
  static of(error: unknown, source = 'login'): LoginFailure {
    if (error instanceof LoginFailure) return error
    if (!(error instanceof Error)) return new LoginFailure(source, 'it failed')
    const { cause } = error
    // The gateway says in words why there was no connection.
    if ('connection' in error && error.connection && cause instanceof Error) {
      return new LoginFailure(source, cause.message)
    }
    return new LoginFailure(source, codeOf(cause) ?? codeOf(error) ?? error.name)
  }
}

/** Requests on the connections of a host, with its limits. @param mask receives each secret text */
export function createRequests(
  host: Host,
  signal: AbortSignal,
  mask: (secrets: readonly string[]) => void,
): LoginRequests {
  return {
    signal,
    ask: (source, request) => ask(host, signal, source, request),
    async read(source, path) {
      try {
        return await readFile(path, { encoding: 'utf8', signal })
      } catch (error) {
        signal.throwIfAborted()
        throw new LoginFailure(source, `${path} cannot be read (${codeOf(error) ?? 'unknown'})`)
      }
    },
    mask(...secrets) {
      if (!signal.aborted) mask(secrets.filter((secret) => secret !== undefined))
    },
  }
}

/** The difference of two clocks from which on signatures are refused. */
const SKEW_MS = 60_000

/**
 * Does something that depends on the clock, and once more by the clock of the service if that one refused and differs.
 * @param attempt gets ms since epoch
 */
export async function byTheirClock<T>(attempt: (now: number) => Promise<T>): Promise<T> {
  try {
    return await attempt(Date.now())
  } catch (error) {
    const aheadMs = error instanceof LoginFailure ? (error.aheadMs ?? 0) : 0
    if (Math.abs(aheadMs) < SKEW_MS) throw error
    return attempt(Date.now() + aheadMs)
  }
}

/** A member that has to be a text with something in it. @throws LoginFailure that names the member */
export function textOf(
  source: string,
  from: Readonly<Record<string, unknown>>,
  name: string,
): string {
  const value = from[name]
  if (typeof value === 'string' && value !== '') return value
  throw new LoginFailure(source, `"${name}" is not there`)
}

/** Parses a JSON object. @throws LoginFailure without anything of the text */
export function objectOf(source: string, text: string): Record<string, unknown> {
  const value: unknown = tryParse(text)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>
  }
  throw new LoginFailure(source, 'expected a JSON object')
}

async function ask(
  host: Host,
  signal: AbortSignal,
  source: string,
  { url, method, headers, body, form, withinMs }: LoginRequest,
): Promise<LoginAnswer> {
  const sent = form ? encodeForm(form) : body
  const type = form && { 'content-type': 'application/x-www-form-urlencoded' }
  try {
    const response = await host.http.raw<string, 'text'>(url, {
      method: method ?? (sent === undefined ? 'GET' : 'POST'),
      headers: { accept: 'application/json', ...type, ...headers },
      ...(sent !== undefined && { body: sent }),
      signal,
      ...(withinMs !== undefined && { timeout: withinMs }),
      responseType: 'text',
      ignoreResponseError: true,
    })
    const text = response._data ?? ''
    const now = timeOf(response.headers) ?? Date.now()
    if (response.ok) return { text, now, json: () => objectOf(source, text) }
    const reason = `HTTP ${response.status}${problemIn(text)}`
    throw new LoginFailure(source, reason, now - Date.now())
  } catch (error) {
    signal.throwIfAborted()
    throw LoginFailure.of(error, source)
  }
}

/** A form as the body of a request. Absent members are left out. */
export function encodeForm(form: Readonly<Record<string, string | undefined>>): string {
  const entries = Object.entries(form).filter(([, value]) => value !== undefined)
  return new URLSearchParams(entries as [string, string][]).toString()
}

function timeOf(headers: Headers): number | undefined {
  const time = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(time) ? undefined : time
}

/** The name of an error, in the forms of OAuth, Google and Amazon. Everything else of a body may quote a secret. */
function problemIn(text: string): string {
  const { error, code } = Object(tryParse(text)) as Record<string, unknown>
  const { status } = Object(error) as Record<string, unknown>
  const xml = /<Code>([^<]*)<\/Code>/.exec(text)?.[1]
  const names = [error, status, code, xml].filter((name) => typeof name === 'string')
  const name = names.find((one) => /^[A-Za-z][A-Za-z_]{2,39}$/.test(one))
  return name === undefined ? '' : `, ${name}`
}

function codeOf(error: unknown): string | undefined {
  const { code } = Object(error) as { readonly code?: unknown }
  return typeof code === 'string' && /^\w{2,40}$/.test(code) ? code : undefined
}
