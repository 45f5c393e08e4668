/** Output of a start: for a person the text of {@link welcome}, for a program the members of {@link started}. */
import { styleText } from 'node:util'
import type { Gateway } from './gateway.ts'
import { vendorsInWords, written } from '../models/by-vendor.ts'
import { formatPico, parsePico } from '../money/money.ts'
import { adminTokenFile } from './admin-token.ts'
import { LOCAL, type SeedReport } from './seed.ts'

export const NO_TOKEN =
  'set SLUICEGATE_ADMIN_TOKEN (8 characters or more) and, in a configuration of your own, ' +
  'admin: { token: "${SLUICEGATE_ADMIN_TOKEN}" }; then start the gateway again.'

/** Text in place of the folder, which is gone with the process. */
const DEMO = 'invented: 30 days of calls, written now; they end with this process'
const NAMED = 3
/** Column where the texts beside the names of lines begin. */
const INDENT = 13
/** No line is longer, but for secrets, links and paths. */
const WIDTH = 80

/** A URL that clients can call: the address of all interfaces is replaced by a local one. */
export function callableUrl(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
}

/**
 * The text that a start prints: address, key, data folder, models, and a call to try.
 * @param listening the server's URL, without `/v1`
 * @param hints ways to further models
 * @param consoleLink signs in to the console; without it, the address of the console is shown
 */
export function welcome(
  report: SeedReport,
  gateway: Gateway,
  listening: string,
  hints: readonly string[] = [],
  consoleLink?: string,
): string {
  const { catalog, config } = gateway.runtime
  const url = config.server.publicUrl ?? callableUrl(listening)
  // A model that a person wrote comes first: those of a vendor's key may be old, and the key wrong.
  const models = [...written(catalog.all()), ...catalog.all()]
  const model = models.find(({ modality }) => modality === 'chat')
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['API key', keyText(report)],
    ['Console', consoleText(gateway, url, consoleLink)],
    ['Admin', adminText(gateway, url)],
    ['Data', gateway.demo ? DEMO : dataText(config.state)],
    ['Models', modelsText(gateway, hints)],
  ]
  const lines = [
    `${bold(`Sluicegate ${gateway.version}`)}   ${bold(url)}`,
    '',
    ...rows.flatMap(([name, text]) => {
      if (text === undefined) return []
      const [first, ...rest] = text.split('\n').flatMap(folded)
      return [
        `  ${name.padEnd(INDENT - 3)} ${first}`,
        ...rest.map((one) => ' '.repeat(INDENT) + one),
      ]
    }),
    ...(model ? ['', 'Try it:', '', ...curlLines(url, report.secret ?? '$API_KEY', model.id)] : []),
  ]
  return `${lines.join('\n')}\n\n`
}

/** The same for programs, as an event of the log. A key is in it only if one was requested. */
export function started(
  { secret }: SeedReport,
  gateway: Gateway,
  listening: string,
): Readonly<Record<string, unknown>> {
  const { catalog, config } = gateway.runtime
  return {
    at: new Date(gateway.startedAt).toISOString(),
    level: 'info',
    event: 'started',
    message: `listening at ${listening}`,
    version: gateway.version,
    url: listening,
    ...(gateway.demo && { demo: true }),
    data: config.state.driver === 'file' ? config.state.path : null,
    state: config.state.driver,
    models: catalog.all().length,
    ...(secret !== undefined && { key: secret }),
  }
}

function keyText({ accounts, keys, secret, account, needsKey }: SeedReport): string | undefined {
  if (secret !== undefined) {
    const usd = formatPico(parsePico(LOCAL.usd))
    const owner = account === undefined ? `"${LOCAL.id}", ${usd} USD` : `"${account}"`
    return `${bold(secret)}\nshown only now; account ${owner}`
  }
  if (needsKey) {
    return (
      `none yet: "sluicegate keys create ${LOCAL.id} --name first" makes one. A start makes it on a terminal, ` +
      'with --print-key, or from SLUICEGATE_FIRST_KEY.'
    )
  }
  return accounts.length + keys.length === 0 ? undefined : [...accounts, ...keys].join(', ')
}

function adminText({ runtime: { config }, madeToken }: Gateway, url: string): string {
  if (!config.admin.enabled) return 'off: admin.enabled is false'
  if (config.admin.token === undefined && config.admin.tokens.length === 0)
    return `off: ${NO_TOKEN}`
  const file = madeToken ? adminTokenFile(config.state) : undefined
  return `${url}/admin\n${file === undefined ? 'with admin.token' : `token in ${file}`}`
}

function consoleText({ runtime }: Gateway, url: string, link?: string): string | undefined {
  const { console: isOn, token, tokens } = runtime.config.admin
  if (!isOn || (token === undefined && tokens.length === 0)) return undefined
  return link === undefined ? `${url}/console` : `${link}\nworks once, for 15 minutes`
}

function dataText(state: Gateway['runtime']['config']['state']): string | undefined {
  if (state.driver === 'file') return state.path
  return state.driver === 'memory'
    ? 'in memory: accounts, keys and credits end with this process'
    : undefined
}

function modelsText({ runtime: { catalog } }: Gateway, hints: readonly string[]): string {
  const vendors = vendorsInWords(catalog.offered())
  const all = written(catalog.all()).map(({ id }) => id)
  const rest = all.length - NAMED
  const named = all.slice(0, NAMED).join(', ') || (vendors === undefined ? 'none' : '')
  const count = all.length > 0 ? `${all.length}: ` : ''
  const text = `${count}${named}${rest > 0 ? ` and ${rest} others` : ''}`
  return [
    ...(vendors === undefined ? [] : [vendors]),
    ...(text === '' ? [] : [text]),
    ...hints,
  ].join(';\n')
}

function curlLines(url: string, secret: string, model: string): string[] {
  const body = { model, messages: [{ role: 'user', content: 'Hello' }] }
  return [
    `  curl ${url}/v1/chat/completions \\`,
    `    -H "Authorization: Bearer ${secret}" \\`,
    '    -H "Content-Type: application/json" \\',
    `    -d '${JSON.stringify(body)}'`,
  ]
}

/** A text in lines that have room beside the names; words are not broken. */
function folded(text: string): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!
    if (line !== '' && line.length + word.length >= WIDTH - INDENT) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines
}

/** Bold text on a terminal only: in a file or a pipe, codes are noise. */
function bold(text: string): string {
  return styleText('bold', text, { stream: process.stdout })
}
