/** Client of the admin API, for commands that need a running gateway. */
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { $Fetch } from 'ofetch'
import type { Config } from '../config/config.ts'
import type { UpstreamFailure } from '../errors/errors.ts'
import { adminTokenFile, readAdminToken } from '../gateway/admin-token.ts'
import { NO_TOKEN, callableUrl } from '../gateway/welcome.ts'
import { DIRECT, type EgressRoute } from '../upstream/egress.ts'
import { openHttp } from '../upstream/http.ts'
import { CommandError, type Arguments, type Command } from './command.ts'
import { configurationOf, routeOf } from './configuration.ts'
import { parseExact } from './output.ts'

const TIMEOUT_MS = 30_000

export class Refused extends CommandError {
  readonly status: number
  readonly param: string | null

  constructor(message: string, status: number, param: string | null) {
    super(message, 1, { status, param })
    this.name = 'Refused'
    this.status = status
    this.param = param
  }
}

/**
 * A refusal of what a person has given, by the name of the argument or the option: the command was called in a wrong way. Other
 * errors stay as they are.
 */
export function asGiven(
  error: unknown,
  { arguments: names = [], options = {} }: Pick<Command, 'arguments' | 'options'>,
  { text }: Pick<Arguments, 'text'>,
): unknown {
  if (!(error instanceof Refused) || error.status !== 400 || error.param === null) return error
  const { message, status, param } = error
  const [member = '', ...rest] = param.split(/\.|(?=\[)/)
  const option = Object.entries(options).find(
    ([name, spec]) =>
      text[name] !== undefined && (spec.member ?? name.replaceAll('-', '_')) === member,
  )
  // One of a list stands in it under the name of the list.
  const argument = names.find((name) => [name, `${name}s`].includes(member))
  const given = option ? `--${option[0]}` : argument && `<${argument}>`
  if (given === undefined) return error
  // Only a file has places of its own.
  const place = option?.[1].value === 'file' && rest.length > 0 ? ` (${rest.join('.')})` : ''
  const named = [`'${param}'`, `"${param}"`].find((one) => message.includes(one))
  const words = named === undefined ? `${given}: ${message}` : message.replace(named, given + place)
  return new CommandError(words, 2, { status, param })
}

export interface Admin {
  /** The URL of the gateway, without a trailing slash. */
  readonly url: string
  /** The body of a successful response, with exact numbers. @param revision that the object has to have. @throws Refused, CommandError without an answer */
  ask(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: object,
    revision?: number,
  ): Promise<any>
  /** A response that is no JSON: a table, or a stream of events. @throws Refused, CommandError without an answer */
  open(path: string): Promise<Response>
  list(path: string): Promise<any[]>
  close(): Promise<void>
}

/**
 * Connects to a gateway: with `--data` to one that this process runs on that folder, else to one that runs. Address
 * and token come from the options, else from the environment, else from the configuration, else from the data
 * folder.
 * @param begins whether a ledger is begun where the folder of `--data` has none
 * @throws ConfigError if the configuration is needed and not valid
 * @throws CommandError if there is no token, or no ledger
 */
export async function connect(args: Arguments, begins = false): Promise<Admin> {
  if (args.text.data !== undefined) {
    const { openFolder } = await import('./folder.ts')
    const { url, token, close } = await openFolder(args, begins)
    return adminAt({ url, token, origin: 'of the folder' }, DIRECT, close)
  }
  const options = {
    url: args.text.url,
    token: args.text.token ?? (process.env.SLUICEGATE_ADMIN_TOKEN || undefined),
  }
  const loaded =
    options.url === undefined || options.token === undefined
      ? (await configurationOf(args)).loaded
      : undefined
  const config = loaded?.config
  const running =
    options.url === undefined && config!.state.driver === 'file'
      ? (await import('../state/sqlite/folder.ts')).runningGateway(config!.state.path)
      : undefined
  const url = (options.url ?? running?.url ?? urlOf(config!)).replace(/\/+$/, '')
  const token =
    options.token ??
    config?.admin.token ??
    (config?.admin.enabled ? readAdminToken(config.state) : undefined)
  if (token === undefined) {
    throw new CommandError(`There is no admin token: ${withoutToken(config, options.url)}`)
  }
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    const wrong = JSON.stringify(url)
    throw new CommandError(`--url takes an address such as http://127.0.0.1:8787, not ${wrong}.`, 2)
  }
  const origin =
    args.text.token !== undefined
      ? 'of --token'
      : options.token !== undefined
        ? 'in SLUICEGATE_ADMIN_TOKEN'
        : config?.admin.token !== undefined
          ? 'of the configuration'
          : `in ${adminTokenFile(config!.state)}`
  return adminAt({ url, token, origin }, routeOf(loaded))
}

