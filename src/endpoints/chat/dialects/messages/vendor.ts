/** Features that only a vendor with this API understands: tools that it defines, headers. */
import { InvalidRequest } from '../../../../errors/errors.ts'
import type { Incoming } from '../../../../pipeline/http.ts'

export const WEB_SEARCH = /^web_search_/
const CLIENT_TOOLS = /^(bash|text_editor|computer|memory)_/
/** Tools that the vendor runs, and that cost nothing but tokens. */
const FREE_TOOLS = /^(web_fetch|tool_search_tool)_/

const VERSION = 'anthropic-version'
const BETA = 'anthropic-beta'
const DEFAULT_VERSION = '2023-06-01'

export function isOwn({ type }: { readonly type?: string | null }): boolean {
  return (type ?? 'custom') === 'custom'
}

/**
 * Whether a tool may go to the vendor. One that the vendor runs costs money, and brings in text that no guard has read.
 * @param prices of the model
 */
export function mayKeep(
  tool: { readonly type?: string | null },
  prices: Readonly<Record<string, unknown>>,
  guarded: boolean,
): boolean {
  if (isOwn(tool)) return true
  const type = tool.type!
  if (CLIENT_TOOLS.test(type)) return true
  if (guarded) return false
  return FREE_TOOLS.test(type) || (WEB_SEARCH.test(type) && prices.web_search !== undefined)
}

export function notOffered({ name }: { readonly name: string }): InvalidRequest {
  const shown = JSON.stringify(String(name).slice(0, 64))
  const message = `Invalid 'tool_choice': the tool ${shown} is not offered here.`
  return new InvalidRequest('unsupported_value', message, { param: 'tool_choice' })
}

/** Headers of the client that the vendor gets. No other one is passed: some choose what the operator pays for. */
export function nativeHeaders(header: Incoming['header']): Record<string, string> {
  const version = header(VERSION)?.trim()
  const betas = betasOf(header(BETA))
  return {
    [VERSION]: version && isName(version) ? version : DEFAULT_VERSION,
    ...(betas.length > 0 && { [BETA]: betas.join(',') }),
  }
}

/** Whether the client has asked for beta features, which may send new kinds of events. */
export function knowsBetas(headers: Readonly<Record<string, string>> = {}): boolean {
  return headers[BETA] !== undefined
}

/** The betas without fast modes, which have another price. */
function betasOf(value = ''): string[] {
  const names = value.split(',').map((name) => name.trim())
  return names.filter((name) => isName(name) && !name.startsWith('fast-mode-'))
}

function isName(text: string): boolean {
  return /^[\w.-]{1,100}$/.test(text)
}