/** The reason why there is no token, and the remedy. @param url the address that was asked for */
function withoutToken(config: Config | undefined, url: string | undefined): string {
  if (config?.admin.enabled === false) return 'the configuration has admin.enabled: false.'
  const file = config && adminTokenFile(config.state)
  if (url !== undefined || file === undefined) return NO_TOKEN
  if (existsSync(file)) return `${file} cannot be read.`
  return `no gateway has started in ${dirname(file)}. "sluicegate serve" starts one; of another one name the folder in SLUICEGATE_DATA, or --url and --token.`
}

/** @param gateway its address, its token, and the place that the token is from */
function adminAt(
  { url, ...gateway }: { readonly url: string; readonly token: string; readonly origin: string },
  route: EgressRoute,
  closeGateway?: Admin['close'],
): Admin {
  const http = openHttp(route, { timeoutMs: TIMEOUT_MS, limitBytes: Infinity })
  const target = { base: `${url}/admin`, ...gateway, client: http.client }
  const ask: Admin['ask'] = (method, path, body, revision) =>
    request(target, method, path, body, revision)
  const open: Admin['open'] = (path) => openAnswer(target, path)
  const close = async () => {
    await http.close()
    await closeGateway?.()
  }
  return { url, ask, open, list: (path) => collect(ask, path), close }
}

interface Target {
  readonly base: string
  readonly token: string
  readonly origin: string
  readonly client: $Fetch
}

function urlOf({ server: { host, port, tls } }: Config): string {
  return callableUrl(
    `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`,
  )
}

async function request(
  { base, token, origin, client }: Target,
  method: string,
  path: string,
  body?: object,
  revision?: number,
): Promise<any> {
  const response = await client
    .raw<string, 'text'>(base + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(revision !== undefined && { 'if-match': `"${revision}"` }),
      },
      responseType: 'text',
      ignoreResponseError: true,
      ...(body && { body }),
    })
    .catch((error: unknown) => {
      throw unreachable(base, error)
    })
  const answer = parsed(response._data ?? '')
  if (response.ok && answer?.data !== undefined) return answer
  const error = answer?.error
  if (error?.code === 'unknown_url') {
    throw new CommandError(`The gateway at ${base} has no admin API: ${NO_TOKEN}`)
  }
  if (typeof error?.message !== 'string') {
    throw new CommandError(
      `The server at ${base} is not a gateway (status ${response.status}): correct --url or the port.`,
    )
  }
  throw refusalOf(error, response.status, { base, origin })
}

async function openAnswer(
  { base, token, origin, client }: Target,
  path: string,
): Promise<Response> {
  const response = await client
    .raw<ReadableStream, 'stream'>(base + path, {
      headers: { authorization: `Bearer ${token}` },
      responseType: 'stream',
      ignoreResponseError: true,
      timeout: 0,
    })
    .catch((error: unknown) => {
      throw unreachable(base, error)
    })
  if (response.ok) return response
  const { error } = parsed(await response.text()) ?? {}
  throw refusalOf(error, response.status, { base, origin })
}

/** What the gateway said; of a wrong token also which one it was. */
function refusalOf(
  error: any,
  status: number,
  { base, origin }: Pick<Target, 'base' | 'origin'>,
): Refused {
  const message =
    status === 401
      ? `The gateway at ${new URL(base).origin} does not know the admin token ${origin}.`
      : (error?.message ?? `status ${status}`)
  return new Refused(message, status, error?.param ?? null)
}

async function collect(ask: Admin['ask'], path: string): Promise<any[]> {
  const items: any[] = []
  let page = `${path}${path.includes('?') ? '&' : '?'}limit=200`
  const first = page
  for (;;) {
    const { data, next } = await ask('GET', page)
    items.push(...data)
    if (!next) return items
    page = `${first}&after=${encodeURIComponent(next)}`
  }
}

function unreachable(base: string, error: unknown): CommandError {
  const where = new URL(base).origin
  const { connection, cause } = error as Partial<UpstreamFailure>
  if (connection?.code === 'ECONNREFUSED' && connection.via === undefined) {
    return new CommandError(
      `No gateway answers at ${where}; start one with "sluicegate", or name it with --url.`,
    )
  }
  const reason = cause instanceof Error ? cause : (error as Error)
  return new CommandError(`The gateway at ${where} cannot be reached: ${reason.message}.`)
}

function parsed(text: string): any {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}
